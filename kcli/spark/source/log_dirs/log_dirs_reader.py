"""LogDirsReader: reads the splits of log directories in a task.

A broker may be writing the directory: it rolls and deletes segments, and replaces them by compacted ones,
while a split is read. An open file stays readable; if a file is gone before it is opened, the directory is
listed again. A segment is read window by window, in one buffer, and past damage.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.records.batch_header import MAGIC, MAX_OFFSET
from kcli.spark.decode.entry import CorruptBatch
from kcli.spark.decode.gatherer import Gatherer
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.log_dirs.segment import (
    CannotRead,
    entry_at,
    floor_index,
    list_segments,
    locate,
    next_intact,
    reading,
)
from kcli.spark.source.log_dirs.transactions import derived_aborted
from kcli.spark.split import OffsetInterval, OnCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kcli.spark.source.log_dirs.segment import Segment
    from kcli.spark.split import AbortedTransaction, ReadCounters, Reading, Split

MAX_DEAD_LETTER_BYTES = 64 * 1024 * 1024
"""How many damaged bytes in a row are kept."""


class SegmentReading:
    """Passes the entries of a segment to a gatherer until it is done or the file ends."""

    __slots__ = ("_file", "_gatherer", "_limit_offset", "_segment", "_window")

    def __init__(self, segment: Segment, file: SegmentFile, window: FileWindow, gatherer: Gatherer) -> None:
        self._segment = segment
        self._file = file
        self._window = window
        self._gatherer = gatherer
        self._limit_offset = MAX_OFFSET if segment.next_base is None else segment.next_base

    def rows(self, position: int) -> Iterator[pa.RecordBatch]:
        gatherer, window, file = self._gatherer, self._window, self._file
        gatherer.where = f"`{self._segment.path}`"
        window.open(file, position)
        needed = 0
        while not gatherer.is_done and position < file.end:
            with reading(self._segment.path):
                window.move(position, needed)
            try:
                yield from gatherer.rows(
                    window.buffer,
                    0,
                    window.stop,
                    position=window.position,
                    is_end=window.end >= file.end,
                    limit_offset=self._limit_offset,
                )
            except CorruptBatch as damage:
                position, needed = self._behind(damage), 0
                continue
            position, needed = window.position + gatherer.stopped_at, gatherer.needed
            if not gatherer.is_done and position + needed > file.end and window.end >= file.end:
                position, needed = self._behind_tail(position), 0

    def _behind(self, damage: CorruptBatch) -> int:
        """Return the position behind damage, which the gatherer records or raises."""
        position, behind = damage.position, self._file.end
        with reading(self._segment.path):
            found = next_intact(self._segment, self._file, position)
        if found is not None:
            # An intact entry in the wrong place is skipped alone.
            behind = found.position if found.position > position else position + damage.size
        self._lose(damage, behind - position)
        return behind

    def _behind_tail(self, position: int) -> int:
        """Return the position behind an incomplete last entry; the same if a broker has written on."""
        file = self._file
        with reading(self._segment.path):
            size = file.has_changed()
            if size is not None and size > file.end:
                file.end = size
                return position
            if position + file.zeros_from(position) >= file.end:
                return file.end
        where, size = self._gatherer.where, file.end - position
        return self._behind(CorruptBatch(where, position, "the file ends inside it", size=size))

    def _lose(self, damage: CorruptBatch, count: int) -> None:
        raw = b""
        if self._gatherer.reading.on_corrupt is OnCorrupt.DEAD_LETTER:
            with reading(self._segment.path):
                raw = self._file.read(damage.position, min(count, MAX_DEAD_LETTER_BYTES))
        self._gatherer.skip_damaged(damage, count, raw)


WINDOW_BYTES = 8 * 1024 * 1024
"""A larger window is no faster; a larger entry gets a larger buffer, a short file a smaller one."""


class FileWindow:
    """The first `stop` bytes of `buffer` are the bytes of the file at `position`."""

    __slots__ = ("_file", "_view", "_window_bytes", "buffer", "position", "stop")

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self.buffer = bytearray()
        self._view = memoryview(self.buffer)
        self._file: SegmentFile | None = None
        self.position = 0
        self.stop = 0

    @property
    def end(self) -> int:
        """The end of the window in the file."""
        return self.position + self.stop

    def open(self, file: SegmentFile, position: int) -> None:
        """Begin at a position of a file, with an empty window."""
        self._file = file
        self.position, self.stop = position, 0

    def move(self, position: int, needed: int) -> None:
        """Move the window to a position and read on, so that `needed` bytes fit, up to the file's end.

        Bytes that were read before are kept. Raises `OSError`.
        """
        file = self._file
        assert file is not None
        at = position - self.position
        kept = self._view[at : self.stop] if 0 <= at <= self.stop else self._view[:0]
        count = len(kept)
        needed = max(needed, min(self._window_bytes, file.end - position))
        if needed > len(self.buffer):
            larger = bytearray(needed)
            larger[:count] = kept
            self.buffer, self._view = larger, memoryview(larger)
        else:
            self._view[:count] = kept
        self.position, self.stop = position, count
        wanted = min(len(self.buffer), file.end - position)
        while self.stop < wanted:
            got = os.preadv(file.descriptor, [self._view[self.stop : wanted]], self.end)
            if not got:
                file.end = self.end  # the file was truncated
                return
            self.stop += got


_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LogDirsReader:
    """Reads the directory that a split names, which must be at the same path on every machine."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """Raises `CorruptBatch` (`OnCorrupt.FAIL`), `DataLoss` for offsets that are gone, or `CannotRead`."""
        return SplitRun(split, reading, counters).rows()


class SplitRun:
    def __init__(self, split: Split, reading: Reading, counters: ReadCounters) -> None:
        if split.directory is None:
            raise KcliError(f"a split of `{split.topic}-{split.partition}` without a directory")
        self.split = split
        self.directory = split.directory
        self.rules = reading
        self.counters = counters
        self.gatherer = Gatherer(
            split.topic, split.partition, split.start, split.end, reading, counters, split.aborted
        )
        self.gatherer.find_aborted = self._aborted_from
        self.window = FileWindow(WINDOW_BYTES)
        self.segments: list[Segment] = []
        self._last_read: tuple[int, tuple[int, int]] = (-1, (-1, -1))
        self._given_up = -1

    @property
    def next_offset(self) -> int:
        """The next offset to read or to report as missing."""
        return max(self.gatherer.next_offset, self.split.start, self._given_up)

    def rows(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows()
        finally:
            # The method refers to this object with its large buffers: the cycle would wait for the garbage
            # collector.
            self.gatherer.find_aborted = None

    def _rows(self) -> Iterator[pa.RecordBatch]:
        misses = 0
        while self.next_offset < self.split.end:
            self._list_segments()
            segment = self._next_segment()
            if segment is None:
                break
            try:
                with reading(segment.path):
                    file = SegmentFile(segment.path)
            except CannotRead as error:
                misses += 1
                if misses > _ATTEMPTS or not isinstance(error.__cause__, FileNotFoundError):
                    raise
                continue
            misses = 0
            with file:
                segment = self._as_listed(segment)
                with reading(segment.path):
                    self._last_read = segment.base_offset, _identity(os.fstat(file.descriptor))
                    position = self._begin(segment, file)
                yield from SegmentReading(segment, file, self.window, self.gatherer).rows(position)
        self._finish()

    def _list_segments(self) -> None:
        try:
            self.segments = list_segments(self.directory)
        except CannotRead as error:
            hint = "the directory must be at this path on every machine that runs tasks"
            raise CannotRead(error.message, hint=hint) from error

    def _next_segment(self) -> Segment | None:
        """Return the segment of the next offset, or the one behind it if that was read."""
        if not self.segments:
            return None
        base_offset, identity = self._last_read
        number = floor_index(self.segments, max(self.next_offset, base_offset))
        if self.segments[number].base_offset == base_offset:
            try:
                is_same = _identity(os.stat(self.segments[number].path)) == identity
            except FileNotFoundError:
                is_same = False
            # Another file of that name is a compacted segment, which may include later ones.
            number += is_same
        if number == len(self.segments):
            return None
        segment = self.segments[number]
        if not number and segment.base_offset > self.next_offset:
            self._lose(min(segment.base_offset, self.split.end), f"the log starts at {segment.base_offset}")
        return segment if self.next_offset < self.split.end else None

    def _as_listed(self, segment: Segment) -> Segment:
        """Return an open segment with its present successor; it may be a compacted one."""
        self._list_segments()
        same = [one for one in self.segments if one.base_offset == segment.base_offset]
        return same[0] if same else segment

    def _begin(self, segment: Segment, file: SegmentFile) -> int:
        """Return where to begin in a segment, and tell the gatherer the offset there."""
        gatherer, offset = self.gatherer, self.next_offset
        if segment.base_offset < gatherer.next_offset:
            # It contains entries that have been read, perhaps as part of other segments.
            gatherer.start, gatherer.next_offset = offset, -1
        position = 0 if segment.base_offset >= offset else self._position(segment, file, offset)
        if gatherer.next_offset < 0:
            head = entry_at(segment, file, position) if position else None
            if not position:
                gatherer.next_offset = segment.base_offset
            elif head is not None and head.magic == MAGIC and head.base_offset <= offset:
                gatherer.next_offset = head.base_offset
        return position

    def _position(self, segment: Segment, file: SegmentFile, offset: int) -> int:
        """Return where the entry of an offset begins: at the split's position, if that is right."""
        split = self.split
        if offset == split.start and segment.base_offset == split.segment and split.position:
            head = entry_at(segment, file, split.position)
            if head is not None and head.base_offset <= offset:
                return split.position
        return locate(segment, file, offset)

    def _finish(self) -> None:
        end = self.split.end
        if self.next_offset >= end:
            return
        reached = self.segments[-1].base_offset if self.segments else 0
        if self.gatherer.is_searching:
            self.gatherer.finish()
        elif max(reached, self.next_offset) < end:
            self._lose(end, f"the log ends at {self.next_offset}")

    def _lose(self, end: int, why: str) -> None:
        """Record that the offsets up to `end` are gone."""
        split, start = self.split, self.next_offset
        if self.rules.fail_on_data_loss:
            raise DataLoss(
                f"offsets {start} to {end - 1} of {split.topic}-{split.partition} are gone: "
                f"{why} in `{self.directory}`"
            )
        self.counters.missing.append(OffsetInterval(start, end))
        self._given_up = end

    def _aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions from an offset on, by the heads of entries."""
        derive = partial(derived_aborted, start=offset, end=self.split.end)
        for _ in range(_ATTEMPTS):
            try:
                with reading(self.directory):
                    return derive(self.segments)
            except CannotRead as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            self._list_segments()
        raise KcliError(f"the files in `{self.directory}` disappear while they are read")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
