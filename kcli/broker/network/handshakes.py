"""Handshakes: the TLS handshakes of one node that are not over.

One costs the loop a millisecond or two, a thousand times a small request. So each is a task of its own until
the reactor gets its connection, and only one of them has its turn before other tasks run. Those that are due
delay nobody else, and accepting pauses while there are `MAX_DUE`. A handshake that waits for its client is
not due: it costs nothing but its memory, and its time is bounded with that of the login.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from kcli.broker.network.transport import Transport
    from kcli.broker.waiting.pause_gate import PauseGate

MAX_DUE = 64
LINGER_SECONDS = 0.2
"""How long a client may take to read why it is refused: closing at once would lose the alert."""
LINES_PER_SECOND = 10
_log = logging.getLogger(__name__)


class Handshakes:
    """Makes the handshakes of one node, one step a turn."""

    def __init__(self, gate: PauseGate) -> None:
        self._gate = gate
        self._turn = trio.Lock()
        self._due = 0
        self._few = trio.Event()
        """Set once there are few again; replaced whenever there are many."""
        self._lines = 0
        self._lines_since = 0.0

    @property
    def are_many(self) -> bool:
        """Whether so many handshakes are due that no connection should be accepted."""
        return self._due >= MAX_DUE

    async def until_few(self) -> None:
        """Return when connections may be accepted."""
        while self.are_many:
            await self._few.wait()

    async def step(self, transport: Transport) -> bool:
        """Do the next step of a handshake when it has its turn; return whether it was the last.

        Raises the `OSError` of the transport.
        """
        self._due += 1
        if self._due == MAX_DUE:
            self._few = trio.Event()
        try:
            async with self._turn:
                if self._gate.is_closed:
                    await self._gate.passed()
                return transport.advance()
        finally:
            self._due -= 1
            if self._due < MAX_DUE:
                self._few.set()

    async def failed(self, error: OSError, transport: Transport, listener_name: str, address: str) -> None:
        """Tell a client that failed by the alert and the log by a line. Raises other errors again."""
        from kcli.broker.network.tls_failures import failure_text

        text = failure_text(error)
        if text is None:
            raise error
        if self.may_log():
            _log.warning("the TLS handshake of %s at listener %s failed: %s", address, listener_name, text)
        transport.end()
        with trio.move_on_after(LINGER_SECONDS):
            while transport.discard():
                await transport.readable()

    def may_log(self) -> bool:
        """Count a line about a client that was not let in; return whether there are not too many yet."""
        now = trio.current_time()
        if now - self._lines_since >= 1.0:
            if self._lines > LINES_PER_SECOND:
                _log.warning("%d more clients were not let in", self._lines - LINES_PER_SECOND)
            self._lines, self._lines_since = 0, now
        self._lines += 1
        return self._lines <= LINES_PER_SECOND
