"""Appending to a log: the leader gives records offsets and its epoch, a follower takes them as they are.

Everything is checked before the first byte is written, and what is remembered of it, the log's end, the
producers, the epochs, changes only after the last (Kafka method `UnifiedLog.append`).

LogAppendInfo: what an append did to a log.

PlainAppend: one small batch as most producers send it, checked and written in one pass over its header.

At the rate of such batches every call counts. Nothing is left out: checksum, structure, the records one by
one, times, sequence, roll, indexes, what is remembered of the producer. But all that is asked is whether the
batch is as nearly all are. If it is not, in whatever way, nothing has been changed, and the ordinary way,
`LogValidator` and `log_append`, finds out what it is and says why it is refused.

The batch is not compressed, the topic stores what producers send, the epoch is the one that the log is in,
the producer simply continues its sequence, and the segment has room.

FollowerAppend: a run of ordinary batches of a leader, checked and written in one pass over their heads.

It is for a follower what `plain_append` is for a leader: all that is asked is whether the batches are as
nearly all are. If not, nothing has been changed, and `log_append.append_replicated` takes them apart.

The batches are of magic 2, outside transactions, of the epoch that the log is in and in the order of their
offsets, their producers simply continue, and the segment has room for all of them. Bytes are written as they
came: the log becomes the leader's, byte for byte.

What a follower checks of the records it fetched, which its leader has validated already.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_header import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_MASK,
    TRANSACTIONAL_BIT,
    crc32c,
    set_base_offset_and_epoch,
)
from kcli.protocol.records.record import NO_TIMESTAMP
from kcli.protocol.records.record_walk import is_one_record, walk_records
from kcli.storage.log.file_records import write_at
from kcli.storage.producers.producer_state import BatchMetadata, Origin, check_producers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.log_validator import ValidatedRecords
    from kcli.storage.log.unified_log import UnifiedLog
    from kcli.storage.producers.producer_state import ProducerStateEntry


class LogAppendInfo:
    """Where records went. `first_offset` is -1 if there was nothing to append.

    A `duplicate` was written before: the offsets are those of then. `log_append_time` is -1 unless the broker
    set the timestamps. `size` counts the bytes stored now.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        log_append_time: int,
        log_start_offset: int,
        duplicate: bool = False,
        size: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.size = size


NOT_PLAIN = -1
MAX_RECORDS = 512
"""A batch of more records than that is not small, whatever its bytes."""

_read_header = HEADER.unpack_from
_stamp_of_plain_append = Struct(">qii").pack_into
"""Base offset, length and leader epoch, which the checksum does not cover."""
_MAX_TIMESTAMP_POSITION = 35
_read_max_timestamp = Struct(">q").unpack_from


def append_plain(log: UnifiedLog, records: memoryview, leader_epoch: int, now_ms: int) -> int:
    """Append a client's batch, patched in place; return its first offset, `NOT_PLAIN` if it is not of this
    kind.

    Raises `KafkaError` KAFKA_STORAGE_ERROR; nothing was written then.
    """
    validator = log.validator
    size = len(records)
    if not HEADER_SIZE < size <= validator.plain_bytes:
        return NOT_PLAIN
    (
        base_offset,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _read_header(records)
    if (
        length + LOG_OVERHEAD != size
        or magic != 2
        or attributes
        or base_offset
        or not 0 <= last_offset_delta == count - 1 < MAX_RECORDS
        or not -1 <= max_timestamp <= now_ms + validator.after_max_ms
        or leader_epoch != log.leader_epochs.latest_epoch
        or log.failure is not None
    ):
        return NOT_PLAIN
    local = log.local
    segment = local.segments.active
    file_records, indexes = segment.records, segment.indexes
    position = file_records.size
    first_offset = local.end_offset
    last_offset = first_offset + last_offset_delta
    if (
        position + size > local.config.segment_bytes
        or last_offset > segment.offset_limit
        or max_timestamp > segment.timestamp_limit
        or indexes.is_full
        or (file := file_records.file) is None
    ):
        return NOT_PLAIN
    state = log.producer_state
    producer = None
    if producer_id >= 0:
        producer = state.producers.get(producer_id)
        if producer is None or not producer.is_continued_by(producer_epoch, base_sequence):
            return NOT_PLAIN
    if crc32c(records[CRC_START:]) != crc:
        return NOT_PLAIN
    if count != 1 or base_timestamp != max_timestamp or not is_one_record(records, HEADER_SIZE):
        try:
            # Byte by byte a view is read a third more slowly than bytes.
            _, max_delta, is_dense, _ = walk_records(records.tobytes(), HEADER_SIZE, count)
        except CorruptRecord:
            return NOT_PLAIN
        if not is_dense or base_timestamp + max_delta != max_timestamp:
            return NOT_PLAIN

    _stamp_of_plain_append(records, 0, first_offset, length, leader_epoch)
    try:
        write_at(file.descriptor, records, position)
    except OSError as error:
        raise log.failed("append to", error) from error
    file_records.size = position + size
    indexes.add(position, size, last_offset, max_timestamp)
    segment.tail = position, size, first_offset, last_offset
    state.map_end_offset = local.end_offset = last_offset + 1
    if producer is not None:
        last_sequence = (base_sequence + last_offset_delta) & SEQUENCE_MASK
        producer.add(last_sequence, first_offset, last_offset, max_timestamp)
    return first_offset


def plain_info(log: UnifiedLog, records: Buffer, first_offset: int) -> LogAppendInfo:
    """Return what the append that has just been made did."""
    (max_timestamp,) = _read_max_timestamp(records, _MAX_TIMESTAMP_POSITION)
    end_offset = log.log_end_offset
    return LogAppendInfo(
        first_offset,
        end_offset - 1,
        max_timestamp,
        NO_TIMESTAMP,
        log.log_start_offset,
        size=len(records),
    )


_SPECIAL_BITS = TRANSACTIONAL_BIT | CONTROL_BIT

_Batch = tuple[int, int, int, int, "ProducerStateEntry | None", int]
"""Size, first offset, last offset, largest timestamp, its producer and the last sequence of it."""


def append_run(log: UnifiedLog, records: memoryview) -> bool:
    """Append the whole batches of `records`; return False, and do nothing, if they are not all of this kind.

    Raises `KafkaError` KAFKA_STORAGE_ERROR; nothing was written then.
    """
    batches = _take_apart(log, records)
    if not batches:
        return False
    local, state = log.local, log.producer_state
    segment = local.segments.active
    indexes, file_records = segment.indexes, segment.records
    position, size = file_records.size, sum([batch[0] for batch in batches])
    last_offset, max_timestamp = batches[-1][2], max([batch[3] for batch in batches])
    if (
        log.failure is not None
        or position + size > local.config.segment_bytes
        or last_offset > segment.offset_limit
        or max_timestamp > segment.timestamp_limit
        or indexes.is_full
        or (file := file_records.file) is None
    ):
        return False
    try:
        write_at(file.descriptor, records if size == len(records) else records[:size], position)
    except OSError as error:
        raise log.failed("append to", error) from error
    file_records.size = position + size
    for size, first_offset, last_offset, timestamp, producer, last_sequence in batches:
        indexes.add(position, size, last_offset, timestamp)
        position += size
        if producer is not None:
            producer.add(last_sequence, first_offset, last_offset, timestamp)
    segment.tail = position - size, size, first_offset, last_offset
    state.map_end_offset = local.end_offset = last_offset + 1
    return True


def _take_apart(log: UnifiedLog, records: memoryview) -> list[_Batch]:
    """Return the whole batches, none unless all of them are ordinary."""
    batches: list[_Batch] = []
    next_offset, epoch = log.local.end_offset, log.leader_epochs.latest_epoch
    producers = log.producer_state.producers
    written: dict[int, int] = {}
    at, end = 0, len(records)
    while at + HEADER_SIZE <= end:
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            _,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            _,
        ) = _read_header(records, at)
        size = length + LOG_OVERHEAD
        if (
            magic != 2
            or leader_epoch != epoch
            or base_offset < next_offset
            or last_offset_delta < 0
            or size <= HEADER_SIZE
            or attributes & _SPECIAL_BITS
        ):
            return []
        if at + size > end:
            break
        producer, last_sequence = None, -1
        if producer_id >= 0:
            producer = producers.get(producer_id)
            if producer is None or producer.current_txn_first_offset >= 0:
                return []
            known = written.get(producer_id)
            if known is None:
                if not producer.is_continued_by(producer_epoch, base_sequence):
                    return []
            elif producer_epoch != producer.producer_epoch or base_sequence != (known + 1) & SEQUENCE_MASK:
                return []
            last_sequence = written[producer_id] = (base_sequence + last_offset_delta) & SEQUENCE_MASK
        if crc32c(records[at + CRC_START : at + size]) != crc:
            return []
        last_offset = base_offset + last_offset_delta
        batches.append((size, base_offset, last_offset, max_timestamp, producer, last_sequence))
        next_offset = last_offset + 1
        at += size
    return batches


def whole_batches(records: Buffer, next_offset: int) -> tuple[Buffer, list[RecordBatch | LegacyEntry]]:
    """Return the whole batches at the start of a buffer, as bytes and taken apart.

    Checksums must be right, and offsets go up from `next_offset`, holes allowed. Raises `KafkaError`
    CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE.
    """
    batches: list[RecordBatch | LegacyEntry] = []
    size = 0
    try:
        for batch in iter_batches(records):
            last_offset = batch.last_offset
            if not batch.is_valid_crc():
                raise CorruptRecord(f"wrong checksum at offset {last_offset}")
            # The first offset of an older entry is inside; to learn it takes decompressing.
            first_offset = batch.base_offset if isinstance(batch, RecordBatch) else last_offset
            if first_offset < next_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {first_offset} comes after {next_offset - 1}"
                )
            next_offset = last_offset + 1
            size += batch.size_in_bytes
            batches.append(batch)
    except CorruptRecord as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    return (records if size == len(records) else memoryview(records)[:size]), batches


UNKNOWN_OFFSET = -1


def append_validated(
    log: UnifiedLog,
    validated: ValidatedRecords,
    *,
    leader_epoch: int,
    now_ms: int,
    written: WriteAhead | None = None,
) -> LogAppendInfo:
    """Give validated records offsets and the leader's epoch, and write them: `UnifiedLog.append`."""
    _stamp(log, validated, leader_epoch)
    info = _append(log, validated.data, validated.batches, validated.origin, now_ms, written)
    if not info.duplicate:
        info.log_append_time = validated.log_append_time
    return info


def append_replicated(log: UnifiedLog, records: Buffer, now_ms: int) -> LogAppendInfo:
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
) -> LogAppendInfo:
    size = len(data)
    _check_room(log, size)
    if not batches:
        start = log.log_start_offset
        return LogAppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP, NO_TIMESTAMP, start)
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
    return LogAppendInfo(
        first_offset, last_offset, max_timestamp, NO_TIMESTAMP, log.log_start_offset, size=size
    )


def _check_room(log: UnifiedLog, size: int) -> None:
    if log.failure is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.failure)
    if size > log.config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size} bytes are more than a segment holds, segment.bytes: {log.config.segment_bytes}",
        )


def _duplicate_info(log: UnifiedLog, duplicate: BatchMetadata) -> LogAppendInfo:
    return LogAppendInfo(
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
