"""The bytes that a producer's unsent and unanswered records may take: a counter with a strict queue.

Who asks for more than is left waits its turn, and the head of the queue collects freed bytes until it has
enough, so that large requests cannot starve. A waiter that gives up, by time-out or cancellation, returns
what it had collected and feeds the next one (Kafka class `BufferPool`, without its recycled buffers).
"""

from __future__ import annotations

from collections import deque

import trio


class _Waiter:
    __slots__ = ("collected", "granted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.collected = 0
        self.granted = trio.Event()


class MemoryBudget:
    """`total` bytes; `available` of them are neither reserved nor collected by a waiter."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.available = total
        self._waiters: deque[_Waiter] = deque()

    @property
    def has_waiters(self) -> bool:
        """Return whether somebody waits for memory, which makes every batch sendable."""
        return bool(self._waiters)

    def reserve_nowait(self, size: int) -> bool:
        """Take `size` bytes if nobody waits and they are there; return whether they were taken."""
        if self._waiters or size > self.available:
            return False
        self.available -= size
        return True

    async def reserve(self, size: int) -> None:
        """Take `size` bytes, waiting for them behind all who came before. `size` is at most `total`."""
        if size > self.total:
            raise ValueError(f"{size} bytes never fit into {self.total}")
        waiter = _Waiter(size)
        self._waiters.append(waiter)
        self._feed()
        try:
            await waiter.granted.wait()
        except BaseException:
            if not waiter.granted.is_set():
                self._waiters.remove(waiter)
            self.release(waiter.collected)
            raise

    def release(self, size: int) -> None:
        """Give `size` bytes back."""
        self.available += size
        self._feed()

    def _feed(self) -> None:
        while self._waiters and self.available:
            head = self._waiters[0]
            part = min(self.available, head.size - head.collected)
            self.available -= part
            head.collected += part
            if head.collected < head.size:
                return
            self._waiters.popleft()
            head.granted.set()
