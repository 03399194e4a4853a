"""Finding offsets in a log by time, as ListOffsets asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.storage.unified_log import UnifiedLog

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


def offset_for_timestamp(log: UnifiedLog, timestamp: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record at or after `timestamp`, None without one.

    Raises `CorruptRecord` and `OSError`.
    """
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
            # The record that made the segment qualify may lie below the log start.
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(log: UnifiedLog) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp.

    None for a log without timestamps. Raises `CorruptRecord` and `OSError`.
    """
    newest = max(log.segments, key=lambda segment: segment.indexes.max_timestamp)
    if newest.indexes.max_timestamp < 0:
        return None
    return newest.first_with_timestamp(newest.indexes.max_timestamp, newest.indexes.offset_of_max_timestamp)


def offsets_before(log: UnifiedLog, timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
    """Return up to `max_offsets` offsets, newest first, that segments began at before `timestamp`.

    The time of a segment is when its file was written last. -1 stands for the log end, -2 for the log start.
    ListOffsets version 0 knows nothing finer (Kafka's `legacyFetchOffsetsBefore`). Raises `OSError`.
    """
    starts = [
        (max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments
    ]
    if log.segments.active.size:
        starts.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        count = 1
    elif timestamp == LATEST_TIMESTAMP:
        count = len(starts)
    else:
        count = max(
            (i + 1 for i, (_, modified_ms) in enumerate(starts) if modified_ms <= timestamp), default=0
        )
    return sorted((offset for offset, _ in starts[max(count - max_offsets, 0) : count]), reverse=True)
