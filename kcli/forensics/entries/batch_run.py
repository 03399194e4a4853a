"""BatchRun: consecutive sound batches of a log, column by column; BatchReader, which finds them.

The reader decodes the headers of all batches in a window and makes no object of any of them. Code that looks
at millions of batches works on columns, one call of the interpreter each; `entries` yields the batches one by
one.
"""

from __future__ import annotations

from itertools import repeat
from operator import add, mul, sub
from struct import Struct
from typing import TYPE_CHECKING

from kcli.forensics.entries.segment_file import SegmentWindow
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_OFFSET,
    MIN_BATCH_LENGTH,
    MIN_RECORD_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    crc32c,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.forensics.entries.segment_file import SegmentFile

MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_ENTRY_BYTES = 8 * 1024 * 1024
"""The largest entry that is kept in memory."""

BATCH_BITS = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
LAST_CODEC = 4

_OFFSET = Struct(">q")
SOUND_ATTRIBUTES = frozenset(bits for bits in range(BATCH_BITS + 1) if bits & CODEC_MASK <= LAST_CODEC)

Row = tuple[int, ...]
"""The fields of a header."""


class BatchRun:
    """The batches at `starts` of `buffer`, whose first byte is at `origin` in the file.

    The buffer belongs to the scan and is valid until its next step. The next batch begins at `end` of the
    file.
    """

    def __init__(
        self, rows: Sequence[Row], starts: Sequence[int], window: SegmentWindow, file: SegmentFile
    ) -> None:
        self.buffer = window.buffer
        self.origin = window.origin
        self.file = file
        self.starts = starts
        (
            self.base_offsets,
            self.lengths,
            self.leader_epochs,
            _,
            self.crcs,
            self.attributes,
            self.deltas,
            self.base_timestamps,
            self.max_timestamps,
            self.producer_ids,
            self.producer_epochs,
            self.sequences,
            self.counts,
        ) = zip(*rows, strict=True)
        self.last_offsets = tuple(map(add, self.base_offsets, self.deltas))
        self.end = self.origin + starts[-1] + LOG_OVERHEAD + self.lengths[-1]

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def positions(self) -> list[int]:
        """Where the batches begin in the file."""
        origin = self.origin
        return [origin + at for at in self.starts]

    @property
    def sizes(self) -> list[int]:
        return [LOG_OVERHEAD + length for length in self.lengths]

    @property
    def is_dense(self) -> bool:
        """Whether no offset is missing, in the batches and between them."""
        # No batch can have more records than offsets: equal sums mean that every batch is full.
        spanned: int = self.last_offsets[-1] - self.base_offsets[0] + 1
        offsets: int = sum(self.deltas) + len(self)
        records: int = sum(self.counts)
        return spanned == offsets == records

    def entries(self) -> Iterator[ScannedEntry]:
        from kcli.forensics.entries.scanned_entry import ScannedEntry
        from kcli.protocol.records.batch import RecordBatch

        buffer, origin, file = self.buffer, self.origin, self.file
        for at, length in zip(self.starts, self.lengths, strict=True):
            yield ScannedEntry(origin + at, LOG_OVERHEAD + length, RecordBatch(buffer, at), True, (), file)


class BatchReader:
    """Reads a log from `position` on, where the offset should be `expected`; -1 if that is unknown."""

    __slots__ = ("_max_entry_bytes", "expected", "file", "highest", "position", "window")

    def __init__(
        self,
        file: SegmentFile,
        *,
        position: int = 0,
        expected: int = -1,
        highest: int = MAX_OFFSET,
        max_entry_bytes: int = MAX_ENTRY_BYTES,
    ) -> None:
        self.file = file
        self.position = position
        self.expected = expected
        self.highest = highest
        self.window = SegmentWindow(file)
        self._max_entry_bytes = max_entry_bytes

    def runs(self, stop: int | None = None) -> Iterator[BatchRun]:
        """Yield sound batches of magic 2 that begin before `stop`, up to anything else. Raises `OSError`."""
        file, window, needed = self.file, self.window, HEADER_SIZE
        stop = file.end if stop is None else stop
        while self.position < stop and (at := window.find(self.position, needed)) >= 0:
            rows, starts, needed = _matching_rows(window, at, stop - window.origin)
            if rows:
                run = BatchRun(rows, starts, window, file)
                sound = self._count_sound(run)
                if sound < len(run):
                    if not sound:
                        return
                    run, needed = BatchRun(rows[:sound], starts[:sound], window, file), 0
                self.position, self.expected = run.end, run.last_offsets[-1] + 1
                yield run
            if not 0 < needed <= self._max_entry_bytes or self.position + needed > file.end:
                return

    def is_out_of_line(self, offset: int, span: int, behind: int) -> bool:
        """Whether an offset other than the expected one is wrong: it goes back, or the next entry shows it.

        The entry has `span` offsets, 0 if that is unknown, and ends at `behind` of the window.
        """
        if self.expected < 0 or offset < self.expected:
            return self.expected >= 0
        if not span:
            return False
        return self.offset_at(behind) == self.expected + span

    def offset_at(self, at: int) -> int | None:
        """Return the offset field of the entry at `at` of the window, None behind the end of the file."""
        window = self.window
        if 0 <= at <= window.limit - _OFFSET.size:
            return int(_OFFSET.unpack_from(window.buffer, at)[0])
        head = self.file.read(window.origin + at, _OFFSET.size)
        return int(_OFFSET.unpack(head)[0]) if len(head) == _OFFSET.size else None

    def _count_sound(self, run: BatchRun) -> int:
        """Return how many batches come before the first one with a fault."""
        sound = len(run)
        if not self._are_sound(run, slice(None)):
            sound = next(at for at in range(sound) if not self._are_sound(run, slice(at, at + 1)))
        expected = [self.expected if self.expected >= 0 else run.base_offsets[0]]
        expected += [last + 1 for last in run.last_offsets[:-1]]
        if run.base_offsets == tuple(expected):
            return sound
        for at in range(sound):
            if run.base_offsets[at] != expected[at]:
                self.expected = expected[at]
                behind = run.starts[at] + LOG_OVERHEAD + run.lengths[at]
                if self.is_out_of_line(run.base_offsets[at], run.deltas[at] + 1, behind):
                    return at
        return sound

    def _are_sound(self, run: BatchRun, which: slice) -> bool:
        counts, deltas, attributes = run.counts[which], run.deltas[which], set(run.attributes[which])
        if (
            min(counts) < 0
            or min(deltas) < 0
            or max(map(sub, counts, deltas)) > 1
            or min(run.base_offsets[which]) < 0
            or max(run.last_offsets[which]) > self.highest
            or not attributes <= SOUND_ATTRIBUTES
        ):
            return False
        if all(bits & CODEC_MASK for bits in attributes):
            return True
        lengths = run.lengths[which]
        if max(counts) * MIN_RECORD_BYTES <= min(lengths) - MIN_BATCH_LENGTH:
            return True
        most = max(map(sub, map(mul, counts, repeat(MIN_RECORD_BYTES)), lengths))
        # Compressed batches need not fit; where they are mixed with others, each batch is checked.
        return most <= -MIN_BATCH_LENGTH or (len(attributes) > 1 and self._each_fits(run, which))

    def _each_fits(self, run: BatchRun, which: slice) -> bool:
        return all(
            bits & CODEC_MASK or count * MIN_RECORD_BYTES <= length - MIN_BATCH_LENGTH
            for bits, count, length in zip(
                run.attributes[which], run.counts[which], run.lengths[which], strict=True
            )
        )


def _matching_rows(window: SegmentWindow, at: int, stop: int) -> tuple[list[Row], list[int], int]:
    """Return the headers and places of the batches from `at` on whose checksums match.

    The number is how many bytes the window must hold to go on: those of a batch that is cut off by it; 0
    where the next entry is not such a batch.
    """
    rows: list[Row] = []
    starts: list[int] = []
    unpack, buffer, view, limit = HEADER.unpack_from, window.buffer, window.view, window.limit
    add_row, add_start, last = rows.append, starts.append, min(limit - HEADER_SIZE, stop - 1)
    while at <= last:
        row = unpack(buffer, at)
        length = row[1]
        behind = at + LOG_OVERHEAD + length
        if row[3] != MAGIC or length < MIN_BATCH_LENGTH:
            return rows, starts, 0
        if behind > limit:
            return rows, starts, behind - at
        if crc32c(view[at + CRC_START : behind]) != row[4]:
            return rows, starts, 0
        add_row(row)
        add_start(at)
        at = behind
    return rows, starts, HEADER_SIZE
