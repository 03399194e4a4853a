"""Finding offsets in a log by time, as ListOffsets asks for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import CorruptRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.unified_log import UnifiedLog

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


@contextmanager
def _reading(log: UnifiedLog) -> Iterator[None]:
    """Turn what reading the files raises into `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR."""
    try:
        yield
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    except OSError as error:
        raise log.failed("search", error) from error


def offset_for_timestamp(log: UnifiedLog, timestamp: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record at or after `timestamp`, None without one.

    Raises `KafkaError` CORRUPT_MESSAGE and KAFKA_STORAGE_ERROR, as the next two do.
    """
    with _reading(log):
        for segment in log.segments:
            if segment.largest_timestamp >= timestamp:
                found = segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
                # The record that made the segment qualify may lie below the log start.
                if found is not None:
                    return found
    return None


def offset_of_max_timestamp(log: UnifiedLog) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp.

    None for a log without timestamps (KIP-734).
    """
    with _reading(log):
        newest = max(log.segments, key=lambda segment: segment.indexes.max_timestamp)
        largest = newest.indexes.max_timestamp
        if largest < 0:
            return None
        return newest.first_with_timestamp(largest, newest.indexes.offset_of_max_timestamp)


def offsets_before(log: UnifiedLog, timestamp: int, *, max_offsets: int, now_ms: int) -> list[int]:
    """Return up to `max_offsets` offsets, newest first, that segments began at before `timestamp`.

    The time of a segment is when its file was written last. -1 stands for the log end, -2 for the log start.
    ListOffsets version 0 knows nothing finer (Kafka's `legacyFetchOffsetsBefore`).
    """
    with _reading(log):
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
