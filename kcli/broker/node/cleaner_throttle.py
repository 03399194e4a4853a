"""CleanerThrottle: the bytes a second that the threads of a node's log cleaner read and write together.

They sleep as long as `log.cleaner.io.max.bytes.per.second` demands (Kafka class `Throttler`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_SECONDS = 0.05
"""How long a thread sleeps before it looks again whether it has to go on, and at which rate."""
_CREDIT_SECONDS = 0.05
"""A thread that overslept may make up for so much."""


class CleanerThrottle:
    """Bounds the bytes a second of several threads; `rate` returns the present bound."""

    def __init__(
        self,
        rate: Callable[[], float],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._debt = 0.0
        """The bytes for which the time has not come yet; below 0 a credit."""
        self._counted_at = now()

    def spend(self, size: int, *, is_held: Callable[[], bool], is_discarded: Callable[[], bool]) -> None:
        """Sleep as long as the rate demands for `size` more bytes and while `is_held`, or until discarded."""
        delay = self._delay(size)
        while (delay > 0 or is_held()) and not is_discarded():
            self._sleep(min(delay, SLICE_SECONDS) if delay > 0 else SLICE_SECONDS)
            delay = self._delay(0)

    def _delay(self, size: int) -> float:
        """Add bytes to the debt; return the seconds until it is paid."""
        with self._lock:
            now, rate = self._now(), max(self._rate(), 1.0)
            self._debt = max(self._debt - (now - self._counted_at) * rate, -_CREDIT_SECONDS * rate) + size
            self._counted_at = now
            return self._debt / rate
