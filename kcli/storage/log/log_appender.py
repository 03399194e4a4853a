"""LogAppender: writes records at the end of a log, as leader or as follower.

A leader gives records their offsets and its epoch; a follower writes them byte for byte as its leader has
them. Everything is checked before the first byte is written; the log's end, the producers and the epochs
change only after the last (Kafka method `UnifiedLog.append`).

Two short ways serve most appends in one pass over the headers: `append_plain` one batch of a client,
`append_run` a run of batches from a leader. They check as much as the ordinary way, but know only the
ordinary case: the epoch is the one that the log is in, producers continue their sequences outside
transactions, the segment has room. Anything else they decline without a change, and the ordinary way decides
what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from kcli.protocol.records.record_walk import WALKED_BYTES_PER_RECORD, walk_records
from kcli.storage.index.offset_index import MAX_RELATIVE_OFFSET
from kcli.storage.log.file_records import write_at
from kcli.storage.log.log_validator import LogValidator
from kcli.storage.producers.producer_entry import BatchMetadata
from kcli.storage.producers.producer_state import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.control_records import TransactionMarker
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.storage.log.file_records import WriteAhead
    from kcli.storage.log.leader_epochs import LeaderEpochs
    from kcli.storage.log.local_log import LocalLog
    from kcli.storage.log.log_config import LogConfig
    from kcli.storage.log.log_segment import LogSegment
    from kcli.storage.log.log_validator import ValidatedRecords
    from kcli.storage.producers.producer_entry import ProducerStateEntry
    from kcli.storage.producers.producer_guards import ProducerGuard
    from kcli.storage.producers.producer_snapshot import ProducerSnapshots
    from kcli.storage.producers.producer_state import (
        Continuation,
        ProducerAppends,
        ProducerStateManager,
    )

UNKNOWN_OFFSET = -1
NOT_PLAIN = -1
MAX_RECORDS = 512 * 1024 // WALKED_BYTES_PER_RECORD
"""`append_plain` declines a batch of more records: the walk over them takes a millisecond or more."""

_SPECIAL_BITS = TRANSACTIONAL_BIT | CONTROL_BIT
_MAX_TIMESTAMP_POSITION = 35
_read_header = HEADER.unpack_from
_read_max_timestamp = Struct(">q").unpack_from
_write_stamp = Struct(">qii").pack_into
"""Writes base offset, length and leader epoch, which the checksum does not cover."""

_Batch = tuple[int, int, int, int, "ProducerStateEntry | None", int]
"""Size, first offset, last offset, largest timestamp, the producer and its last sequence."""


@dataclass(slots=True, eq=False)
class LogAppendInfo:
    """Where records went. `first_offset` is -1 if there was nothing to append.

    A `duplicate` was written earlier: the offsets are those of that time. `log_append_time` is -1 unless the
    broker set the timestamps. `size` counts the bytes stored now.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int = NO_TIMESTAMP
    duplicate: bool = False
    size: int = 0
    log_start_offset: int = UNKNOWN_OFFSET


class LogAppender:
    """Appends to one log; its `UnifiedLog` owns the log start and the high watermark."""

    __slots__ = ("leader_epochs", "local", "producer_state", "snapshots", "validator")

    def __init__(
        self,
        local: LocalLog,
        leader_epochs: LeaderEpochs,
        producer_state: ProducerStateManager,
        snapshots: ProducerSnapshots,
    ) -> None:
        self.local = local
        self.leader_epochs = leader_epochs
        self.producer_state = producer_state
        self.snapshots = snapshots
        self.validator = LogValidator(local.config)

    def update_config(self, config: LogConfig) -> None:
        self.validator = LogValidator(config)

    def append(
        self,
        validated: ValidatedRecords,
        *,
        leader_epoch: int,
        now_ms: int,
        written: WriteAhead | None = None,
        guard: ProducerGuard | None = None,
    ) -> LogAppendInfo:
        self._stamp(validated, leader_epoch)
        self._check_room(len(validated.data))
        producers = self._check_producers(validated.batches, validated.origin, guard=guard)
        if isinstance(producers, BatchMetadata):
            written_ms = producers.timestamp
            return LogAppendInfo(
                producers.first_offset, producers.last_offset, written_ms, written_ms, duplicate=True
            )
        info = self._append(validated.data, validated.batches, producers, now_ms, written)
        info.log_append_time = validated.log_append_time
        return info

    def append_marker(self, marker: TransactionMarker, *, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        data = marker.batch(timestamp=now_ms)
        set_base_offset_and_epoch(data, 0, self.local.end_offset, leader_epoch)
        batches = (RecordBatch(data),)
        self._check_room(len(data))
        producers = self._check_producers(
            batches, AppendOrigin.COORDINATOR, transaction_version=marker.transaction_version
        )
        assert not isinstance(producers, BatchMetadata)
        return self._append(data, batches, producers, now_ms)

    def append_as_follower(self, records: Buffer, now_ms: int) -> LogAppendInfo:
        data, batches = whole_batches(records, self.local.end_offset)
        self._check_room(len(data))
        producers = self._check_producers(batches, AppendOrigin.REPLICATION)
        assert not isinstance(producers, BatchMetadata)
        return self._append(data, batches, producers, now_ms)

    def write_ahead(
        self, validated: ValidatedRecords, *, leader_epoch: int, now_ms: int
    ) -> WriteAhead | None:
        """Return the write of validated records at the log end, None if it may need a new segment.

        Run it in any thread. Append nothing else until `append` was called or it was undone. Raises
        `KafkaError` KAFKA_STORAGE_ERROR.
        """
        self._stamp(validated, leader_epoch)
        local = self.local
        size, segment = len(validated.data), local.segments.active
        if not validated.batches or local.failure is not None:
            return None
        last = validated.batches[-1]
        try:
            if segment.should_roll(size, last.last_offset, last.max_timestamp, local.config, now_ms):
                return None
            return segment.records.write_ahead(validated.data)
        except OSError as error:
            raise local.failed("append to", error) from error

    def roll_at(self, base_offset: int, now_ms: int) -> LogSegment:
        """Begin a new segment at `base_offset`, not below the log end, and return it. Raises `OSError`."""
        segment = self.local.roll(base_offset, now_ms)
        self.producer_state.map_end_offset = max(self.producer_state.map_end_offset, base_offset)
        self.snapshots.take(self.producer_state, sync_later=True)
        return segment

    def _stamp(self, validated: ValidatedRecords, leader_epoch: int) -> None:
        offset = self.local.end_offset
        for batch in validated.batches:
            set_base_offset_and_epoch(validated.data, batch.position, offset, leader_epoch)
            batch.base_offset = offset
            batch.partition_leader_epoch = leader_epoch
            offset += batch.last_offset_delta + 1

    def _check_producers(
        self,
        batches: Sequence[RecordBatch | LegacyEntry],
        origin: AppendOrigin,
        *,
        guard: ProducerGuard | None = None,
        transaction_version: int = 0,
    ) -> Continuation | ProducerAppends | BatchMetadata | None:
        """Return as `ProducerStateManager.check` does. Raises `KafkaError`."""
        try:
            return self.producer_state.check(
                batches, origin, guard=guard, transaction_version=transaction_version
            )
        except CorruptRecord as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.message) from error

    def _append(
        self,
        data: Buffer,
        batches: Sequence[RecordBatch | LegacyEntry],
        producers: Continuation | ProducerAppends | None,
        now_ms: int,
        written: WriteAhead | None = None,
    ) -> LogAppendInfo:
        if not batches:
            return LogAppendInfo(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP)
        local, size = self.local, len(data)
        first = batches[0]
        # The first offset of an older entry is inside; its last one serves every use here.
        first_offset = first.base_offset if first.magic == 2 else first.last_offset
        last_offset = batches[-1].last_offset
        max_timestamp = max([batch.max_timestamp for batch in batches])
        try:
            segment = local.segments.active
            if segment.should_roll(size, last_offset, max_timestamp, local.config, now_ms):
                # An older entry may begin anywhere from the log end on.
                base_offset = first_offset if first.magic == 2 else last_offset - MAX_RELATIVE_OFFSET
                segment = self.roll_at(max(base_offset, local.end_offset), now_ms)
            for batch in batches:
                if batch.partition_leader_epoch != self.leader_epochs.latest_epoch:
                    self._assign_epoch(batch)
            segment.append(data, batches, written)
        except OSError as error:
            raise local.failed("append to", error) from error
        local.set_end(last_offset + 1)
        if producers is not None:
            try:
                segment.add_aborted(producers.publish())
            except OSError as error:
                raise local.failed("append to", error, is_whole=False) from error
        self.producer_state.map_end_offset = last_offset + 1
        return LogAppendInfo(first_offset, last_offset, max_timestamp, size=size)

    def _check_room(self, size: int) -> None:
        local = self.local
        if local.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, local.failure)
        if size > local.config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a segment holds, segment.bytes: {local.config.segment_bytes}",
            )

    def _assign_epoch(self, batch: RecordBatch | LegacyEntry) -> None:
        if batch.partition_leader_epoch >= 0:
            self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        elif batch.magic < 2 and len(self.leader_epochs):
            topic_partition = self.local.topic_partition
            self.local.report(f"leader epochs of {topic_partition} are dropped: records of an older format")
            self.leader_epochs.clear()

    def append_plain(self, records: memoryview, leader_epoch: int, now_ms: int) -> int:
        """Append one batch of a client, patched in place; return its first offset, or `NOT_PLAIN`.

        The batch is not compressed and the topic stores what producers send. Every call counts at the rate of
        such batches. Raises `KafkaError` KAFKA_STORAGE_ERROR; nothing was written then.
        """
        validator, local = self.validator, self.local
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
            or leader_epoch != self.leader_epochs.latest_epoch
            or local.failure is not None
        ):
            return NOT_PLAIN
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
        state = self.producer_state
        producer = None
        if producer_id >= 0:
            producer = state.producers.get(producer_id)
            if producer is None or not producer.is_continued_by(producer_epoch, base_sequence):
                return NOT_PLAIN
        if crc32c(records[CRC_START:]) != crc:
            return NOT_PLAIN
        try:
            smallest, largest, is_dense, _ = walk_records(records, HEADER_SIZE, count, base_timestamp)
        except CorruptRecord:
            return NOT_PLAIN
        if not is_dense or largest != max_timestamp or smallest < NO_TIMESTAMP:
            return NOT_PLAIN

        _write_stamp(records, 0, first_offset, length, leader_epoch)
        try:
            write_at(file.descriptor, records, position)
        except OSError as error:
            raise local.failed("append to", error) from error
        file_records.size = position + size
        indexes.add(position, size, last_offset, max_timestamp)
        segment.tail = position, size, first_offset, last_offset
        state.map_end_offset = local.end_offset = last_offset + 1
        if producer is not None:
            last_sequence = (base_sequence + last_offset_delta) & SEQUENCE_MASK
            producer.add(last_sequence, first_offset, last_offset, max_timestamp)
        return first_offset

    def plain_info(self, records: Buffer, first_offset: int) -> LogAppendInfo:
        """Return the info of the `append_plain` made last."""
        (max_timestamp,) = _read_max_timestamp(records, _MAX_TIMESTAMP_POSITION)
        return LogAppendInfo(first_offset, self.local.end_offset - 1, max_timestamp, size=len(records))

    def append_run(self, records: memoryview) -> bool:
        """Append the whole batches of `records`; return False, and do nothing, if they are not all ordinary.

        Raises `KafkaError` KAFKA_STORAGE_ERROR; nothing was written then.
        """
        local, state = self.local, self.producer_state
        batches = _ordinary_batches(
            records, local.end_offset, self.leader_epochs.latest_epoch, state.producers
        )
        if not batches:
            return False
        segment = local.segments.active
        indexes, file_records = segment.indexes, segment.records
        position, size = file_records.size, sum([batch[0] for batch in batches])
        last_offset, max_timestamp = batches[-1][2], max([batch[3] for batch in batches])
        if (
            local.failure is not None
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
            raise local.failed("append to", error) from error
        file_records.size = position + size
        for size, first_offset, last_offset, timestamp, producer, last_sequence in batches:
            indexes.add(position, size, last_offset, timestamp)
            position += size
            if producer is not None:
                producer.add(last_sequence, first_offset, last_offset, timestamp)
        segment.tail = position - size, size, first_offset, last_offset
        state.map_end_offset = local.end_offset = last_offset + 1
        return True


def _ordinary_batches(
    records: memoryview, next_offset: int, epoch: int, producers: Mapping[int, ProducerStateEntry]
) -> list[_Batch]:
    """Return the whole batches of `records`, an empty list unless all are ordinary."""
    batches: list[_Batch] = []
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
    """Return the whole batches at the start of a buffer, as bytes and parsed.

    Checks the checksums, and that offsets rise from `next_offset` on, holes allowed. Raises `KafkaError`
    CORRUPT_MESSAGE and OFFSET_OUT_OF_RANGE.
    """
    batches: list[RecordBatch | LegacyEntry] = []
    size = 0
    try:
        for batch in iter_batches(records):
            last_offset = batch.last_offset
            if not batch.is_valid_crc():
                raise CorruptRecord(f"wrong checksum at offset {last_offset}")
            # The first offset of an older entry is inside, behind a decompression.
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
