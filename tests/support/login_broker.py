"""A kcli broker whose clients log in by PLAIN, with a listener for each security protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.security.jaas import PLAIN_MODULE
from tests.support.kcli_broker import KcliBroker
from tests.support.ports import free_ports
from tests.support.tls_pair import write_pem

if TYPE_CHECKING:
    from pathlib import Path

LISTENERS = {
    "OPEN": "PLAINTEXT",
    "TLS": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "SAFE": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
"""The security protocol of each; sessions of SHORT have an end, and LOGIN knows a user of its own."""
SESSION_MS = 1500
PASSWORDS = {"alice": "alice-s3cret", "bob": "bob-s3cret"}
"""Users of all listeners: `alice` and who does not log in may do everything, `bob` nothing."""
CAROL = "carol-s3cret"
"""The password of `carol`, a user of LOGIN."""


class LoginBroker(KcliBroker):
    """Node 1 of `directory/data`, with an authorizer."""

    def __init__(self, directory: Path) -> None:
        import trustme

        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.trusted = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.trusted)
        store = write_pem(authority.issue_cert("localhost"), directory / "broker.pem")
        own_user = f'{PLAIN_MODULE} required user_carol="{CAROL}";'
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        super().__init__(
            directory,
            arguments=("--acls", "--verbose"),
            environment={"KCLI_USERS": " ".join(f"{name}={text}" for name, text in PASSWORDS.items())},
            settings={
                "listeners": ",".join(f"{name}://localhost:{port}" for name, port in self.ports.items()),
                "listener.security.protocol.map": ",".join(map(":".join, LISTENERS.items())),
                "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
                "super.users": "User:ANONYMOUS;User:alice;User:carol",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(store),
                "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
                "listener.name.login.plain.sasl.jaas.config": own_user,
            },
        )

    def address(self, listener: str) -> str:
        """Return where a listener is."""
        return f"localhost:{self.ports[listener]}"

    def librdkafka(self, listener: str, user: str = "alice", password: str | None = None) -> dict[str, str]:
        """Return what a client on librdkafka is configured with."""
        protocol = LISTENERS[listener]
        config = {"bootstrap.servers": self.address(listener), "security.protocol": protocol.lower()}
        if protocol.endswith("SSL"):
            config["ssl.ca.location"] = str(self.trusted)
        if protocol.startswith("SASL"):
            config |= {
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": PASSWORDS[user] if password is None else password,
            }
        return config

    def java(self, path: Path, listener: str, *, password: str = PASSWORDS["alice"], **more: str) -> Path:
        """Write the properties of a Java client of `alice` to a file; `_` stands for a point in names."""
        properties = {
            "bootstrap.servers": self.address(listener),
            "security.protocol": LISTENERS[listener],
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="{password}";',
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        return path
