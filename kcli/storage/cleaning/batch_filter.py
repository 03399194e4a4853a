"""BatchFilter: what becomes of each batch in a cleaning: untouched, rewritten, only its header, or gone.

| batch | what becomes of it |
|---|---|
| at or above the first uncleanable offset | untouched |
| data of an aborted transaction | all records go |
| control batch that nobody needs, its delete horizon passed | its record goes |
| control batch that nobody needs, without a horizon | gets one |
| other control batch | untouched |
| other data | record by record |

A batch that has lost all its records stays as a header where it is the last one of its producer, or ends
the part of the log that is cleaned; other empty ones go. A batch that keeps a tombstone and has no delete
horizon gets one (KIP-534): `delete.retention.ms` later the tombstone goes. Records of magic 0 and 1 become
ones of magic 2. The rest of a header stays: base and last offset, leader epoch, producer, sequence, codec
(Kafka classes `Cleaner` and `MemoryRecords`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, compress, decompress
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHead,
    batch_crc,
    update_crc,
)
from kcli.protocol.records.control_records import parse_control_key
from kcli.protocol.records.record import NO_TIMESTAMP, TimestampType
from kcli.protocol.records.record_filter import Selection, rebase_records, select_records
from kcli.protocol.records.varints import wrap_int64
from kcli.storage.cleaning.offset_map import KEY_FORM, stored_key

if TYPE_CHECKING:
    from kcli.protocol.records.control_records import ControlRecordType
    from kcli.protocol.records.record import Record
    from kcli.storage.cleaning.cleaned_transactions import CleanedTransactions
    from kcli.storage.cleaning.cleaning_job import CleaningJob
    from kcli.storage.cleaning.cleaning_stats import CleaningStats
    from kcli.storage.cleaning.offset_map import OffsetMap

UNTOUCHED = b"untouched"
"""Returned in place of bytes: the batch stays as it is."""

MIN_OFFSET = -(2**63)
_KEPT_BITS = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class BatchFilter:
    """The decisions of one round. `drop_legacy_tombstones` says so of the segment that is being read."""

    __slots__ = (
        "_end",
        "_first_uncleanable",
        "_horizon_ms",
        "_last_records",
        "_now_ms",
        "_offsets",
        "_stats",
        "drop_legacy_tombstones",
        "last_offset",
        "max_timestamp",
        "transactions",
    )

    def __init__(
        self,
        job: CleaningJob,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        stats: CleaningStats,
    ) -> None:
        self._first_uncleanable = job.first_uncleanable
        self._last_records = job.last_records
        self._now_ms = job.now_ms
        self._horizon_ms = job.now_ms + job.config.delete_retention_ms
        self._offsets = offset_map.offsets
        self._end = offset_map.end
        self._stats = stats
        self.transactions = transactions
        self.drop_legacy_tombstones = False
        self.last_offset = self.max_timestamp = 0
        """Of the bytes returned last."""

    def filter(self, run: bytes, at: int) -> tuple[BatchHead, bytes | bytearray]:
        """Return the head of the batch at `at` of a run of whole batches, and what stays of it.

        That is `UNTOUCHED`, no bytes, or the bytes of a batch with `last_offset` and `max_timestamp`. Raises
        `CorruptRecord`.
        """
        head = BatchHead.at(run, at)
        if head.magic < MAGIC:
            return head, self._filter_legacy(run, head)
        if head.attributes & CONTROL_BIT:
            return head, self._filter_control(run, head)
        if head.base_offset >= self._first_uncleanable:
            if head.is_transactional:
                self.transactions.is_aborted(head.producer_id, head.last_offset)
            return head, self._kept(head)
        if head.is_transactional and self.transactions.is_aborted(head.producer_id, head.last_offset):
            self._stats.aborted += head.count
            return head, self._emptied(head)
        return head, self._filter_data(run, head)

    def _filter_control(self, run: bytes, head: BatchHead) -> bytes | bytearray:
        is_bound = head.base_offset >= self._first_uncleanable
        is_needless = self.transactions.is_needless(
            control_type_in(run, head), head.producer_id, head.last_offset, keep=is_bound
        )
        if is_bound or not is_needless:
            return self._kept(head)
        horizon_ms = head.delete_horizon_ms
        if not head.count or (horizon_ms is not None and horizon_ms <= self._now_ms):
            self._stats.markers += head.count
            return self._emptied(head)
        if horizon_ms is not None:
            return self._kept(head)
        self._stats.horizons += 1
        data = _payload(run, head)
        selection = _all_of(data, head.count)
        return self._rewritten(run, head, data, selection, self._horizon_ms)

    def _filter_data(self, run: bytes, head: BatchHead) -> bytes | bytearray:
        horizon_ms = head.delete_horizon_ms
        if not head.count:
            return self._emptied(head)
        is_expired = horizon_ms is not None and horizon_ms <= self._now_ms
        data = _payload(run, head)
        limits = self._end, is_expired
        selection = Selection(
            *select_records(data, 0, head.count, head.base_offset, self._offsets, limits, KEY_FORM)
        )
        stats = self._stats
        stats.superseded += selection.superseded
        stats.keyless += selection.keyless
        stats.tombstones += selection.tombstones
        if not selection.kept:
            return self._emptied(head)
        needs_horizon = selection.has_tombstone and horizon_ms is None
        if selection.kept == head.count and not needs_horizon:
            return self._kept(head)
        if needs_horizon:
            stats.horizons += 1
            horizon_ms = self._horizon_ms
        return self._rewritten(run, head, data, selection, horizon_ms)

    def _kept(self, head: BatchHead) -> bytes | bytearray:
        self._stats.records_after += max(head.count, 0)
        return UNTOUCHED

    def _emptied(self, head: BatchHead) -> bytes | bytearray:
        """Return the header of a batch that has lost its records if it has to stay, else no bytes."""
        if not self._is_last_of_producer(head) and head.next_offset != self._first_uncleanable:
            return b""
        self.last_offset, self.max_timestamp = head.last_offset, head.max_timestamp
        batch = bytearray(HEADER_SIZE)
        _pack_header(batch, head, head.attributes & _KEPT_BITS, NO_TIMESTAMP, head.max_timestamp, 0)
        return batch

    def _is_last_of_producer(self, head: BatchHead) -> bool:
        """Whether a batch is all that is known of a producer: its last data, or else its epoch."""
        last = self._last_records.get(head.producer_id) if head.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return head.last_offset == last.last_data_offset
        return head.is_control and head.producer_epoch == last.producer_epoch

    def _rewritten(
        self, run: bytes, head: BatchHead, data: bytes, selection: Selection, horizon_ms: int | None
    ) -> bytearray:
        """Return the batch with the selected records only, and a delete horizon if one is given."""
        if batch_crc(run, head.position, head.size_in_bytes) != head.crc:
            # A new checksum would hide the damage.
            raise CorruptRecord(f"wrong checksum at offset {head.base_offset}")
        self._stats.records_after += selection.kept
        is_append_time = head.attributes & TIMESTAMP_TYPE_BIT
        max_timestamp = head.max_timestamp
        first_timestamp = max_timestamp
        if not is_append_time:
            # The base is the delete horizon where one is set: the deltas count from there.
            max_timestamp = wrap_int64(head.base_timestamp + selection.max_delta)
            first_timestamp = wrap_int64(head.base_timestamp + selection.first_delta)
        base_timestamp = first_timestamp if horizon_ms is None else horizon_ms
        if is_append_time:
            records = rebase_records(data, selection.runs, 0, wrap_int64(max_timestamp - base_timestamp))
        elif base_timestamp != head.base_timestamp:
            shift = wrap_int64(head.base_timestamp - base_timestamp)
            records = rebase_records(data, selection.runs, shift, None)
        else:
            view = memoryview(data)
            bounds = iter(selection.runs)
            records = b"".join([view[start:end] for start, end in zip(bounds, bounds, strict=True)])
        codec = head.codec
        if codec is not Codec.NONE:
            records = compress(codec, records)
        attributes = head.attributes & (_KEPT_BITS | CODEC_MASK)
        if horizon_ms is not None:
            attributes |= DELETE_HORIZON_BIT
        batch = bytearray(HEADER_SIZE)
        batch += records
        _pack_header(batch, head, attributes, base_timestamp, max_timestamp, selection.kept)
        self.last_offset, self.max_timestamp = head.last_offset, max_timestamp
        return batch

    def _filter_legacy(self, run: bytes, head: BatchHead) -> bytes | bytearray:
        """Return what stays of an entry of magic 0 or 1: a batch of magic 2 from its first kept record on."""
        # Imported here: few logs hold the older formats.
        from kcli.protocol.records.message_set import LegacyEntry

        entry = LegacyEntry(run, head.position)
        if head.base_offset >= self._first_uncleanable:
            return self._kept(head)
        if not entry.is_valid_crc():
            raise CorruptRecord(f"wrong checksum at offset {head.last_offset}")
        kept = [record for record in entry.records() if self._stays(record)]
        if not kept:
            return self._emptied(head)
        is_append_time = head.timestamp_type is TimestampType.LOG_APPEND_TIME
        builder = RecordBatchBuilder(
            timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
            base_offset=kept[0].offset,
        )
        for record in kept:
            builder.append(record.timestamp, record.key, record.value, offset=record.offset)
        batch = bytes(builder.build())
        new = BatchHead.at(batch)
        data = _payload(batch, new)
        selection = _all_of(data, new.count)
        new = new._replace(attributes=new.attributes | head.codec)
        if selection.has_tombstone:
            self._stats.horizons += 1
        return self._rewritten(
            batch, new, data, selection, self._horizon_ms if selection.has_tombstone else None
        )

    def _stays(self, record: Record) -> bool:
        """Whether a record of magic 0 or 1 stays."""
        if record.offset >= self._end:
            return True
        if record.key is None:
            self._stats.keyless += 1
            return False
        if record.offset < self._offsets.get(stored_key(record.key), -1):
            self._stats.superseded += 1
            return False
        if record.value is None and self.drop_legacy_tombstones:
            self._stats.tombstones += 1
            return False
        return True


def control_type_in(run: bytes, head: BatchHead) -> ControlRecordType | None:
    """Return the type of a control batch of a run, None if it has lost its record. Raises `CorruptRecord`."""
    record = next(iter(RecordBatch(run, head.position).records()), None)
    return None if record is None else parse_control_key(record.key)


def _payload(run: bytes, head: BatchHead) -> bytes:
    """Return the records of a batch of a run, decompressed."""
    payload = run[head.position + HEADER_SIZE : head.end]
    codec = head.codec
    return payload if codec is Codec.NONE else decompress(codec, payload)


def _all_of(data: bytes, count: int) -> Selection:
    """Return the selection of all records."""
    return Selection(*select_records(data, 0, count, 0, {}, (MIN_OFFSET, False), KEY_FORM))


def _pack_header(
    batch: bytearray, head: BatchHead, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> None:
    """Write the header of what stays of a batch in front of its records."""
    values = (
        attributes,
        head.last_offset_delta,
        base_timestamp,
        max_timestamp,
        head.producer_id,
        head.producer_epoch,
        head.base_sequence,
        count,
    )
    HEADER.pack_into(
        batch, 0, head.base_offset, len(batch) - LOG_OVERHEAD, head.partition_leader_epoch, MAGIC, 0, *values
    )
    update_crc(batch, 0)
