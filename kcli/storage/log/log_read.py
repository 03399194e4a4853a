"""LogRead: what a fetch finds in a log, and up to where it may look."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.index.index_file import CorruptIndex

if TYPE_CHECKING:
    from kcli.storage.index.transaction_index import AbortedTransaction
    from kcli.storage.log.file_records import FileSlice
    from kcli.storage.log.unified_log import UnifiedLog


class Isolation(Enum):
    """Up to where a fetch may read (Kafka class `FetchIsolation`)."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class LogOffsetMetadata(NamedTuple):
    """An offset and where it is: the base offset of its segment and the position of its batch there.

    Both are -1 as long as they have not been looked up.
    """

    offset: int
    segment_base_offset: int = -1
    position: int = -1


class LogRead:
    """What a read found, and the log's offsets at that moment.

    `file_slice` is None when there is nothing to read. It begins with the batch that holds the offset asked
    for, so possibly with earlier records, and may end within a batch; `first_batch_size` is the size of that
    first batch. `aborted` lists the aborted transactions that touch the slice, None unless only committed
    records were asked for.
    """

    __slots__ = (
        "aborted",
        "file_slice",
        "first_batch_size",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(
        self,
        file_slice: FileSlice | None,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        log_end_offset: int,
        aborted: list[AbortedTransaction] | None = None,
        first_batch_size: int = 0,
    ) -> None:
        self.file_slice = file_slice
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.aborted = aborted
        self.first_batch_size = first_batch_size


def read(log: UnifiedLog, offset: int, max_bytes: int, isolation: Isolation, min_one: bool) -> LogRead:
    """Find the records from `offset` on: `UnifiedLog.read`."""
    high_watermark, stable = log.high_watermark, log.last_stable_offset
    start_offset, end_offset = log.log_start_offset, log.log_end_offset
    if not start_offset <= offset <= end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is not within {start_offset} to {end_offset}: {log.topic_partition}",
        )
    if log.failure is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
    try:
        limit = _limit(log, isolation, stable)
        segment, entry, size = log.local.find_slice(offset, max_bytes, limit, min_one)
        file_slice = segment.records.slice(entry.position, size) if size > 0 else None
        aborted = None
        if isolation is Isolation.TXN_COMMITTED:
            end = entry.position + size
            aborted = log.local.aborted_in(offset, segment, end) if size > 0 else []
    except (CorruptRecord, CorruptIndex) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    except OSError as error:
        raise log.failed("read from", error) from error
    return LogRead(file_slice, high_watermark, stable, start_offset, end_offset, aborted, entry.size)


def _limit(log: UnifiedLog, isolation: Isolation, stable: int) -> LogOffsetMetadata:
    high_watermark = log.high_watermark
    if isolation is Isolation.LOG_END or high_watermark == log.log_end_offset == stable:
        return log.local.end()
    if isolation is Isolation.TXN_COMMITTED and stable < high_watermark:
        return log.local.locate(stable)
    # Looked up when a read needs it, and remembered until it moves.
    known = log.high_watermark_metadata
    if known is None or known.offset != high_watermark:
        known = log.high_watermark_metadata = log.local.locate(high_watermark)
    return known
