"""Random compacted logs: keyed, idempotent and transactional batches, markers, closed segments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_append_time
from kcli.protocol.records.control_records import TransactionMarker
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.records.record import TimestampType
from tests.storage.log_harness import NOW_MS

if TYPE_CHECKING:
    from random import Random

    from tests.storage.cleaning.cleaning_harness import CleaningHarness

KEYS = [b"a", b"bb", b"", b"k" * 24, b"l" * 25, b"m" * 300]
CODECS = [Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
HEADERS: list[tuple[tuple[str, bytes | None], ...]] = [(), (), (("name", b"value"), ("none", None))]
TRANSACTIONAL, IDEMPOTENT = (7, 8), (3, 4)


class Written(NamedTuple):
    """A record as it was appended."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass
class Producer:
    """A producer's place in one log; `open_records` are those of its open transaction."""

    epoch: int = 0
    sequence: int = 0
    open_records: list[Written] = field(default_factory=list)


class RandomLog:
    """Appends to a log and remembers what consumers of committed records must find in it."""

    def __init__(self, log: CleaningHarness, random: Random, *, codecs: list[Codec] = CODECS) -> None:
        self.log = log
        self.random = random
        self.codecs = codecs
        self.now_ms = NOW_MS
        self.producers: dict[int, Producer] = {}
        self.committed: list[Written] = []

    def put(self) -> None:
        """Append one batch of some producer."""
        random = self.random
        producer_id = random.choice([-1, -1, *IDEMPOTENT, *TRANSACTIONAL])
        producer = self.producers.setdefault(producer_id, Producer())
        is_transactional = producer_id in TRANSACTIONAL
        builder = RecordBatchBuilder(
            codec=random.choice(self.codecs),
            base_offset=self.log.log.log_end_offset,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else producer.epoch,
            base_sequence=-1 if producer_id < 0 else producer.sequence,
            is_transactional=is_transactional,
        )
        records = []
        for _ in range(random.randint(1, 5)):
            key, value = random.choice(KEYS), self._value()
            offset = builder.append(self._timestamp(), key, value, random.choice(HEADERS))
            records.append(Written(offset, key, value))
        batch = builder.build()
        if random.random() < 0.15:
            set_append_time(batch, 0, self._timestamp())
        self._append(batch)
        producer.sequence += len(records)
        (producer.open_records if is_transactional else self.committed).extend(records)

    def put_legacy(self) -> None:
        """Append a message set of magic 0 or 1, of one codec or none."""
        random = self.random
        magic = random.choice([0, 1])
        is_append_time = magic == 1 and random.random() < 0.2
        append_time = self._timestamp()
        builder = MessageSetBuilder(
            magic,
            codec=random.choice([each for each in self.codecs if each is not Codec.ZSTD]),
            base_offset=self.log.log.log_end_offset,
            timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        )
        for _ in range(random.randint(1, 4)):
            key, value = random.choice(KEYS), self._value()
            timestamp = append_time if is_append_time else self._timestamp()
            offset = builder.append(-1 if magic == 0 else timestamp, key, value)
            self.committed.append(Written(offset, key, value))
        self._append(bytearray(builder.build()))

    def _append(self, data: bytearray) -> None:
        self.log.log.append_as_follower(data, now_ms=self.now_ms)
        self.log.log.advance_high_watermark_to_end()

    def _timestamp(self) -> int:
        return self.now_ms + self.random.choice([-100, -3, 0, 0, 0, 2, 70])

    def _value(self) -> bytes | None:
        if self.random.random() < 0.2:
            return None
        return b"%d" % self.random.randrange(1000) * self.random.choice([1, 1, 20])

    def end_transaction(self) -> None:
        """Write the marker of some transactional producer, also where nothing is open."""
        self._end(self.random.choice(TRANSACTIONAL))

    def end_all_transactions(self) -> None:
        """End what is open."""
        for producer_id, producer in self.producers.items():
            if producer.open_records:
                self._end(producer_id)

    def _end(self, producer_id: int) -> None:
        producer = self.producers.setdefault(producer_id, Producer())
        is_commit = self.random.random() < 0.5
        if self.random.random() < 0.3:
            producer.epoch += 1
            producer.sequence = 0
        self.log.log.append_marker(
            TransactionMarker(producer_id, producer.epoch, 0, is_commit), leader_epoch=0, now_ms=self.now_ms
        )
        self.log.log.advance_high_watermark_to_end()
        if is_commit:
            self.committed += producer.open_records
        producer.open_records = []

    def roll(self) -> None:
        """Close the active segment if it holds anything."""
        if self.log.log.segments.active.size:
            self.log.roll()

    def pass_time(self) -> None:
        """Let some time pass, often more than tombstones are kept for."""
        self.now_ms += self.random.choice([1, 500, 2000])

    def work(self, steps: int, *, is_legacy: bool = False) -> None:
        """Do random things, without compaction; `is_legacy` logs hold older formats besides."""
        actions = [self.put, self.put, self.put, self.end_transaction, self.pass_time, self.roll]
        if is_legacy:
            actions += [self.put_legacy, self.put_legacy]
        for _ in range(steps):
            self.random.choice(actions)()

    def expected(self) -> dict[bytes, Written]:
        """Return the last committed record of each key below the last stable offset."""
        stable = self.log.log.last_stable_offset
        return {record.key: record for record in sorted(self.committed) if record.offset < stable}
