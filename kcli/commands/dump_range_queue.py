"""RangeQueue: the ranges of long logs on their way to the processes that dump them, and what comes back.

A log is begun as soon as it is known which it is: the processes work while this one gets ready to print.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.worker_pool import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.commands.dump_files import DumpFile
    from kcli.commands.dump_view import Layout
    from kcli.commands.worker_pool import WorkerPool

_NOTHING = -1


class Range(NamedTuple):
    """The batches of the file with that number that begin in a stretch of it."""

    file: int
    start: int
    end: int
    layout: Layout | None = None
    """Of a table."""


class RangeEnd(NamedTuple):
    """What is known of a range: the last offset of a batch, -1 without one, and where the next one begins.

    And the last offset of a record, -1 without one; how many values could not be decoded; and whether nothing
    was wrong up to the end of the range.
    """

    last_offset: int
    next_position: int
    last_record_offset: int
    failures: int
    is_sound: bool


class RangeQueue:
    """Cuts one log after the other into ranges, of `range_bytes` at most, and gives them to a pool."""

    def __init__(self, pool: WorkerPool, files: Sequence[DumpFile], range_bytes: int) -> None:
        self._pool = pool
        self._files = files
        self._range_bytes = range_bytes
        self._file = _NOTHING
        self._ranges: Iterator[Range] = iter(())
        self._pending: deque[Range] = deque()
        self._given = 0
        self._taken = 0

    def begin(self, file: DumpFile, layout: Layout | None = None) -> None:
        """Let the pool begin with a log, unless it has; the rest of another is thrown away.

        Raises `OSError` and `WorkerGone`.
        """
        number = self._files.index(file)
        if number == self._file:
            return
        self.discard()
        size = os.stat(file.path).st_size
        parts = stretches(size, self._range_bytes, self._pool.count)
        self._file, self._ranges = number, (Range(number, *part, layout) for part in parts)
        self._fill()

    def next(self) -> Range | None:
        """Return the next range, None behind the last; `receive` gives what is said of it."""
        self._fill()
        return self._pending.popleft() if self._pending else None

    def receive(self) -> object:
        """Return the next message about the range that is next. Raises `WorkerGone`."""
        message = self._pool.receive(self._taken % self._pool.count)
        if isinstance(message, RangeEnd):
            self._taken += 1
        return message

    def discard(self) -> None:
        """Throw away what is left of a log. Raises `WorkerGone`."""
        for _ in self._pending:
            while not isinstance(message := self.receive(), RangeEnd):
                if isinstance(message, Piece):
                    message.read()
        self._pending.clear()
        self._file, self._ranges = _NOTHING, iter(())

    def _fill(self) -> None:
        while len(self._pending) < 2 * self._pool.count and (following := next(self._ranges, None)):
            self._pool.give(self._given % self._pool.count, following)
            self._given += 1
            self._pending.append(following)


def stretches(size: int, most: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield where ranges begin and end; the last are small, so that no process waits long for another."""
    start = 0
    while start < size:
        each = min(most, max((size - start) // (2 * count), most // 8))
        yield start, min(start + each, size)
        start += each
