"""Transaction: a transactional id, its producer and its newest transaction (Kafka's `TransactionMetadata`).

A value: a transition makes another one. Each record of `__transaction_state` holds one, except for
`last_epoch`, which only the coordinator that raised the epoch knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kcli.broker.coordinator.transaction.transaction_states import EMPTY, PREDECESSORS, TransactionState
from kcli.protocol.internal.coordinator_records import PartitionsSchema, TransactionLogValue
from kcli.protocol.topics import TopicPartition, by_topic

NO_EPOCH = -1
NO_PRODUCER_ID = -1
NO_START = -1
"""The start of a transaction that does not exist."""

MAX_EPOCH = 2**15 - 1
LAST_USABLE_EPOCH = MAX_EPOCH - 1
"""The last epoch of a client's transactions: the highest one is left for fencing them."""

TV2 = 2
"""The client version, and the level of `transaction.version`, with an epoch for each transaction."""

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class Producer(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id; times are wall-clock ms.

    `previous_producer_id` is the id before the newest record, mostly the same; `next_producer_id` replaces
    the id when the transaction is complete, because its epochs are used up; -1 for none. `last_epoch` is the
    epoch before the newest raise that a client asked for, -1 if unknown. `client_version` is 2 if the client
    of the transaction, or who ended it, used TV2; else 0.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    last_update_ms: int
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_START
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def producer(self) -> Producer:
        return Producer(self.producer_id, self.epoch)

    @property
    def is_exhausted(self) -> bool:
        """True if a client cannot use a higher epoch of this producer id."""
        return self.epoch >= LAST_USABLE_EPOCH

    def to_value(self, version: int) -> TransactionLogValue:
        """Return the value of a record; version 0 has no fields for the former and the next producer id."""
        partitions = None
        if self.state is not EMPTY:
            partitions = [
                PartitionsSchema(topic=topic, partition_ids=indexes)
                for topic, indexes in by_topic(sorted(self.partitions)).items()
            ]
        return TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id if version > 0 else NO_PRODUCER_ID,
            next_producer_id=self.next_producer_id if version > 0 else NO_PRODUCER_ID,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
            client_transaction_version=self.client_version,
        )

    @classmethod
    def from_value(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        """Return what a record holds. Raises `ValueError` for a state that no record has."""
        return cls(
            transactional_id=transactional_id,
            producer_id=value.producer_id,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            state=TransactionState(value.transaction_status),
            partitions=frozenset(
                TopicPartition(topic.topic, index)
                for topic in value.transaction_partitions or ()
                for index in topic.partition_ids
            ),
            start_ms=value.transaction_start_timestamp_ms,
            last_update_ms=value.transaction_last_update_timestamp_ms,
            client_version=value.client_transaction_version,
        )


def check_transition(before: Transaction | None, after: Transaction) -> None:
    """Raise `ValueError` unless a record may lead from one value to the other.

    Kafka's `TransactionMetadata.completeTransitionTo` asks the same, and ends the broker.
    """
    if before is None:
        is_legal = after.state is EMPTY
    else:
        is_legal = before.state in PREDECESSORS[after.state]
        if before.state.is_idle and after.state.is_prepared:
            is_legal = is_legal and after.client_version >= TV2 and not after.partitions
    if not is_legal:
        raise ValueError(f"no transition leads from {before} to {after}")
