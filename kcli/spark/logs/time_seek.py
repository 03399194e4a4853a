"""Finding by time: the earliest offset whose record is not older than a moment.

Timestamps need not increase, so every segment is asked in turn. A time index says that no record up to an
offset is newer than a time; it is believed if the batch at that offset has just that time. As brokers do it,
markers of transactions count as records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.forensics.entries.scanned_entry import view_of
from kcli.forensics.entries.segment_file import SegmentFile
from kcli.protocol.record import CorruptRecord
from kcli.spark.logs.head_walk import resynced
from kcli.spark.logs.seek import load_index, locate
from kcli.spark.logs.segments import floor_index
from kcli.storage.index.index_file import CorruptIndex
from kcli.storage.index.time_index import TimeIndex
from kcli.storage.log_paths import TIME_INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.logs.head_walk import Head
    from kcli.spark.logs.segments import Segment


def offset_for_timestamp(segments: Sequence[Segment], timestamp_ms: int, start: int, end: int) -> int | None:
    """Return the earliest offset in `start..end - 1` of a record at or after a time, None without one.

    Raises `OSError`.
    """
    for segment in segments[floor_index(segments, start) :]:
        if segment.base_offset >= end:
            return None
        found = _in_segment(segment, timestamp_ms, start)
        if found is not None:
            return found if found < end else None
    return None


def _in_segment(segment: Segment, timestamp_ms: int, start: int) -> int | None:
    with SegmentFile(segment.path) as file:
        position = _begin(segment, file, timestamp_ms, start)
        for head in resynced(segment, file, position):
            if head.max_timestamp >= timestamp_ms and head.last_offset >= start:
                found = _in_entry(head, file, timestamp_ms, start)
                if found is not None:
                    return found
    return None


def _begin(segment: Segment, file: SegmentFile, timestamp_ms: int, start: int) -> int:
    """Return a position before which no entry of interest begins."""
    index = load_index(segment, file)
    times = TimeIndex(segment.index_path(TIME_INDEX_SUFFIX), segment.base_offset, 0)
    try:
        times.load()
    except (FileNotFoundError, CorruptIndex):
        return locate(segment, file, start, index)
    latest, offset = times.lookup(timestamp_ms - 1)
    if latest < 0 or offset < start:
        return locate(segment, file, start, index)
    position = locate(segment, file, offset, index)
    head = next(resynced(segment, file, position), None)
    if head is None or head.max_timestamp != latest or head.last_offset < offset:
        return locate(segment, file, start, index)
    return position


def _in_entry(head: Head, file: SegmentFile, timestamp_ms: int, start: int) -> int | None:
    """Return the first offset of interest in an entry; that of the entry if its records cannot be read."""
    entry = view_of(file.read(head.position, head.size))
    try:
        for record in entry.records():
            if record.timestamp >= timestamp_ms and record.offset >= start:
                return record.offset
    except CorruptRecord:
        return max(head.first_offset, start)
    return None
