"""ListenerSecurity: how the clients of one listener are let in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kcli.broker.network.transport import Transport

if TYPE_CHECKING:
    import socket

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine


class EngineUser(Protocol):
    """A connection, as far as a login has to know it."""

    def use(self, engine: Engine) -> None:
        """Feed another engine from the next request on."""
        ...


class ListenerSecurity(Protocol):
    """The security protocol of a listener, as its connections need it."""

    security_protocol: str

    def transport(self, sock: socket.socket) -> Transport:
        """Return what sends and receives on an accepted socket."""
        ...

    def first_engine(self, connection: EngineUser, context: RequestContext, engine: Engine) -> Engine:
        """Return the engine that gets the first requests: `engine`, or one before it that a login ends."""
        ...

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Set the principal that the handshake has proved. Raises `CloseConnection`."""
        ...


class PlaintextListener:
    """Lets everybody in as ANONYMOUS."""

    security_protocol = "PLAINTEXT"

    def transport(self, sock: socket.socket) -> Transport:
        return Transport(sock)

    def first_engine(self, connection: EngineUser, context: RequestContext, engine: Engine) -> Engine:
        return engine

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Leave the principal as it is."""
