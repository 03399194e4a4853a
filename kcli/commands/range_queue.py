"""RangeQueue: the ranges of long logs on their way to the processes that read them, and what comes back.

A log is begun as soon as it is known which it is: the processes work while this one gets ready.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.worker_pool import Piece
from kcli.storage.log_range import RangeStart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.commands.worker_pool import WorkerPool


RANGES_AHEAD = 3
"""How many a process has to do, so that none waits for another whose turn it is to be heard."""


class RangeEnd(NamedTuple):
    """What is known of a range: the last offset of a batch, -1 without one, and where the next one begins.

    And the last offset of a record, -1 without one; how many values could not be decoded; and whether nothing
    was wrong up to the end of the range.
    """

    last_offset: int
    next_position: int
    last_record_offset: int = -1
    failures: int = 0
    is_sound: bool = True


class RangeQueue:
    """Gives the ranges of one log after the other to a pool, a few ahead of who takes what is said of them.

    The messages about a range begin with a `RangeStart` and end with its `RangeEnd`; then `end` is that.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._log: object = None
        self._ranges: Iterator[tuple[object, ...]] = iter(())
        self._pending: deque[tuple[object, ...]] = deque()
        self.end = RangeEnd(-1, 0)
        self._given = 0
        self._taken = 0
        self._is_open = False
        """Whether more is to come about the range that was taken last."""

    def begin(self, log: object, ranges: Iterator[tuple[object, ...]]) -> None:
        """Let the pool begin with a log, unless it has; the rest of another is thrown away.

        Raises `WorkerGone`.
        """
        if log == self._log:
            return
        self.discard()
        self._log, self._ranges = log, ranges
        self._fill()

    def next(self) -> tuple[object, ...] | None:
        """Return the next range, None behind the last; `follow` gives what is said of it."""
        self._fill()
        if not self._pending:
            return None
        self._is_open = True
        return self._pending.popleft()

    def follow(self, last: RangeEnd, stop: int) -> Iterator[object]:
        """Yield what is said of the range up to `stop` if it follows on the last. Raises `WorkerGone`."""
        follows = False
        while not isinstance(message := self._receive(), RangeEnd):
            if isinstance(message, RangeStart):
                expected = last.last_offset + 1 if last.next_position else message.offset
                follows = message.follows_on(last.next_position, expected)
            elif follows:
                yield message
            elif isinstance(message, Piece):
                message.read()
        # Without a beginning in it, all of it belongs to a batch of the range before.
        self.end = message if follows else last._replace(is_sound=last.next_position >= stop)

    def _receive(self) -> object:
        message = self._pool.receive(self._taken % self._pool.count)
        if isinstance(message, RangeEnd):
            self._taken += 1
            self._is_open = False
        return message

    def discard(self) -> None:
        """Throw away what is left of a log. Raises `WorkerGone`."""
        for _ in range(self._is_open + len(self._pending)):
            while not isinstance(message := self._receive(), RangeEnd):
                if isinstance(message, Piece):
                    message.read()
        self._pending.clear()
        self._log, self._ranges = None, iter(())

    def _fill(self) -> None:
        most = RANGES_AHEAD * self._pool.count
        while len(self._pending) < most and (following := next(self._ranges, None)):
            self._pool.give(self._given % self._pool.count, following)
            self._given += 1
            self._pending.append(following)
