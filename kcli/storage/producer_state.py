"""ProducerStateManager: what each idempotent or transactional producer wrote last to one partition.

Per producer id: its epoch, its last five batches (sequences, last offset, timestamp), the first offset of
its open transaction. From this follows whether a batch continues the producer's sequence, repeats a batch
that was written before, or comes from a producer that has been replaced (KIP-98, KIP-360).

A `producer_append.ProducerAppend` checks the batches of one append against that state and collects what they
change; only `update`, after the write, changes the state. `producer_snapshot` keeps it on disk.

The first unstable offset, below which everything is decided, is the start of the oldest transaction that is
open, or closed by a marker that the high watermark has not passed (Kafka classes `ProducerStateManager`
and `ProducerStateEntry`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.record import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition
    from kcli.storage.producer_append import CompletedTransaction, ProducerAppend

BATCHES_TO_RETAIN = 5
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1

MAX_SEQUENCE = 2**31 - 1


class BatchMetadata(NamedTuple):
    """A batch of a producer as it was written."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record; after the highest one comes 0."""
        sequence = self.last_sequence - self.offset_delta
        return sequence if sequence >= 0 else sequence + MAX_SEQUENCE + 1


class ProducerStateEntry:
    """One producer: its epoch and its last batches, newest last."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 if no batch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last record, -1 if no batch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find_duplicate(
        self, producer_epoch: int, base_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        """Return the retained batch with exactly these sequences, None if there is none."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                    return batch
        return None

    def is_continued_by(self, producer_epoch: int, base_sequence: int) -> bool:
        """Whether a batch that belongs to no transaction simply continues the sequence, outside of any."""
        return (
            producer_epoch == self.producer_epoch
            and self.current_txn_first_offset < 0
            and bool(self.batches)
            and (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE == base_sequence
        )

    def continues(self, earlier: ProducerStateEntry) -> bool:
        """Whether this is the same producer in the same epoch, with later batches."""
        return (
            self.producer_id == earlier.producer_id
            and self.producer_epoch == earlier.producer_epoch
            and self.last_offset > earlier.last_offset
        )

    def add(self, last_sequence: int, first_offset: int, last_offset: int, timestamp: int) -> None:
        """Take note of a batch that was written."""
        self.batches.append(BatchMetadata(last_sequence, last_offset, last_offset - first_offset, timestamp))
        self.last_timestamp = timestamp

    def set_epoch(self, producer_epoch: int) -> None:
        """Take over an epoch; batches of another one no longer count."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"coordinator_epoch={self.coordinator_epoch}, last_timestamp={self.last_timestamp}, "
            f"current_txn_first_offset={self.current_txn_first_offset}, batches={list(self.batches)})"
        )


class ProducerStateManager:
    """The producers of one partition, up to `map_end_offset`."""

    __slots__ = (
        "_ongoing",
        "_unreplicated",
        "map_end_offset",
        "producer_id_expiration_ms",
        "producers",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, producer_id_expiration_ms: int) -> None:
        self.topic_partition = topic_partition
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.producers: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = 0
        # First offset of each transaction, in the order they began: of its producer, of its marker.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}

    def update(self, append: ProducerAppend) -> None:
        """Take over the batches of an append that was written."""
        new = append.entry
        current = self.producers.get(new.producer_id)
        if current is None:
            self.producers[new.producer_id] = new
        else:
            current.set_epoch(new.producer_epoch)
            current.batches.extend(new.batches)
            current.coordinator_epoch = new.coordinator_epoch
            current.current_txn_first_offset = new.current_txn_first_offset
            current.last_timestamp = new.last_timestamp
        for first_offset in append.started_transactions:
            self._ongoing[first_offset] = new.producer_id

    def complete(self, transaction: CompletedTransaction) -> None:
        """Note that a transaction ended; it stays unstable until the high watermark passes its marker."""
        del self._ongoing[transaction.first_offset]
        self._unreplicated[transaction.first_offset] = transaction.last_offset

    def last_stable_offset(self, transaction: CompletedTransaction) -> int:
        """Return the last stable offset that holds once `transaction` has ended."""
        others = [
            first_offset
            for first_offset, producer_id in self._ongoing.items()
            if producer_id != transaction.producer_id
        ]
        return min(others, default=transaction.last_offset + 1)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset not yet decided, or decided by a marker above the high watermark."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min([*self._ongoing, *self._unreplicated])

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Forget the transactions whose markers are below the high watermark now."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    def log_start_moved(self, log_start_offset: int) -> None:
        """Follow the log's start: what lies below it is of no interest any more."""
        self.high_watermark_moved(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        """Whether a producer has been silent too long, and leaves no transaction open."""
        idle_ms = now_ms - entry.last_timestamp
        return entry.current_txn_first_offset < 0 and idle_ms >= self.producer_id_expiration_ms

    def remove_expired(self, now_ms: int) -> int:
        """Forget the producers that have been silent too long; return how many."""
        expired = [
            producer_id for producer_id, entry in self.producers.items() if self.is_expired(entry, now_ms)
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    def load(self, entries: list[ProducerStateEntry], *, end_offset: int, now_ms: int) -> None:
        """Start over from the entries of a snapshot, without those that have expired since."""
        self.clear(end_offset)
        for entry in entries:
            if not self.is_expired(entry, now_ms):
                self.producers[entry.producer_id] = entry
                if entry.current_txn_first_offset >= 0:
                    self._ongoing[entry.current_txn_first_offset] = entry.producer_id

    def clear(self, end_offset: int) -> None:
        """Forget everything; the state is that of an empty log ending at `end_offset`."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.map_end_offset = end_offset
