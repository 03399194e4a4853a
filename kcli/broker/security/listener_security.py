"""How the clients of each listener are let in, as its security protocol demands."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.network.listener_security import ListenerSecurity, PlaintextListener
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.tls_transport import TlsListener, TlsTransport
from kcli.errors import UsageError
from kcli.security.certificates.distinguished_name import subject_of
from kcli.security.principal import USER_TYPE, Principal
from kcli.security.principal_rules import PrincipalRules
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

_log = logging.getLogger(__name__)


def listener_security(node: NodeContext, engine: Engine, listener: ListenerConfig) -> ListenerSecurity:
    """Return the security of a listener of a node, whose APIs `engine` has.

    Raises `UsageError` if its key or trust store cannot be used.
    """
    plain = TlsSecurity(node.config, listener) if listener.is_tls else PlaintextListener()
    if not listener.is_sasl:
        return plain
    from kcli.broker.security.sasl_listener import SaslListener

    return SaslListener(node, engine, listener, plain.transport)


def tls_settings(config: BrokerConfig, listener: ListenerConfig) -> TlsSettings:
    """Return how a listener speaks TLS. Raises `UsageError`."""
    properties = config.listener_properties(listener.name)
    settings = TlsSettings.from_properties(properties.beginning_with("ssl."), "server")
    if listener.is_sasl and not properties.is_own("ssl.client.auth"):
        # SASL says who a client is, so a certificate is asked for only if this listener is told to (KIP-684).
        return settings._replace(client_auth="none")
    return settings


class TlsSecurity:
    """TLS: the client is who its certificate says, or ANONYMOUS without one."""

    security_protocol = "SSL"

    def __init__(self, config: BrokerConfig, listener: ListenerConfig) -> None:
        try:
            settings = tls_settings(config, listener)
            self.tls = TlsListener(listener.name, server_context(settings))
            rules = config.listener_properties(listener.name).text("ssl.principal.mapping.rules")
            self._rules = PrincipalRules.parse("DEFAULT" if rules is None else rules)
        except UsageError as error:
            raise UsageError(f"listener `{listener.name}`: {error.message}", hint=error.hint) from error
        for line in settings.warnings():
            _log.warning("listener `%s`: %s", listener.name, line)

    def transport(self, sock: socket.socket) -> Transport:
        return TlsTransport(sock, self.tls)

    def login(self, visitor: Visitor, engine: Engine) -> Login | None:
        return None

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Let a client act as its certificate says. Raises `CloseConnection` if no rule maps its name."""
        assert isinstance(transport, TlsTransport)
        certificate = transport.peer_certificate
        if certificate is None:
            return
        try:
            subject = subject_of(certificate)
        except ValueError as error:
            raise CloseConnection(f"its certificate has a malformed name: {error}") from error
        name = self._rules.name_of(subject)
        if name is None:
            raise CloseConnection(f"no rule of `ssl.principal.mapping.rules` matches `{subject}`")
        context.admit(Principal(USER_TYPE, name))
