"""ClientSecurity: how a client proves who it is and whom it trusts, from its properties.

It travels to other processes with its properties, and shows none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.errors import UsageError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from kcli.security.sasl_client import SaslClient


class ClientSecurity:
    """TLS and login of a client's connections. Raises `UsageError` for properties that cannot work."""

    def __init__(self, protocol: str, properties: Mapping[str, str]) -> None:
        self.protocol = protocol
        self.is_tls = protocol.endswith("SSL")
        self.is_sasl = protocol.startswith("SASL")
        self._properties = {
            name: value for name, value in properties.items() if name.startswith(("ssl.", "sasl."))
        }
        self._context: ssl.SSLContext | None = None
        refuse_foreign_classes(self._properties)
        if self.is_sasl:
            self.sasl_client()

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
    def has_key(self) -> bool:
        """Return whether the client has a certificate to show."""
        return any(self._properties.get(name) for name in ("ssl.keystore.location", "ssl.keystore.key"))

    def tls_context(self) -> ssl.SSLContext:
        """Return the context of all connections; the stores are read once."""
        if self._context is None:
            self._context = _context(self._properties)
        return self._context

    def sasl_client(self) -> SaslClient:
        """Return a new login."""
        from kcli.security.sasl_client import sasl_client

        return sasl_client(self._properties)


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=properties.get("ssl.truststore.location"))
    key = properties.get("ssl.keystore.location")
    if key:
        context.load_cert_chain(key)
    return context


FOREIGN_CLASSES = (
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "ssl.engine.factory.class",
)  # fmt: skip
"""Properties that name a Java class which decides who logs in or who is trusted."""


def refuse_foreign_classes(properties: Mapping[str, str]) -> None:
    """Raise `UsageError` for a class that kcli cannot run: who relies on it is not to be let down."""
    for name in FOREIGN_CLASSES:
        value = properties.get(name, "").strip()
        if value and not value.startswith("org.apache.kafka."):
            raise UsageError(
                f"cannot use `{name}` {value}: kcli runs no Java classes",
                hint="leave it out, and name the credentials in `sasl.jaas.config` or `ssl.` properties",
            )
