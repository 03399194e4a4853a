"""ClientSecurity: how a client proves who it is and whom it trusts, from its properties.

It travels to other processes with its properties, and shows none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.errors import UsageError
from kcli.security.principal import ANONYMOUS, USER_TYPE

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from kcli.security.sasl import SaslClient
    from kcli.security.tls_settings import TlsSettings

NAMES = ("ssl.", "sasl.", "security.providers")
"""The properties, or what they begin with, that this looks at."""


class ClientSecurity:
    """TLS and login of a client's connections. Raises `UsageError` for properties that cannot work."""

    def __init__(self, protocol: str, properties: Mapping[str, str]) -> None:
        self.protocol = protocol
        self.is_tls = protocol.endswith("SSL")
        self.is_sasl = protocol.startswith("SASL")
        self._properties = {name: value for name, value in properties.items() if name.startswith(NAMES)}
        self._context: ssl.SSLContext | None = None
        refuse_foreign_classes(self._properties)
        if self.is_sasl:
            self.sasl_client()
        if self.is_tls:
            self.tls_settings()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_context": None}

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientSecurity):
            return NotImplemented
        return (self.protocol, self._properties) == (other.protocol, other._properties)

    def __hash__(self) -> int:
        return hash((self.protocol, *self._properties))

    @property
    def user(self) -> str:
        """Return the name that the client logs in with; "" if only the broker can tell it."""
        from kcli.security.sasl_client import user_of

        return user_of(self._properties) if self.is_sasl else ""

    @property
    def principal(self) -> str:
        """Return whom an authorizer sees unless rules map the name; "" if only the broker knows."""
        if self.is_sasl:
            return f"{USER_TYPE}:{self.user}" if self.user else ""
        store = self.tls_settings().key_store
        if store is None:
            return str(ANONYMOUS)
        from kcli.security.certificates.distinguished_name import subject_of
        from kcli.security.certificates.key_stores import read_store

        return f"{USER_TYPE}:{subject_of(read_store(store).chain[0])}"

    @property
    def has_key(self) -> bool:
        """Return whether the client has a certificate to show."""
        return self.tls_settings().key_store is not None

    def tls_settings(self) -> TlsSettings:
        """Return the `ssl.` properties, checked."""
        from kcli.security.tls_settings import TlsSettings

        return TlsSettings.from_properties(self._properties, "client")

    def tls_context(self) -> ssl.SSLContext:
        """Return the context of all connections; the stores are read once."""
        if self._context is None:
            from kcli.security.tls_context import client_context

            self._context = client_context(self.tls_settings())
        return self._context

    def sasl_client(self) -> SaslClient:
        """Return a new login."""
        from kcli.security.sasl_client import sasl_client

        return sasl_client(self._properties)

    def portable(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return properties in which PEM text takes the place of the stores' files, for other machines."""
        from kcli.security.certificates.key_stores import read_store
        from kcli.security.certificates.pem import to_pem

        found = dict(properties)
        settings = self.tls_settings()
        if settings.key_store is not None:
            _forget(found, "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
            key = read_store(settings.key_store)
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.key"] = key.key
            found["ssl.keystore.certificate.chain"] = to_pem(key.chain)
            if key.key_password is not None:
                found["ssl.key.password"] = key.key_password.reveal()
        if settings.trust_store is not None:
            _forget(found, "ssl.truststore.location", "ssl.truststore.password")
            found["ssl.truststore.type"] = "PEM"
            found["ssl.truststore.certificates"] = to_pem(read_store(settings.trust_store).trusted)
        return found


def _forget(properties: dict[str, str], *names: str) -> None:
    for name in names:
        properties.pop(name, None)


FOREIGN_CLASSES = (
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
)  # fmt: skip
"""Properties that name a Java class which decides who logs in."""


def refuse_foreign_classes(properties: Mapping[str, str]) -> None:
    """Raise `UsageError` for a class that kcli cannot run: it would log somebody else in, or nobody."""
    for name in FOREIGN_CLASSES:
        value = properties.get(name, "").strip()
        if value and not value.startswith("org.apache.kafka."):
            raise UsageError(
                f"cannot use `{name}` {value}: kcli runs no Java classes",
                hint="leave it out, and give the credentials in `sasl.jaas.config`",
            )
