"""Reading a log by ranges at the same time: the sound batches of a stretch of it, and whether they fit.

A range holds the batches that begin in a stretch of a file. Its first one is found by its looks and its
checksum, and may in truth be inside of a record. So a range counts only if it begins exactly where the one
before it ended: then all beginnings follow from that of the file.

RangeQueue: the ranges of long logs on their way to the processes that read them, and what comes back.

A log is begun as soon as it is known which it is: the processes work while this one gets ready.
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
"""A range, as a task for a process."""

_NEAR_BYTES = 64 * 1024


class RangeStart(NamedTuple):
    """Where the first batch begins, its offset, how many offsets it has, and the one behind it, if one is."""

    position: int
    offset: int
    span: int
    following: int | None

    def follows_on(self, position: int, expected: int) -> bool:
        """Whether it comes where it should; of its offset see `BatchReader.is_out_of_line`."""
        if self.position != position or self.offset < expected:
            return False
        return self.offset == expected or not self.span or self.following != expected + self.span


class RangeReader:
    """Reads the batches that begin in a stretch of the log of the segment at `base_offset`.

    Up to `position` all is sound, the last batch of it has `last_offset`, -1 without one.
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
        """Whether all of the stretch is sound."""
        return self.position >= self._stop

    def read(self) -> Iterator[RangeStart | BatchRun]:
        """Yield where the range starts, and its batches up to where something is wrong."""
        try:
            with SegmentFile(self._path) as segment:
                yield from self._runs(segment)
        except OSError:
            return  # who goes on from there meets it too

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
    """Yield where ranges for so many readers begin and end, `most` bytes or fewer.

    The last are small, so that no reader waits long for another.
    """
    start = 0
    while start < size:
        each = min(most, max((size - start) // (2 * count), most // 8))
        yield start, min(start + each, size)
        start += each


def begin_of(segment: SegmentFile, base_offset: int, *, start: int, stop: int) -> int:
    """Return where the first batch of a stretch begins, its end if there is none. Raises `OSError`."""
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
    """Return where a batch of the segment begins not far behind `start`, None if none is seen.

    That is what nearly every stretch begins with. The whole search knows older entries too: it compiles
    patterns for them, and takes checksums of much that is none. Where such stand right before a batch they
    are overlooked, and the stretch does not follow on the one before it.
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


class RangeQueue(Generic[R]):
    """Gives the ranges of one log after the other to a pool, a few ahead of who takes what is said of them.

    The messages about a range begin with a `RangeStart` and end with its `RangeEnd`; then `end` is that.
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
        """Whether more is to come about the range that was taken last."""

    def begin(self, log: object, ranges: Iterator[R]) -> None:
        """Let the pool begin with a log, unless it has; the rest of another is thrown away.

        Raises `WorkerGone`.
        """
        if log == self._log:
            return
        self.discard()
        self._log, self._ranges = log, ranges
        self._fill()

    def next(self) -> R | None:
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
