"""HeartbeatPace: when a member sends heartbeats, whichever protocol it speaks, and when it stops being one.

A member whose application does not poll for `max.poll.interval.ms` leaves its group, so that others get its
partitions; the next poll finds out. Waiting inside a poll is not counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

POLL_IS_OVER = "consumer poll timeout has expired"
"""Why a member leaves that is not polled, as Kafka's consumer words it."""


class HeartbeatPace:
    """Calls `beat` whenever `due` says so, a time of trio's clock or None for not now; `leave` after no poll.

    `poll_ends` is when the application must have polled again.
    """

    def __init__(
        self,
        max_poll_interval_ms: int,
        *,
        due: Callable[[], float | None],
        beat: Callable[[], Awaitable[None]],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.poll_ends = math.inf
        self._max_poll_seconds = max_poll_interval_ms / 1000
        self._due = due
        self._beat = beat
        self._leave = leave
        self._changed = trio.Event()

    def wake(self) -> None:
        """Have `due` asked again."""
        self._changed.set()

    def poll_began(self) -> None:
        """Note that the application is waiting for records, however long."""
        self.poll_ends = math.inf
        self._changed.set()

    def poll_ended(self) -> None:
        """Note that the application is at work."""
        self.poll_ends = trio.current_time() + self._max_poll_seconds
        self._changed.set()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            self._changed = trio.Event()
            due = self._due()
            if due is None:
                await self._changed.wait()
            elif self.poll_ends <= trio.current_time():
                self.poll_ends = math.inf
                await self._leave(POLL_IS_OVER)
            elif due > trio.current_time():
                with trio.move_on_at(min(due, self.poll_ends)):
                    await self._changed.wait()
            else:
                await self._beat()
