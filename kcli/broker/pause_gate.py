"""PauseGate: where the tasks of a node wait while it is paused, as a stopped process would (SIGSTOP).

Whatever begins work of its own accord passes the gate first: what serves connections, the timer,
housekeeping, fetchers, heartbeats. Sockets stay open meanwhile, and what comes waits in them.
"""

from __future__ import annotations

import trio


class PauseGate:
    """A gate that is open, or closed for as long as the node is paused."""

    __slots__ = ("_opened", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._opened = trio.Event()

    def close(self) -> None:
        """Let nobody pass from now on."""
        if not self.is_closed:
            self.is_closed = True
            self._opened = trio.Event()

    def open(self) -> None:
        """Let everyone pass who waits, and who comes."""
        self.is_closed = False
        self._opened.set()

    async def passed(self) -> None:
        """Return when the gate is open."""
        while self.is_closed:
            await self._opened.wait()
