"""SocketServer: the listeners of one node and the connections they take (class `SocketServer`).

`serve` accepts on one listening socket; `sweep` is the one periodic task for all connections: it closes
those that were idle for too long and those whose client left while a request was parked. Neither a failing
accept nor a failing connection ends a listener.

ConnectionQuotas: how many connections a node takes, altogether and from one address.

`max.connections.per.ip` (with `max.connections.per.ip.overrides`) refuses: the new connection is closed.
`max.connections` makes room: the least recently used connection is closed for the new one (KIP-402).
Every accepted connection is counted once and given back once, however it ends.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
from collections import Counter
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import wait_readable

from kcli.broker.network.connection import Connection
from kcli.broker.network.reactor import new_reactor
from kcli.broker.network.request_context import RequestContext
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.errors import KcliError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.network.apis import Api
    from kcli.broker.network.inbox import ReceiveBuffers
    from kcli.broker.network.reactor import Reactor
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.node_context import NodeContext


BACKLOG = 4096
"""A full backlog costs clients a second: their SYN is dropped and sent again."""
ACCEPTS_PER_TURN = 64
OUT_OF_FILES_PAUSE_SECONDS = 0.1
SWEEP_SECONDS = 5.0
"""How long a parked request may outlive its client, and how exact idle times are."""
SWEEP_CHUNK = 1000

_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_POLLRDHUP = 0x2000
_log = logging.getLogger(__name__)


def _let_be(bound: socket.socket) -> None:
    """Nobody keeps the port."""


def open_listening_sockets(
    host: str,
    port: int,
    *,
    receive_buffer_bytes: int = -1,
    backlog: int = BACKLOG,
    keep: Callable[[socket.socket], None] = _let_be,
) -> list[socket.socket]:
    """Return sockets that listen on `host` (every address, if empty) and `port` (any free one, if 0).

    Every address means IPv4 and, where the machine has it, IPv6 on the same port. `keep` gets what is bound
    to a port that the system chose, before it listens. Raises `KcliError`.
    """

    def open_at(family: int, address: tuple[object, ...]) -> socket.socket:
        return _open(family, address, receive_buffer_bytes, backlog, _let_be if port else keep)

    if not host:
        return [_open_on_every_address(port, open_at)]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise KcliError(f"cannot listen on `{host}`: {error.strerror}") from error
    sockets: list[socket.socket] = []
    for family, *_, address in dict.fromkeys(found):
        if port == 0 and sockets:
            address = (address[0], sockets[0].getsockname()[1], *address[2:])
        try:
            sockets.append(open_at(family, address))
        except OSError as error:
            if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # `localhost` may name an IPv6 address that the machine does not have.
            for sock in sockets:
                sock.close()
            raise _cannot_listen(host, port, error) from error
    return sockets


def _open_on_every_address(
    port: int, open_at: Callable[[int, tuple[object, ...]], socket.socket]
) -> socket.socket:
    try:
        if socket.has_dualstack_ipv6():
            return open_at(socket.AF_INET6, ("::", port))
        return open_at(socket.AF_INET, ("0.0.0.0", port))
    except OSError as error:
        raise _cannot_listen("", port, error) from error


def _open(
    family: int,
    address: tuple[object, ...],
    receive_buffer_bytes: int,
    backlog: int,
    keep: Callable[[socket.socket], None],
) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        if receive_buffer_bytes > 0:
            # Connections inherit it, and the window scale is fixed before they are accepted.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind(address)
        keep(sock)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _cannot_listen(host: str, port: int, error: OSError) -> KcliError:
    hint = "stop the process that has it, or choose another port" if error.errno == errno.EADDRINUSE else None
    return KcliError(f"cannot listen on {host or '*'}:{port}: {error.strerror}", hint=hint)


class SocketServer:
    """What the connections of one node share."""

    def __init__(
        self,
        node: NodeContext,
        *,
        apis: tuple[Api, ...],
        engine: Engine,
        buffers: ReceiveBuffers,
        quotas: ConnectionQuotas,
        max_request_bytes: int,
        max_idle_ms: int,
        send_buffer_bytes: int = -1,
        gate: PauseGate | None = None,
    ) -> None:
        self._gate = gate or PauseGate()
        self._node = node
        self._apis = apis
        self._engine = engine
        self._buffers = buffers
        self._quotas = quotas
        self._max_request_bytes = max_request_bytes
        self._max_idle_ms = max_idle_ms
        self._send_buffer_bytes = send_buffer_bytes
        self.connections: set[Connection] = set()

    def use(self, engine: Engine) -> None:
        """Have every connection feed another engine, from its next request on."""
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
        """Accept connections until cancelled; then close the socket and every connection it gave."""
        try:
            async with trio.open_nursery() as nursery:
                reactor = new_reactor(self._gate)
                if reactor is not None:
                    await nursery.start(reactor.run)
                task_status.started()
                while True:
                    await wait_readable(listening)
                    await self._gate.passed()
                    await self._accept(listener_name, listening, nursery, reactor)
        finally:
            listening.close()

    async def _accept(
        self,
        listener_name: str,
        listening: socket.socket,
        nursery: trio.Nursery,
        reactor: Reactor | None,
    ) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _OUT_OF_FILES:
                    _log.debug("a connection to %s was gone before it was accepted: %s", listener_name, error)
                    continue
                _log.error("cannot accept connections to %s: %s", listener_name, error.strerror)
                # The connection stays in the backlog, so the socket stays readable.
                await trio.sleep(OUT_OF_FILES_PAUSE_SECONDS)
                return
            try:
                self._take(sock, address[0], listener_name, nursery, reactor)
            except OSError as error:
                _log.debug("a connection from %s broke at once: %s", address[0], error)
                sock.close()

    def _take(
        self,
        sock: socket.socket,
        address: str,
        listener_name: str,
        nursery: trio.Nursery,
        reactor: Reactor | None,
    ) -> None:
        """Set a connection up and start its task, unless its address has too many."""
        address = address.removeprefix("::ffff:")
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
        connection = Connection(
            sock,
            engine=self._engine,
            context=RequestContext(self._node, listener_name, address, self._apis),
            purgatory=self._node.purgatory,
            buffers=self._buffers,
            max_request_bytes=self._max_request_bytes,
            reactor=reactor,
            gate=self._gate,
        )
        connection.idle_since = trio.current_time()
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
        oldest = min(
            others, key=lambda connection: (connection.active, connection.idle_since), default=newest
        )
        _log.warning("closed the least used connection, from %s: max.connections", oldest.address)
        oldest.close()

    async def sweep(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look after all connections every few seconds, for ever."""
        task_status.started()
        while True:
            await trio.sleep(SWEEP_SECONDS)
            await self._gate.passed()
            try:
                await self.sweep_once(trio.current_time())
            except Exception:
                _log.exception("the sweep of connections failed")

    async def sweep_once(self, now: float) -> None:
        """Close the connections that are idle or abandoned at `now`, in trio's time."""
        parked: list[Connection] = []
        for number, connection in enumerate(list(self.connections), start=1):
            if connection.active:
                connection.active = False
                connection.idle_since = now
            elif connection.is_parked:
                parked.append(connection)
            elif connection.is_mute:
                connection.idle_since = now
            elif 0 <= self._max_idle_ms < (now - connection.idle_since) * 1000:
                _log.debug("closed the idle connection from %s", connection.address)
                connection.close()
            if number % SWEEP_CHUNK == 0:
                await trio.lowlevel.checkpoint()
        _close_abandoned(parked)


def _close_abandoned(parked: list[Connection]) -> None:
    """Close the parked connections whose clients have closed theirs: one system call for all."""
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
        """Whether one connection has to go."""
        return self.max_connections < UNLIMITED and self.total > self.max_connections

    def limit(self, address: str) -> int:
        """Return how many connections `address` may hold."""
        return self.overrides.get(address, self.max_connections_per_ip)

    def count(self, address: str) -> int:
        """Return how many connections `address` holds."""
        return self._by_address[address]

    def take(self, address: str) -> bool:
        """Count one more connection from `address`; return False, and count nothing, beyond its limit."""
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
