"""Ranges of a log, which several processes read at the same time: RangeReader and RangeQueue.

A range holds the batches that begin in a stretch of a file. Its first batch is recognized by its header and
its checksum, and may be a batch inside a record. So a range counts only if it begins exactly where the range
before it ended; then every beginning follows from that of the file.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kcli.forensics.entries.batch_run import (
    MAX_ENTRY_BYTES,
    MAX_RELATIVE_OFFSET,
    SOUND_ATTRIBUTES,
    BatchReader,
)
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.forensics.ranges.worker_pool import Piece
from kcli.protocol.records.batch_header import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.ranges.worker_pool import WorkerPool


R = TypeVar("R", bound=tuple[object, ...])
"""A range, the task of a process."""

_NEAR_BYTES = 64 * 1024


class RangeStart(NamedTuple):
    """Position, offset and span of offsets of the first batch; the offset behind it, None at the end."""

    position: int
    offset: int
    span: int
    following: int | None

    def follows_on(self, position: int, expected: int) -> bool:
        """Whether it is where it should be; for its offset see `BatchReader.is_out_of_line`."""
        if self.position != position or self.offset < expected:
            return False
        return self.offset == expected or not self.span or self.following != expected + self.span


class RangeReader:
    """Reads the batches that begin in a stretch of the log of the segment at `base_offset`.

    All is sound up to `position`; `last_offset` is that of the last batch, -1 without one.
    """

    __slots__ = ("_base_offset", "_path", "_start", "_stop", "last_offset", "position")

    def __init__(self, path: str, base_offset: int, *, start: int, stop: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._start = start
        self._stop = stop
        self.last_offset = -1
        self.position = start

    @property
    def is_done(self) -> bool:
        return self.position >= self._stop

    def read(self) -> Iterator[RangeStart | BatchRun]:
        """Yield the start of the range, then its batches up to the first fault."""
        try:
            with SegmentFile(self._path) as segment:
                yield from self._runs(segment)
        except OSError:
            return  # the process that goes on from there meets the error again

    def _runs(self, segment: SegmentFile) -> Iterator[RangeStart | BatchRun]:
        reader = BatchReader(
            segment,
            position=begin_of(segment, self._base_offset, start=self._start, stop=self._stop),
            expected=-1 if self._start else self._base_offset,
            highest=self._base_offset + MAX_RELATIVE_OFFSET,
        )
        for run in reader.runs(self._stop):
            if self.last_offset < 0:
                following = reader.offset_at(run.starts[0] + run.sizes[0])
                yield RangeStart(run.positions[0], run.base_offsets[0], run.deltas[0] + 1, following)
            yield run
            self.last_offset, self.position = run.last_offsets[-1], run.end


def stretches(size: int, most: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of ranges of up to `most` bytes, small ones last: no reader waits long."""
    start = 0
    while start < size:
        each = min(most, max((size - start) // (2 * count), most // 8))
        yield start, min(start + each, size)
        start += each


def begin_of(segment: SegmentFile, base_offset: int, *, start: int, stop: int) -> int:
    """Return where the first batch of a stretch begins, `stop` without one. Raises `OSError`."""
    if not start:
        return 0
    near = _batch_near(segment, base_offset, start, stop)
    if near is not None:
        return near
    from kcli.forensics.entries.entry_search import EntrySearch

    search = EntrySearch(segment, base_offset + MAX_RELATIVE_OFFSET)
    found = search.next_entry(start, base_offset, stop)
    return stop if found is None else found.position


def _batch_near(segment: SegmentFile, base_offset: int, start: int, stop: int) -> int | None:
    """Return where a batch of the segment begins not far behind `start`, None without one.

    Nearly every stretch has one. EntrySearch finds older entries too, but it compiles patterns and checksums
    many false candidates. Older entries right before a batch are overlooked here; then the stretch does not
    follow on the one before it.
    """
    head = segment.read(start, _NEAR_BYTES, stop + HEADER_SIZE - 1)
    magic_at = head.find(2, MAGIC_POSITION)
    while magic_at >= 0 and (at := magic_at - MAGIC_POSITION) <= len(head) - HEADER_SIZE:
        offset, length, _, _, crc, attributes, delta, *_, count = HEADER.unpack_from(head, at)
        end = start + at + LOG_OVERHEAD + length
        if (
            base_offset <= offset <= base_offset + MAX_RELATIVE_OFFSET
            and MIN_BATCH_LENGTH <= length <= MAX_ENTRY_BYTES
            and attributes in SOUND_ATTRIBUTES
            and 0 <= count <= delta + 1
            and end <= segment.end
            and segment.crc32c(start + at + CRC_START, end) == crc
        ):
            return start + at
        magic_at = head.find(2, magic_at + 1)
    return None


RANGES_AHEAD = 3
"""How many a process has before it, so that it does not wait until its messages are read."""


class RangeEnd(NamedTuple):
    """How a range ended: the last offset of a batch, -1 without one, and where the next batch begins.

    `last_record_offset` is -1 without a record; `failures` counts values that could not be decoded;
    `is_sound` says that all was sound up to the end of the range.
    """

    last_offset: int
    next_position: int
    last_record_offset: int = -1
    failures: int = 0
    is_sound: bool = True


class RangeQueue(Generic[R]):
    """Gives the ranges of one log after the other to a pool, a few ahead of the one the caller reads.

    The messages about a range begin with a `RangeStart` and end with a `RangeEnd`, which then is `end`.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._log: object = None
        self._ranges: Iterator[R] = iter(())
        self._pending: deque[R] = deque()
        self.end = RangeEnd(-1, 0)
        self._given = 0
        self._taken = 0
        self._is_open = False
        """Whether more messages about the range taken last are to come."""

    def begin(self, log: object, ranges: Iterator[R]) -> None:
        """Let the pool begin with a log, unless it has; discard the rest of another. Raises `WorkerGone`."""
        if log == self._log:
            return
        self.discard()
        self._log, self._ranges = log, ranges
        self._fill()

    def next(self) -> R | None:
        """Return the next range, None behind the last; `follow` yields the messages about it."""
        self._fill()
        if not self._pending:
            return None
        self._is_open = True
        return self._pending.popleft()

    def follow(self, last: RangeEnd, stop: int) -> Iterator[object]:
        """Yield the messages about the next range, none if it does not follow `last`. Raises `WorkerGone`."""
        follows = False
        while not isinstance(message := self._receive(), RangeEnd):
            if isinstance(message, RangeStart):
                expected = last.last_offset + 1 if last.next_position else message.offset
                follows = message.follows_on(last.next_position, expected)
            elif follows:
                yield message
            elif isinstance(message, Piece):
                message.read()
        # A range without a start belongs wholly to a batch of the range before it.
        self.end = message if follows else last._replace(is_sound=last.next_position >= stop)

    def _receive(self) -> object:
        message = self._pool.receive(self._taken % self._pool.count)
        if isinstance(message, RangeEnd):
            self._taken += 1
            self._is_open = False
        return message

    def discard(self) -> None:
        """Discard the rest of a log. Raises `WorkerGone`."""
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
