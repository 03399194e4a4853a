"""LogDirsReader: reads splits of log directories, in a task; and SplitRun, the reading of one.

A broker may be writing the directory: segments are rolled, deleted, and replaced by compacted ones while a
split is read. A file that is open stays readable; one that has gone before it was opened is looked for anew.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.spark.columns.entry import MAGIC
from kcli.spark.columns.gather import Gatherer
from kcli.spark.logs.file_window import WINDOW_BYTES, FileWindow
from kcli.spark.logs.read_errors import CannotRead, reading
from kcli.spark.logs.seek import entry_at, locate
from kcli.spark.logs.segment_reading import SegmentReading
from kcli.spark.logs.segments import floor_index, list_segments
from kcli.spark.logs.transactions import derived_aborted
from kcli.spark.ranges.data_loss import DataLoss
from kcli.spark.reading import OffsetInterval

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kcli.spark.logs.segments import Segment
    from kcli.spark.reading import ReadCounters, Reading
    from kcli.spark.split import AbortedTransaction, Split

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class LogDirsReader:
    """Reads the directory that a split names; it must be at the same path wherever tasks run."""

    def read(self, split: Split, reading: Reading, counters: ReadCounters) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split in the order of their offsets, with exactly the columns asked for.

        Raises `CorruptBatch` under `OnCorrupt.FAIL`, `DataLoss` for offsets that are gone, and `CannotRead`.
        """
        return SplitRun(split, reading, counters).rows()


class SplitRun:
    """One reading of a split."""

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
        """The first offset that has not been dealt with."""
        return max(self.gatherer.next_offset, self.split.start, self._given_up)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        try:
            yield from self._rows()
        finally:
            # It holds the run, and both large buffers: they are not to wait for the garbage collector.
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
            raise CannotRead(
                error.message, hint="the directory must be at this path on every machine that runs tasks"
            ) from error

    def _next_segment(self) -> Segment | None:
        """Return the segment to read now: that of the next offset, or the one behind it if it was read."""
        if not self.segments:
            return None
        base_offset, identity = self._last_read
        number = floor_index(self.segments, max(self.next_offset, base_offset))
        if self.segments[number].base_offset == base_offset:
            try:
                is_same = _identity(os.stat(self.segments[number].path)) == identity
            except FileNotFoundError:
                is_same = False
            # Another file of that name is a compacted one, in which more segments may have ended up.
            number += is_same
        if number == len(self.segments):
            return None
        segment = self.segments[number]
        if not number and segment.base_offset > self.next_offset:
            self._lose(min(segment.base_offset, self.split.end), f"the log starts at {segment.base_offset}")
        return segment if self.next_offset < self.split.end else None

    def _as_listed(self, segment: Segment) -> Segment:
        """Return an open segment with the one that follows it now: it may itself be a compacted one."""
        self._list_segments()
        same = [one for one in self.segments if one.base_offset == segment.base_offset]
        return same[0] if same else segment

    def _begin(self, segment: Segment, file: SegmentFile) -> int:
        """Return where in a segment the reading begins, and let the gatherer know which offset that has."""
        gatherer, offset = self.gatherer, self.next_offset
        if segment.base_offset < gatherer.next_offset:
            # It has entries that have been read, perhaps as a part of others.
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
        """Return where the entry of an offset begins: where the split says, if that can be."""
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
        """Take note that the offsets up to `end` are gone."""
        split, start = self.split, self.next_offset
        if self.rules.fail_on_data_loss:
            raise DataLoss(
                f"offsets {start} to {end - 1} of {split.topic}-{split.partition} are gone: "
                f"{why} in `{self.directory}`"
            )
        self.counters.missing.append(OffsetInterval(start, end))
        self._given_up = end

    def _aborted_from(self, offset: int) -> list[AbortedTransaction]:
        """Return the transactions from an offset on that were rolled back, as the heads tell."""
        derive = partial(derived_aborted, start=offset, end=self.split.end)
        for _ in range(_ATTEMPTS):
            try:
                with reading(self.directory):
                    return derive(self.segments)
            except CannotRead as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            self._list_segments()
        raise KcliError(f"the files in `{self.directory}` go while they are read")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
