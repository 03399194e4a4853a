"""FollowerAppend: a run of ordinary batches of a leader, checked and written in one pass over their heads.

It is for a follower what `plain_append` is for a leader: all that is asked is whether the batches are as
nearly all are. If not, nothing has been changed, and `log_append.append_replicated` takes them apart.

The batches are of magic 2, outside transactions, of the epoch that the log is in and in the order of their
offsets, their producers simply continue, and the segment has room for all of them. Bytes are written as they
came: the log becomes the leader's, byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.records.batch_header import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    SEQUENCE_MASK,
    TRANSACTIONAL_BIT,
    crc32c,
)
from kcli.storage.file_records import write_at

if TYPE_CHECKING:
    from kcli.storage.producer_state import ProducerStateEntry
    from kcli.storage.unified_log import UnifiedLog

_read_header = HEADER.unpack_from
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
