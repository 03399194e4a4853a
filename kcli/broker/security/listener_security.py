"""How the clients of each listener are let in, as its security protocol demands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.network.listener_security import ListenerSecurity, PlaintextListener
from kcli.broker.network.tls_transport import TlsListener, TlsTransport
from kcli.errors import UsageError
from kcli.security.tls_context import server_context
from kcli.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    import socket

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.listener_config import ListenerConfig
    from kcli.broker.network.listener_security import EngineUser
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.transport import Transport


def listener_security(config: BrokerConfig, listener: ListenerConfig) -> ListenerSecurity:
    """Return the security of a listener; raise `UsageError` if its key or trust store cannot be used."""
    if listener.security_protocol == "SSL":
        return TlsSecurity(listener.name, config)
    return PlaintextListener()


class TlsSecurity:
    """TLS: the client is who its certificate says, or ANONYMOUS without one."""

    security_protocol = "SSL"

    def __init__(self, name: str, config: BrokerConfig) -> None:
        try:
            settings = TlsSettings.from_properties(config.listener_properties(name), "server")
            self.tls = TlsListener(name, server_context(settings))
        except UsageError as error:
            raise UsageError(f"listener `{name}`: {error.message}", hint=error.hint) from error

    def transport(self, sock: socket.socket) -> Transport:
        return TlsTransport(sock, self.tls)

    def first_engine(self, connection: EngineUser, context: RequestContext, engine: Engine) -> Engine:
        return engine

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Leave the principal ANONYMOUS: no listener asks for certificates yet."""
