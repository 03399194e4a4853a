"""SaslListener: the logins of one listener of a node, and whom they let in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.broker.config.config_definition import InvalidConfig
from kcli.broker.security.authentication import AuthenticatingEngine
from kcli.broker.security.credentials import scram_mechanism
from kcli.security.plain import PlainMechanism
from kcli.security.scram import MECHANISMS as SCRAM

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from kcli.broker.config.listener_config import ListenerConfig
    from kcli.broker.config.sasl_settings import MechanismSettings, SaslSettings
    from kcli.broker.network.listener_security import Login, Visitor
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.transport import Transport
    from kcli.broker.node_context import NodeContext
    from kcli.security.sasl import Authenticated, SaslMechanism

_log = logging.getLogger(__name__)

_USER_OPTION = "user_"


class SaslListener:
    """A listener of a node, whose clients log in by SASL.

    `engine` has the APIs of the node; `transport` makes what sends and receives on an accepted socket.
    """

    def __init__(
        self,
        node: NodeContext,
        engine: Engine,
        listener: ListenerConfig,
        transport: Callable[[socket.socket], Transport],
    ) -> None:
        self.transport = transport
        self.security_protocol = listener.security_protocol
        self.engine = engine
        self._node = node
        self._name = listener.name
        self._config = node.config
        self._settings = node.config.sasl_settings(listener.name)
        self._mechanisms: dict[str, SaslMechanism] = {}

    @property
    def settings(self) -> SaslSettings:
        """The mechanisms as they are configured now."""
        if self._config is not self._node.config:
            self._config = self._node.config
            try:
                settings = self._config.sasl_settings(self._name)
            except InvalidConfig as error:
                _log.error("listener `%s` keeps its logins: %s", self._name, error.message)
                return self._settings
            if settings != self._settings:
                self._settings = settings
                self._mechanisms.clear()
        return self._settings

    @property
    def failure_delay_ms(self) -> int:
        """How long a failed login waits for its response."""
        return self._node.config.connection_failed_authentication_delay_ms

    def mechanism(self, name: str) -> SaslMechanism:
        """Return one of the mechanisms of the settings."""
        settings = next(each for each in self.settings.mechanisms if each.name == name)
        if name not in self._mechanisms:
            self._mechanisms[name] = self._new_mechanism(settings)
        return self._mechanisms[name]

    def _new_mechanism(self, settings: MechanismSettings) -> SaslMechanism:
        if settings.name in SCRAM:
            return scram_mechanism(self._node, settings.name)
        options = {} if settings.jaas is None else settings.jaas.options
        users = {name: value for name, value in options.items() if name.startswith(_USER_OPTION)}
        return PlainMechanism({name.removeprefix(_USER_OPTION): value for name, value in users.items()})

    def lifetime_ms(self, mechanism: str, outcome: Authenticated) -> int:
        """Return how long a login holds: as the credential and the settings allow; 0 is for good."""
        limits = [each.max_reauth_ms for each in self.settings.mechanisms if each.name == mechanism]
        if outcome.expires_ms:
            # A credential that is over by now makes the shortest session there is.
            limits.append(max(outcome.expires_ms - self._node.wall_ms(), 1))
        return min((limit for limit in limits if limit > 0), default=0)

    def login(self, visitor: Visitor, engine: Engine) -> Login | None:
        """Return the login of a new connection."""
        return AuthenticatingEngine(self, visitor, engine)

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Leave the principal to the login: a certificate does not count where there is one."""
