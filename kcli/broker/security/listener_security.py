"""How the clients of each listener are let in, as its security protocol demands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.network.listener_security import ListenerSecurity, PlaintextListener
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.tls_transport import TlsTransport
from kcli.errors import UsageError
from kcli.security.certificates.distinguished_name import subject_of
from kcli.security.principal import USER_TYPE, Principal
from kcli.security.principal_rules import PrincipalRules

if TYPE_CHECKING:
    import socket

    from kcli.broker.config.broker_config import BrokerConfig
    from kcli.broker.config.listener_config import ListenerConfig
    from kcli.broker.network.listener_security import Login, Visitor
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.tls_transport import TlsListener
    from kcli.broker.network.transport import Transport
    from kcli.broker.node_context import NodeContext
    from kcli.broker.security.tls_contexts import TlsContexts


def listener_security(
    node: NodeContext, engine: Engine, listener: ListenerConfig, contexts: TlsContexts
) -> ListenerSecurity:
    """Return the security of a listener of a node, whose APIs `engine` has; `contexts` keeps its stores.

    Raises `UsageError` if its key or trust store cannot be used.
    """
    plain: ListenerSecurity = PlaintextListener()
    if listener.is_tls:
        plain = TlsSecurity(contexts.open(node.config, listener), _mapping_rules(node.config, listener.name))
    if not listener.is_sasl:
        return plain
    from kcli.broker.security.sasl_listener import SaslListener

    return SaslListener(node, engine, listener, plain.transport)


def _mapping_rules(config: BrokerConfig, listener_name: str) -> PrincipalRules:
    text = config.listener_properties(listener_name).text("ssl.principal.mapping.rules")
    try:
        return DEFAULT_RULES if text is None else PrincipalRules.parse(text)
    except UsageError as error:
        raise UsageError(f"listener `{listener_name}`: {error.message}", hint=error.hint) from error


DEFAULT_RULES = PrincipalRules.parse("DEFAULT")


class TlsSecurity:
    """TLS: the client is who its certificate says, or ANONYMOUS without one."""

    security_protocol = "SSL"

    def __init__(self, tls: TlsListener, rules: PrincipalRules = DEFAULT_RULES) -> None:
        self._tls = tls
        self._rules = rules

    def transport(self, sock: socket.socket) -> Transport:
        return TlsTransport(sock, self._tls)

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
