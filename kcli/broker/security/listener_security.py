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
    from kcli.broker.network.listener_security import Login, Visitor
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.transport import Transport
    from kcli.broker.node_context import NodeContext


def listener_security(node: NodeContext, engine: Engine, listener: ListenerConfig) -> ListenerSecurity:
    """Return the security of a listener of a node, whose APIs `engine` has.

    Raises `UsageError` if its key or trust store cannot be used.
    """
    plain = TlsSecurity(listener.name, node.config) if listener.is_tls else PlaintextListener()
    if not listener.is_sasl:
        return plain
    from kcli.broker.security.sasl_listener import SaslListener

    return SaslListener(node, engine, listener, plain.transport)


class TlsSecurity:
    """TLS: the client is who its certificate says, or ANONYMOUS without one."""

    security_protocol = "SSL"

    def __init__(self, name: str, config: BrokerConfig) -> None:
        try:
            settings = TlsSettings.from_properties(
                config.listener_properties(name).beginning_with("ssl."), "server"
            )
            self.tls = TlsListener(name, server_context(settings))
        except UsageError as error:
            raise UsageError(f"listener `{name}`: {error.message}", hint=error.hint) from error

    def transport(self, sock: socket.socket) -> Transport:
        return TlsTransport(sock, self.tls)

    def login(self, visitor: Visitor, engine: Engine) -> Login | None:
        return None

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Leave the principal ANONYMOUS: no listener asks for certificates yet."""
