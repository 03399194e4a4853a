"""ProducerStateEntry: one producer in one partition: its epoch, its last batches and its open transaction.

Kafka classes `ProducerStateEntry` and `BatchMetadata`.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kcli.protocol.records.record import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP

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
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record; 0 follows the highest sequence."""
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

    # Not a dataclass: `dump-log` and `verify-index` start without importing that module.
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
        """Return the retained batch with exactly these sequences, None without one."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                    return batch
        return None

    def is_continued_by(self, producer_epoch: int, base_sequence: int) -> bool:
        """Whether a non-transactional batch continues the sequence, with no transaction open."""
        return (
            producer_epoch == self.producer_epoch
            and self.current_txn_first_offset < 0
            and bool(self.batches)
            and (self.batches[-1].last_sequence + 1) & MAX_SEQUENCE == base_sequence
        )

    def has_open_transaction(self, producer_epoch: int) -> bool:
        """Whether a transaction of this epoch is open."""
        return self.current_txn_first_offset >= 0 and producer_epoch == self.producer_epoch

    def continues(self, earlier: ProducerStateEntry) -> bool:
        """Whether this is the same producer in the same epoch, with later batches."""
        return (
            self.producer_id == earlier.producer_id
            and self.producer_epoch == earlier.producer_epoch
            and self.last_offset > earlier.last_offset
        )

    def add(self, last_sequence: int, first_offset: int, last_offset: int, timestamp: int) -> None:
        """Remember a batch that was written."""
        self.batches.append(BatchMetadata(last_sequence, last_offset, last_offset - first_offset, timestamp))
        self.last_timestamp = timestamp

    def set_epoch(self, producer_epoch: int) -> None:
        """Set the epoch; a new one drops the batches of the old one."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"ProducerStateEntry({fields})"
