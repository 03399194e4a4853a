"""SegmentReading: one segment into a gatherer, window by window, and past damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.spark.columns.corrupt_batch import CorruptBatch
from kcli.spark.columns.entry import MAX_OFFSET
from kcli.spark.logs.head_walk import next_intact
from kcli.spark.logs.read_errors import reading
from kcli.spark.reading import OnCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.spark.columns.gather import Gatherer
    from kcli.spark.logs.file_window import FileWindow
    from kcli.spark.logs.segments import Segment

MAX_DEAD_LETTER_BYTES = 64 * 1024 * 1024
"""So much of damaged bytes in a row is kept."""


class SegmentReading:
    """Gives the entries of a segment to a gatherer, until it has all it wants or the file ends."""

    __slots__ = ("_file", "_gatherer", "_limit_offset", "_segment", "_window")

    def __init__(self, segment: Segment, file: SegmentFile, window: FileWindow, gatherer: Gatherer) -> None:
        self._segment = segment
        self._file = file
        self._window = window
        self._gatherer = gatherer
        self._limit_offset = MAX_OFFSET if segment.next_base is None else segment.next_base

    def rows(self, position: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the entries from a position on, where one begins."""
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
        """Return where to go on behind damage, of which the gatherer has taken note, or raised it."""
        position, behind = damage.position, self._file.end
        with reading(self._segment.path):
            found = next_intact(self._segment, self._file, position)
        if found is not None:
            # What is intact by itself, but not in its place, is passed over alone.
            behind = found.position if found.position > position else position + damage.size
        self._lose(damage, behind - position)
        return behind

    def _behind_tail(self, position: int) -> int:
        """Return where to go on where the file ends inside an entry: there, if a broker has written on."""
        file = self._file
        with reading(self._segment.path):
            size = file.has_changed()
            if size is not None and size > file.end:
                file.end = size
                return position
            if position + file.zeros_from(position) >= file.end:
                return file.end
        reason = "the file ends inside it"
        damage = CorruptBatch(
            self._gatherer.where, position, reason, size=file.end - position, first=-1, last=-1
        )
        return self._behind(damage)

    def _lose(self, damage: CorruptBatch, count: int) -> None:
        raw = b""
        if self._gatherer.reading.on_corrupt is OnCorrupt.DEAD_LETTER:
            with reading(self._segment.path):
                raw = self._file.read(damage.position, min(count, MAX_DEAD_LETTER_BYTES))
        self._gatherer.lose(damage, count, raw)
