"""Reactor: one epoll for the connections of a listener, and one task that serves the readable ones.

To wake the task of a connection costs more than to answer a small request. So that task sleeps, and the
reactor calls `on_readable` of the connection, which receives, answers and returns. Only what needs waiting
wakes the task: a parked fetch, a slow client, a large request.

Registrations are edge-triggered and never change: an event says that bytes have arrived, and the connection
then reads until there are no more. The kernel also reports only once that a client has closed its side, and
once more if it turns out to be gone.
"""

from __future__ import annotations

import select
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from trio.lowlevel import checkpoint, wait_readable

from kcli.broker.waiting.pause_gate import PauseGate

if TYPE_CHECKING:
    import trio

READABLE = getattr(select, "EPOLLIN", 0)
GONE = getattr(select, "EPOLLHUP", 0) | getattr(select, "EPOLLERR", 0)
"""Set if the client neither sends nor reads any more."""
READY_AT_ONCE = 64
TURN_SECONDS = 0.0005
"""The time connections are served before other tasks run."""


class Readable(Protocol):
    """A connection that the reactor serves."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def on_readable(self, events: int) -> None:
        """Serve the bytes that arrived; with any other event than `READABLE`, no more will come.

        Never raises.
        """


class Reactor:
    """Serves the added connections while `run` runs and `gate` is open."""

    __slots__ = ("_connections", "_epoll", "_gate")

    def __init__(self, gate: PauseGate | None = None) -> None:
        self._gate = gate or PauseGate()
        self._epoll = select.epoll()
        self._connections: dict[int, Readable] = {}

    def add(self, connection: Readable) -> None:
        """Serve a connection from now on."""
        descriptor = connection.fileno()
        self._epoll.register(descriptor, READABLE | select.EPOLLRDHUP | select.EPOLLET)
        self._connections[descriptor] = connection

    def remove(self, connection: Readable) -> None:
        """Forget a connection that is about to be closed."""
        self._connections.pop(connection.fileno(), None)

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        task_status.started()
        poll, connections = self._epoll.poll, self._connections
        try:
            while True:
                await wait_readable(self._epoll)
                if self._gate.is_closed:
                    await self._gate.passed()
                turn_ends = perf_counter() + TURN_SECONDS
                # To poll again costs little, and often more connections have become readable.
                while ready := poll(0, READY_AT_ONCE):
                    for descriptor, events in ready:
                        connection = connections.get(descriptor)
                        if connection is not None:
                            connection.on_readable(events)
                        if perf_counter() > turn_ends:
                            await checkpoint()
                            if self._gate.is_closed:
                                await self._gate.passed()
                            turn_ends = perf_counter() + TURN_SECONDS
        finally:
            self._epoll.close()


def new_reactor(gate: PauseGate | None = None) -> Reactor | None:
    """Return a reactor, None on a system without epoll, where each connection waits for itself."""
    return Reactor(gate) if hasattr(select, "epoll") else None
