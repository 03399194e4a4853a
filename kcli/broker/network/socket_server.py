"""SocketServer: the listeners of one node and the connections they accept (class `SocketServer`).

`serve` accepts on one listening socket. `sweep` is the one periodic task for all connections: it closes those
that were idle too long and, without a reactor to tell, those whose client left while a request was parked.
Neither a failed accept nor a failed connection ends a listener.

`ConnectionQuotas` bounds the connections of a node. `max.connections.per.ip` (with
`max.connections.per.ip.overrides`) refuses: the new connection is closed. `max.connections` makes room: the
least recently used connection is closed for the new one (KIP-402). Every accepted connection is counted once
and given back once, however it ends.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import wait_readable

from kcli.broker.network.connection import Connection, Listener
from kcli.broker.network.descriptors import LOOK_SECONDS
from kcli.broker.network.handshakes import Handshakes
from kcli.broker.network.listener_security import PlaintextListener
from kcli.broker.network.reactor import new_reactor
from kcli.broker.network.request_context import RequestContext
from kcli.errors import KcliError, UsageError
from kcli.storage.disk import is_shortage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.broker.network.apis import Api
    from kcli.broker.network.descriptors import Descriptors
    from kcli.broker.network.inbox import ReceiveBuffers
    from kcli.broker.network.listener_security import ListenerSecurity
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.node_context import NodeContext


BACKLOG = 4096
"""If the backlog is full, the kernel drops the SYN of a client, which sends it again after a second."""
ACCEPTS_PER_TURN = 64
SWEEP_SECONDS = 5.0
"""The time between sweeps: how long a parked request may outlive its client where there is no epoll."""
SWEEP_CHUNK = 1000

_POLLRDHUP = 0x2000
_log = logging.getLogger(__name__)


def open_listening_sockets(
    host: str,
    port: int,
    *,
    receive_buffer_bytes: int = -1,
    backlog: int = BACKLOG,
    keep: Callable[[socket.socket], None] | None = None,
) -> list[socket.socket]:
    """Return sockets that listen on `host` (empty: every address) and `port` (0: any free one).

    Every address means IPv4 and, if the machine has it, IPv6 on the same port. If the system chose the port,
    `keep` gets each socket before it listens. Raises `KcliError`.
    """
    places: Iterable[tuple[int, tuple[Any, ...]]]
    if not host and socket.has_dualstack_ipv6():
        places = [(socket.AF_INET6, ("::", port))]
    elif not host:
        places = [(socket.AF_INET, ("0.0.0.0", port))]
    else:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except socket.gaierror as error:
            raise KcliError(f"cannot listen on `{host}`: {error.strerror}") from error
        places = dict.fromkeys((family, address) for family, *_, address in found)
    sockets: list[socket.socket] = []
    for family, address in places:
        if port == 0 and sockets:
            address = (address[0], sockets[0].getsockname()[1], *address[2:])
        try:
            sockets.append(_open(family, address, receive_buffer_bytes, backlog, None if port else keep))
        except OSError as error:
            if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # `localhost` may name an IPv6 address that the machine does not have.
            for sock in sockets:
                sock.close()
            hint = None
            if error.errno == errno.EADDRINUSE:
                hint = "stop the process that has it, or choose another port"
            raise KcliError(f"cannot listen on {host or '*'}:{port}: {error.strerror}", hint=hint) from error
    return sockets


def _open(
    family: int,
    address: tuple[object, ...],
    receive_buffer_bytes: int,
    backlog: int,
    keep: Callable[[socket.socket], None] | None,
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        if receive_buffer_bytes > 0:
            # Connections inherit it; the window scale is fixed before they are accepted.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind(address)
        if keep is not None:
            keep(sock)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class SocketServer:
    """The connections of one node."""

    def __init__(
        self,
        node: NodeContext,
        *,
        engine: Engine,
        apis: tuple[Api, ...],
        buffers: ReceiveBuffers,
        quotas: ConnectionQuotas,
        descriptors: Descriptors,
        security: Callable[[str], ListenerSecurity] = lambda _name: PlaintextListener(),
    ) -> None:
        """`security` returns how the clients of a listener, by its name, are let in."""
        config = node.config
        self._node = node
        self._engine = engine
        self._apis = apis
        self._buffers = buffers
        self._quotas = quotas
        self._descriptors = descriptors
        self._security = security
        self._handshakes = Handshakes(node.gate)
        self._max_request_bytes = config.socket_request_max_bytes
        self._max_idle_ms = config.connections_max_idle_ms
        self._send_buffer_bytes = config.socket_send_buffer_bytes
        self.connections: set[Connection] = set()

    def use(self, engine: Engine) -> None:
        """Let every connection feed another engine from its next request on."""
        self._engine = engine
        for connection in self.connections:
            connection.use(engine)

    async def serve(
        self,
        listener_name: str,
        listening: socket.socket,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept connections until cancelled; then close the socket and its connections."""
        gate = self._node.gate
        try:
            async with trio.open_nursery() as nursery:
                listener = Listener(
                    listener_name,
                    self._node.purgatory,
                    self._buffers,
                    self._max_request_bytes,
                    gate,
                    new_reactor(gate),
                    self._security(listener_name),
                    self._handshakes,
                )
                if listener.reactor is not None:
                    await nursery.start(listener.reactor.run)
                task_status.started()
                while True:
                    await wait_readable(listening)
                    await gate.passed()
                    await self._descriptors.until_enough()
                    await self._handshakes.until_few()
                    await self._accept(listener, listening, nursery)
        finally:
            listening.close()

    async def _accept(self, listener: Listener, listening: socket.socket, nursery: trio.Nursery) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not is_shortage(error):
                    _log.debug("a connection to %s was gone before it was accepted: %s", listener.name, error)
                    continue
                # The connection stays in the backlog, so the socket stays readable.
                if error.errno == errno.EMFILE:
                    self._descriptors.stop_accepting()
                    return
                _log.error("cannot accept connections to %s: %s", listener.name, error.strerror)
                await trio.sleep(LOOK_SECONDS)
                return
            if sock.fileno() >= self._descriptors.first_reserved:
                self._descriptors.stop_accepting()
            try:
                self._take(listener, sock, address[0].removeprefix("::ffff:"), nursery)
            except OSError as error:
                _log.debug("a connection from %s broke at once: %s", address[0], error)
                sock.close()
            if self._descriptors.is_short or self._handshakes.are_many:
                return

    def _take(self, listener: Listener, sock: socket.socket, address: str, nursery: trio.Nursery) -> None:
        """Set a connection up and start its task, unless its address has too many."""
        if not self._quotas.take(address):
            _log.warning(
                "refused a connection from %s: it has %d already", address, self._quotas.count(address)
            )
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        except BaseException:
            self._quotas.give_back(address)
            raise
        context = RequestContext(self._node, listener.name, address, self._apis)
        context.security_protocol = listener.security.security_protocol
        context.admit(context.principal)
        connection = Connection(listener.security.transport(sock), context, self._engine, listener)
        self.connections.add(connection)
        if self._quotas.is_over:
            self._close_least_used(connection)
        nursery.start_soon(self._run, connection, name=f"connection from {address}")

    async def _run(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)
            self._quotas.give_back(connection.address)

    def _close_least_used(self, newest: Connection) -> None:
        others = (each for each in self.connections if each is not newest and not each.is_closing)
        oldest = min(others, key=lambda connection: connection.last_used, default=newest)
        _log.warning("closed the least used connection, from %s: max.connections", oldest.address)
        oldest.close()

    async def sweep(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look after all connections every few seconds until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(SWEEP_SECONDS)
            await self._node.gate.passed()
            try:
                await self.sweep_once(trio.current_time())
            except Exception:
                _log.exception("the sweep of connections failed")

    async def sweep_once(self, now: float) -> None:
        """Close the connections that are idle or abandoned at `now`, in trio's time."""
        parked: list[Connection] = []
        for number, connection in enumerate(list(self.connections), start=1):
            if connection.sweep(now, self._max_idle_ms):
                parked.append(connection)
            if number % SWEEP_CHUNK == 0:
                await trio.lowlevel.checkpoint()
        _close_abandoned(parked)


def _close_abandoned(parked: list[Connection]) -> None:
    """Close the parked connections whose clients have closed their side: one system call for all."""
    by_descriptor = {connection.fileno(): connection for connection in parked}
    by_descriptor.pop(-1, None)
    if not by_descriptor:
        return
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, _POLLRDHUP)
    for descriptor, _ in poll.poll(0):
        by_descriptor[descriptor].close()


UNLIMITED = 2**31 - 1


class ConnectionQuotas:
    """The connections of one node, counted by peer address."""

    def __init__(
        self,
        *,
        max_connections: int = UNLIMITED,
        max_connections_per_ip: int = UNLIMITED,
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.overrides = dict(overrides or {})
        self.total = 0
        self._by_address: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        """Whether one connection has to be closed."""
        return self.max_connections < UNLIMITED and self.total > self.max_connections

    def limit(self, address: str) -> int:
        """Return how many connections `address` may hold."""
        return self.overrides.get(address, self.max_connections_per_ip)

    def count(self, address: str) -> int:
        """Return how many connections `address` holds."""
        return self._by_address[address]

    def take(self, address: str) -> bool:
        """Count a connection from `address`; return False, and count nothing, if that exceeds its limit."""
        if self._by_address[address] >= self.limit(address):
            return False
        self._by_address[address] += 1
        self.total += 1
        return True

    def give_back(self, address: str) -> None:
        """Count one connection from `address` as ended."""
        left = self._by_address[address] - 1
        if left < 0:
            raise ValueError(f"no connection from {address} is counted")
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
        self.total -= 1


def parse_overrides(text: str) -> dict[str, int]:
    """Return the limits in `max.connections.per.ip.overrides`, as in ``10.0.0.1:5,::1:100``."""
    limits = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, separator, limit = item.rpartition(":")
        if not separator or not address.strip() or not limit.strip().isdecimal():
            raise UsageError(f"invalid entry in `max.connections.per.ip.overrides`: {item}")
        limits[address.strip().strip("[]")] = int(limit)
    return limits
