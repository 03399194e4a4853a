"""PlainAppend: one small batch as most producers send it, checked and written in one pass over its header.

At the rate of such batches every call counts. Nothing is left out: checksum, structure, the records one by
one, times, sequence, roll, indexes, what is remembered of the producer. But all that is asked is whether the
batch is as nearly all are. If it is not, in whatever way, nothing has been changed, and the ordinary way,
`LogValidator` and `log_append`, finds out what it is and says why it is refused.

The batch is not compressed, the topic stores what producers send, the epoch is the one that the log is in,
the producer simply continues its sequence, and the segment has room.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.record import NO_TIMESTAMP, CorruptRecord
from kcli.protocol.records.batch_header import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_MASK,
    crc32c,
)
from kcli.storage.append_info import AppendInfo
from kcli.storage.file_records import write_at
from kcli.storage.record_walk import is_one_record, walk_records

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer
    from kcli.storage.unified_log import UnifiedLog

NOT_PLAIN = -1
MAX_RECORDS = 512
"""A batch of more records than that is not small, whatever its bytes."""

_read_header = HEADER.unpack_from
_stamp = Struct(">qii").pack_into
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

    _stamp(records, 0, first_offset, length, leader_epoch)
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


def plain_info(log: UnifiedLog, records: Buffer, first_offset: int) -> AppendInfo:
    """Return what the append that has just been made did."""
    (max_timestamp,) = _read_max_timestamp(records, _MAX_TIMESTAMP_POSITION)
    end_offset = log.log_end_offset
    return AppendInfo(
        first_offset,
        end_offset - 1,
        max_timestamp,
        NO_TIMESTAMP,
        log.log_start_offset,
        size=len(records),
    )
