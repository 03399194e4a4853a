"""TlsFiles: the keys and certificates of `broker start --tls auto`, in the directory `<data-dir>/tls`.

| file | what it is |
|---|---|
| `ca.pem`, `ca-key.pem` | an authority of this directory, valid for a year |
| `broker.pem` | the key of all nodes and its certificate, valid for 30 days |
| `truststore.p12` | the authority for Java clients before 2.7, which read no PEM; password `changeit` |
| `client.properties` | what a client needs to connect |

The directory is for its owner only, and so is each file. A start replaces what ends within 7 days, a
certificate without the name of an advertised host, and files that are missing.
"""

from __future__ import annotations

import logging
import shutil
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.properties import format_properties
from kcli.security.certificates.certificate import Certificate
from kcli.security.certificates.certificate_authority import (
    RENEWED_DAYS,
    TRUST_STORE_PASSWORD,
    CertificateAuthority,
    plain_name,
)
from kcli.security.certificates.pem import certificates_of, private_key_of
from kcli.security.certificates.private_files import make_private_directory, write_private_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

DIRECTORY = "tls"
_log = logging.getLogger(__name__)

_USUAL_NAMES = ("localhost", "127.0.0.1", "::1")
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class TlsFiles:
    """The files of one data directory. `prepare` makes them or keeps them."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir.absolute() / DIRECTORY
        self.authority = self.directory / "ca.pem"
        self.key_store = self.directory / "broker.pem"
        self.client_properties = self.directory / "client.properties"
        self._is_new = False
        self._authority_key = self.directory / "ca-key.pem"
        self._trust_store = self.directory / "truststore.p12"

    def prepare(self, hosts: Iterable[str], now: datetime) -> None:
        """Make what is missing or ends soon. Raises `KcliError` if it cannot be read or written."""
        names = wanted_names(hosts)
        try:
            self._is_new = not self.directory.exists()
            make_private_directory(self.directory)
            authority = self._usable_authority(now)
            if not self._is_key_usable(names, now):
                write_private_file(
                    self.key_store, authority.issue("CN=kcli broker", names, now, is_client=False)
                )
        except OSError as error:
            raise KcliError(f"cannot make `{error.filename or self.directory}`: {error.strerror}") from error

    def discard_if_new(self) -> None:
        """Remove what `prepare` has made in a new directory: the broker did not start."""
        if self._is_new:
            shutil.rmtree(self.directory, ignore_errors=True)

    def add_properties(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the broker's properties with those for these files; a trust store in `given` stays."""
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.key_store)}
        if not any(name.startswith("ssl.truststore.") for name in given):
            own |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        return {**given, **own}

    def write_client_properties(
        self, bootstrap: str, security_protocol: str, *, client_auth: str = "none"
    ) -> None:
        """Write what a client needs, once the addresses are known. Raises `KcliError`.

        What is a client's own, its login and its certificate, is left to a comment.
        """
        lines = {
            "bootstrap.servers": bootstrap,
            "security.protocol": security_protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        older = {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self._trust_store),
            "ssl.truststore.password": TRUST_STORE_PASSWORD,
        }
        note = (
            "# Java clients before Kafka 2.7 read no PEM. They need these lines in place of the last two:\n"
        )
        comments = "".join(f"# {line}\n" for line in format_properties(older).splitlines())
        text = format_properties(lines) + note + comments
        if security_protocol.startswith("SASL"):
            text += "# The broker wants a login: add sasl.mechanism, and sasl.jaas.config with its user.\n"
        if client_auth != "none":
            text += "# The broker asks for a certificate: `kcli tls client-cert CN=name` makes one.\n"
        try:
            write_private_file(self.client_properties, text.encode("ascii"))
        except OSError as error:
            raise KcliError(f"cannot write `{self.client_properties}`: {error.strerror}") from error

    def _usable_authority(self, now: datetime) -> CertificateAuthority:
        """Return the authority; a new one if there is none, or it ends soon."""
        authority = self._read_authority()
        if authority is None or _ends_soon(authority.certificate.not_valid_after_utc, now):
            if authority is not None:
                _log.warning("`%s` ends soon and is replaced: clients need the new one", self.authority)
            authority = CertificateAuthority.make(now)
            write_private_file(self._authority_key, authority.key_pem)
            write_private_file(self.authority, authority.certificate_pem)
            write_private_file(self._trust_store, authority.trust_store)
        elif not self._trust_store.exists():
            write_private_file(self._trust_store, authority.trust_store)
        return authority

    def _read_authority(self) -> CertificateAuthority | None:
        if not self.authority.exists():
            return None
        try:
            return CertificateAuthority.load(self.authority.read_bytes(), self._authority_key.read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise KcliError(
                f"cannot use the authority in `{self.directory}`: {error}",
                hint=f"remove `{self.directory}`: the next start makes one, which clients have to trust",
            ) from error

    def _is_key_usable(self, names: list[str], now: datetime) -> bool:
        """Return whether the broker's certificate is the authority's, has all names, and lasts."""
        try:
            text = self.key_store.read_text(encoding="ascii")
            private_key_of(text)
            certificate = Certificate.parse(certificates_of(text)[0])
            authority = Certificate.parse(certificates_of(self.authority.read_text(encoding="ascii"))[0])
        except FileNotFoundError:
            return False
        except ValueError as error:
            _log.warning("`%s` is replaced: %s", self.key_store, error)
            return False
        if not set(names) <= set(certificate.names) or certificate.issuer != authority.subject:
            return False
        return not _ends_soon(certificate.not_after, now)


def wanted_names(hosts: Iterable[str]) -> list[str]:
    """Return the names of the broker's certificate: this machine's, and those that clients are told."""
    advertised = (host for host in hosts if host not in _EVERY_ADDRESS)
    names = (*_USUAL_NAMES, socket.gethostname(), *advertised)
    return list(dict.fromkeys(plain_name(name) for name in names))


def _ends_soon(end: datetime, now: datetime) -> bool:
    return end - now < timedelta(days=RENEWED_DAYS)
