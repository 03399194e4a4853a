"""A kcli broker with a TLS listener beside a PLAINTEXT one, and what clients need to trust it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.guarded_brokers import write_pem
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import trustme


class TlsBroker(KcliBroker):
    """Node 1 of `directory/data`; `key_store` and `trusted` are PEM files beside it."""

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        import trustme

        self.authority: trustme.CA = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = directory / "ca.pem"
        self.authority.cert_pem.write_to_path(self.trusted)
        self.key_store = directory / "broker.pem"
        self.issue("localhost", "127.0.0.1", common_name="broker")
        self.plaintext_port, self.tls_port = free_ports(2)
        super().__init__(
            directory,
            settings={
                "listeners": f"PLAINTEXT://127.0.0.1:{self.plaintext_port},SSL://127.0.0.1:{self.tls_port}",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key_store),
                **(settings or {}),
            },
        )

    @property
    def tls_bootstrap(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    @property
    def librdkafka(self) -> dict[str, str]:
        """What a client on librdkafka is configured with."""
        return {
            "bootstrap.servers": self.tls_bootstrap,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.trusted),
        }

    def issue(self, *names: str, common_name: str | None = None) -> None:
        """Put a new key and certificate into the key store."""
        certificate = self.authority.issue_cert(
            *names, common_name=common_name, organization_unit_name="tests"
        )
        write_pem(certificate, self.key_store)

    def java_config(self, path: Path) -> Path:
        """Write the properties of a Java client to a file; return its path."""
        path.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.trusted}\n"
        )
        return path

    def s_client(self, *options: str, stdin: bytes = b"") -> str:
        """Run `openssl s_client` against the TLS listener; return what it says."""
        command = ["openssl", "s_client", "-connect", self.tls_bootstrap, "-CAfile", str(self.trusted)]
        finished = subprocess.run([*command, *options], input=stdin, capture_output=True, timeout=30)
        return (finished.stdout + finished.stderr).decode(errors="replace")
