"""ListenerSecurity: how the clients of one listener are let in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kcli.broker.network.transport import Transport

if TYPE_CHECKING:
    import socket

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.responses import Response


class Visitor(Protocol):
    """A connection, as far as a login has to know it."""

    def let_in(self, *, keeps_login: bool) -> None:
        """Serve requests up to the usual size; with `keeps_login` the login goes on to get them first."""
        ...


class Login(Protocol):
    """An engine that gets the requests of a client until it is known, or for as long as it wants to.

    It passes requests on to the engine `behind` it. `max_request_bytes` bounds them before the login.
    """

    behind: Engine
    max_request_bytes: int

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Handle the request in `buffer[start:end]`. Raises `CloseConnection`."""
        ...


class ListenerSecurity(Protocol):
    """The security protocol of a listener, as its connections need it."""

    security_protocol: str

    def transport(self, sock: socket.socket) -> Transport:
        """Return what sends and receives on an accepted socket."""
        ...

    def login(self, visitor: Visitor, engine: Engine) -> Login | None:
        """Return what stands before `engine` until the client has logged in, None if it need not."""
        ...

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Set the principal that the handshake has proved. Raises `CloseConnection`."""
        ...


class PlaintextListener:
    """Lets everybody in as ANONYMOUS."""

    security_protocol = "PLAINTEXT"

    def transport(self, sock: socket.socket) -> Transport:
        return Transport(sock)

    def login(self, visitor: Visitor, engine: Engine) -> Login | None:
        return None

    def authenticated(self, context: RequestContext, transport: Transport) -> None:
        """Leave the principal as it is."""
