"""Appending to a log: the leader gives records offsets and its epoch, a follower takes them as they are.

Everything is checked before the first byte is written, and what is remembered of it, the log's end, the
producers, the epochs, changes only after the last (Kafka method `UnifiedLog.append`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.record import NO_TIMESTAMP, CorruptRecord
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.storage.append_info import AppendInfo
from kcli.storage.follower_records import whole_batches
from kcli.storage.producer_append import Origin, check_producers
from kcli.storage.producer_state import BatchMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.record import Buffer
    from kcli.protocol.records.batch import RecordBatch
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.storage.file_records import WriteAhead
    from kcli.storage.log_validator import ValidatedRecords
    from kcli.storage.unified_log import UnifiedLog

UNKNOWN_OFFSET = -1


def append_validated(
    log: UnifiedLog,
    validated: ValidatedRecords,
    *,
    leader_epoch: int,
    now_ms: int,
    written: WriteAhead | None = None,
) -> AppendInfo:
    """Give validated records offsets and the leader's epoch, and write them: `UnifiedLog.append`."""
    _stamp(log, validated, leader_epoch)
    info = _append(log, validated.data, validated.batches, validated.origin, now_ms, written)
    if not info.duplicate:
        info.log_append_time = validated.log_append_time
    return info


def append_replicated(log: UnifiedLog, records: Buffer, now_ms: int) -> AppendInfo:
    """Write records as the leader has them: `UnifiedLog.append_as_follower`."""
    data, batches = whole_batches(records, log.log_end_offset)
    return _append(log, data, batches, Origin.REPLICATION, now_ms)


def write_ahead(
    log: UnifiedLog, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int
) -> WriteAhead | None:
    """Return what writes validated records in any thread: `UnifiedLog.write_ahead`."""
    _stamp(log, validated, leader_epoch)
    size, segment = len(validated.data), log.segments.active
    if not validated.batches or log.failure is not None:
        return None
    last = validated.batches[-1]
    try:
        if segment.should_roll(size, last.last_offset, last.max_timestamp, log.config, now_ms):
            return None
        return segment.records.write_ahead(validated.data)
    except OSError as error:
        raise log.failed("append to", error) from error


def _stamp(log: UnifiedLog, validated: ValidatedRecords, leader_epoch: int) -> None:
    offset = log.log_end_offset
    for batch in validated.batches:
        set_base_offset_and_epoch(validated.data, batch.position, offset, leader_epoch)
        batch.base_offset = offset
        batch.partition_leader_epoch = leader_epoch
        offset += batch.last_offset_delta + 1


def _append(
    log: UnifiedLog,
    data: Buffer,
    batches: Sequence[RecordBatch | LegacyEntry],
    origin: Origin,
    now_ms: int,
    written: WriteAhead | None = None,
) -> AppendInfo:
    size = len(data)
    _check_room(log, size)
    if not batches:
        start = log.log_start_offset
        return AppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP, start)
    first = batches[0]
    # An older entry's first offset is inside; its last one does for everything it is needed for.
    first_offset = first.base_offset if first.magic == 2 else first.last_offset
    last_offset = batches[-1].last_offset
    max_timestamp = max([batch.max_timestamp for batch in batches])
    try:
        producers = check_producers(log.producer_state, batches, origin)
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    if isinstance(producers, BatchMetadata):
        return _duplicate_info(log, producers)
    try:
        segment = log.segments.active
        if segment.should_roll(size, last_offset, max_timestamp, log.config, now_ms):
            segment = log.roll_at(max(first_offset, log.log_end_offset), now_ms)
        for batch in batches:
            if batch.partition_leader_epoch != log.leader_epochs.latest_epoch:
                _assign_epoch(log, batch)
        segment.append(data, batches, written)
        log.local.set_end(last_offset + 1)
        if producers is not None:
            producers.publish(segment)
    except OSError as error:
        raise log.failed("append to", error) from error
    log.producer_state.map_end_offset = last_offset + 1
    return AppendInfo(first_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, size=size)


def _check_room(log: UnifiedLog, size: int) -> None:
    if log.failure is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
    if size > log.config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size} bytes are more than a segment holds, segment.bytes: {log.config.segment_bytes}",
        )


def _duplicate_info(log: UnifiedLog, duplicate: BatchMetadata) -> AppendInfo:
    return AppendInfo(
        duplicate.first_offset,
        duplicate.last_offset,
        duplicate.timestamp,
        duplicate.timestamp,
        log.log_start_offset,
        duplicate=True,
    )


def _assign_epoch(log: UnifiedLog, batch: RecordBatch | LegacyEntry) -> None:
    if batch.partition_leader_epoch >= 0:
        log.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
    elif batch.magic < 2 and len(log.leader_epochs):
        log.report(f"leader epochs of {log.topic_partition} are dropped: records of an older format")
        log.leader_epochs.clear()
