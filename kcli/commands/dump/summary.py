"""LogSummary: the summary of a log, collected batch by batch in limited memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING

from kcli.commands.dump.text_lines import CODEC_NAMES
from kcli.protocol.records.control_records import ControlRecordType, parse_control_key
from kcli.protocol.records.message_set import LegacyEntry

if TYPE_CHECKING:
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import Batch, DumpedRecord, ScannedEntry
    from kcli.protocol.records.record import Record


MOST_EXACT = 100_000
SLOTS = 1 << 26

_MASK = SLOTS - 1


class DistinctCounter:
    """Counts different keys in limited memory.

    It keeps the hashes of up to `MOST_EXACT` keys. Above that it uses linear counting (Whang and others,
    1990): every hash sets one of `SLOTS` bits, and the share of clear bits gives the number of hashes, with
    an error of 0.01 % up to ten million keys and of 1 % up to three hundred million.
    """

    __slots__ = ("_bits", "_hashes")

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._bits: bytearray | None = None

    def add(self, key: bytes) -> None:
        number = hash(key)
        if self._bits is None:
            self._hashes.add(number)
            if len(self._hashes) > MOST_EXACT:
                self._begin_estimating()
        else:
            slot = number & _MASK
            self._bits[slot >> 3] |= 1 << (slot & 7)

    def _begin_estimating(self) -> None:
        self._bits = bytearray(SLOTS >> 3)
        for number in self._hashes:
            slot = number & _MASK
            self._bits[slot >> 3] |= 1 << (slot & 7)
        self._hashes.clear()

    @property
    def is_exact(self) -> bool:
        return self._bits is None

    @property
    def count(self) -> int:
        if self._bits is None:
            return len(self._hashes)
        clear = SLOTS - int.from_bytes(self._bits, "little").bit_count()
        return round(-SLOTS * log(max(clear, 1) / SLOTS))


MOST_PRODUCERS = 10_000


@dataclass(slots=True)
class CodecSummary:
    """The batches of one codec, and the bytes of their records, stored and decompressed."""

    batches: int = 0
    stored_bytes: int = 0
    plain_bytes: int = 0

    @property
    def ratio(self) -> float:
        """The compression ratio: decompressed bytes by stored bytes."""
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0


@dataclass(slots=True)
class ProducerSummary:
    """An idempotent producer."""

    epoch: int
    batches: int = 0
    records: int = 0
    first_offset: int = 0
    last_offset: int = 0


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that has no end in the log."""

    producer_id: int
    producer_epoch: int
    first_offset: int


@dataclass(slots=True)
class LogSummary:
    """The summary of one log: a file, or the segments of a replica in order."""

    path: str
    files: int = 0
    size_bytes: int = 0
    batches: int = 0
    invalid_batches: int = 0
    largest_batch_bytes: int = 0
    records: int = 0
    control_records: dict[str, int] = field(default_factory=dict)
    formats: dict[int, int] = field(default_factory=dict)
    codecs: dict[str, CodecSummary] = field(default_factory=dict)
    first_offset: int | None = None
    last_offset: int | None = None
    offset_gaps: int = 0
    missing_offsets: int = 0
    oldest_timestamp: int | None = None
    newest_timestamp: int | None = None
    out_of_order: int = 0
    largest_step_back_ms: int = 0
    keys: DistinctCounter = field(default_factory=DistinctCounter)
    keyed_records: int = 0
    tombstones: int = 0
    records_with_headers: int = 0
    first_leader_epoch: int | None = None
    last_leader_epoch: int | None = None
    producers: dict[int, ProducerSummary] = field(default_factory=dict)
    producers_left_out: bool = False
    committed_transactions: int = 0
    aborted_transactions: int = 0
    open_transactions: dict[int, OpenTransaction] = field(default_factory=dict)
    damages: int = 0
    invalid_bytes: int = 0
    other_entries: dict[str, int] = field(default_factory=dict)

    @property
    def duplicate_keys(self) -> int:
        """The number of records that a later one with the same key supersedes."""
        return max(self.keyed_records - self.keys.count, 0)

    def add_batch(self, entry: ScannedEntry) -> None:
        batch = entry.batch
        self.batches += 1
        self.invalid_batches += not entry.is_valid
        self.size_bytes += entry.size
        self.largest_batch_bytes = max(self.largest_batch_bytes, entry.size)
        self.formats[batch.magic] = self.formats.get(batch.magic, 0) + 1
        if batch.partition_leader_epoch >= 0:
            if self.first_leader_epoch is None:
                self.first_leader_epoch = batch.partition_leader_epoch
            self.last_leader_epoch = batch.partition_leader_epoch
        if batch.producer_id >= 0 and not batch.is_control:
            self._add_producer(batch)
            if batch.is_transactional and batch.producer_id not in self.open_transactions:
                self.open_transactions[batch.producer_id] = OpenTransaction(
                    batch.producer_id, batch.producer_epoch, batch.base_offset
                )

    def _add_producer(self, batch: Batch) -> None:
        found = self.producers.get(batch.producer_id)
        if found is None:
            if len(self.producers) == MOST_PRODUCERS:
                self.producers_left_out = True
                return
            found = ProducerSummary(batch.producer_epoch, first_offset=batch.base_offset)
            self.producers[batch.producer_id] = found
        found.epoch = batch.producer_epoch
        found.batches += 1
        found.records += batch.count
        found.last_offset = batch.last_offset

    def add_records_size(self, batch: Batch, plain_bytes: int) -> None:
        """Add the size of the records of a batch; `plain_bytes` are decompressed."""
        codec = self.codecs.setdefault(CODEC_NAMES[batch.attributes & 7], CodecSummary())
        codec.batches += 1
        codec.plain_bytes += plain_bytes
        codec.stored_bytes += stored_bytes(batch)

    def add_record(self, record: DumpedRecord | Record) -> None:
        """Add a record that is not a control record."""
        self.records += 1
        self._add_offset(record.offset)
        timestamp = record.timestamp
        if timestamp >= 0:
            if self.newest_timestamp is None or self.oldest_timestamp is None:
                self.newest_timestamp = self.oldest_timestamp = timestamp
            elif timestamp >= self.newest_timestamp:
                self.newest_timestamp = timestamp
            else:
                self.out_of_order += 1
                self.largest_step_back_ms = max(self.largest_step_back_ms, self.newest_timestamp - timestamp)
                self.oldest_timestamp = min(self.oldest_timestamp, timestamp)
        if record.key is not None:
            self.keyed_records += 1
            self.keys.add(record.key)
            self.tombstones += record.value is None
        self.records_with_headers += bool(record.headers)

    def add_control_record(self, record: DumpedRecord | Record, batch: Batch) -> None:
        """Add a control record. Raises `CorruptRecord`."""
        self._add_offset(record.offset)
        control_type = parse_control_key(record.key)
        self.control_records[control_type.name] = self.control_records.get(control_type.name, 0) + 1
        if control_type in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            self.open_transactions.pop(batch.producer_id, None)
            self.committed_transactions += control_type is ControlRecordType.COMMIT
            self.aborted_transactions += control_type is ControlRecordType.ABORT

    def _add_offset(self, offset: int) -> None:
        if self.first_offset is None or self.last_offset is None:
            self.first_offset = offset
        elif offset > self.last_offset + 1:
            self.offset_gaps += 1
            self.missing_offsets += offset - self.last_offset - 1
        self.last_offset = offset

    def add_damage(self, damage: Damage) -> None:
        self.damages += not damage.is_harmless
        self.invalid_bytes += damage.skipped_bytes


def stored_bytes(batch: Batch) -> int:
    """Return the bytes of the records of a batch in the file."""
    from kcli.protocol.records.batch_header import HEADER_SIZE

    if not isinstance(batch, LegacyEntry):
        return batch.size_in_bytes - HEADER_SIZE
    if not batch.is_compressed:
        return batch.size_in_bytes
    _, value = batch.key_and_value()
    return 0 if value is None else len(value)
