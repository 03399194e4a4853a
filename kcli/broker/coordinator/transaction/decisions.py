"""What requests and time do to a transactional id: the next `Transaction` to write, or an error.

Pure: each function takes the newest value and returns the one to write, raises `KafkaError`, or says that
there is nothing to write. Whether the id is in transition is asked before (class `TransactionCoordinator`).
A producer is fenced in the record PrepareAbort itself, with a raised epoch: Kafka's state PrepareEpochFence,
which only exists in memory, is not needed, and a failed write changes nothing. `new_id` returns a new
producer id, or raises `KafkaError` if none can be had.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.broker.coordinator.transaction.transaction import (
    LAST_USABLE_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_START,
    TV2,
    Transaction,
)
from kcli.broker.coordinator.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    END_TV1,
    END_TV2,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.broker.coordinator.transaction.transaction import Producer
    from kcli.broker.coordinator.transaction.transaction_states import EndResult
    from kcli.protocol.topics import TopicPartition

    NewId = Callable[[], int]

NEVER = 2**31 - 1
"""The timeout of a transaction that only an outside coordinator ends (KIP-939)."""


def new_transaction(transactional_id: str, timeout_ms: int, *, now_ms: int, new_id: NewId) -> Transaction:
    """Return the first value of an unknown id."""
    producer_id = new_id()
    return Transaction(transactional_id, producer_id, 0, timeout_ms, now_ms, previous_producer_id=producer_id)


def init_producer(
    before: Transaction,
    expected: Producer | None,
    timeout_ms: int,
    *,
    level: int,
    now_ms: int,
    new_id: NewId,
) -> Transaction:
    """Return the value for the next session of a producer, or the end of its open transaction.

    `expected` is the producer that the client believes to be. In PREPARE_ABORT the client must ask again once
    the transaction is complete.
    """
    if expected is not None and not _may_be(before, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if before.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if before.state is ONGOING:
        return fence(before, level=level, now_ms=now_ms, new_id=new_id)
    producer_id, epoch, last_epoch = before.producer_id, before.epoch + 1, NO_EPOCH
    if before.is_exhausted and (expected is None or expected.epoch == before.epoch):
        producer_id, epoch = new_id(), 0
        last_epoch = NO_EPOCH if expected is None else before.epoch
    elif expected is not None:
        if expected.epoch == before.epoch:
            last_epoch = before.epoch
        elif expected.epoch == before.last_epoch:
            # The client repeats a request whose response was lost.
            epoch, last_epoch = before.epoch, before.last_epoch
        else:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return replace(
        before,
        producer_id=producer_id,
        previous_producer_id=before.producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=NO_PARTITIONS,
        start_ms=NO_START,
        last_update_ms=now_ms,
    )


def _may_be(before: Transaction, expected: Producer) -> bool:
    return expected.producer_id == before.producer_id or (
        expected.producer_id == before.previous_producer_id and expected.epoch >= LAST_USABLE_EPOCH
    )


def fence(before: Transaction, *, level: int, now_ms: int, new_id: NewId) -> Transaction:
    """Return the abort of an open transaction that its own producer does not ask for: its epoch is fenced."""
    if level >= TV2:
        return _end_tv2(before, PREPARE_ABORT, now_ms=now_ms, new_id=new_id)
    after = _end_tv1(before, PREPARE_ABORT, now_ms=now_ms)
    return replace(after, epoch=min(before.epoch + 1, MAX_EPOCH), last_epoch=NO_EPOCH)


def add_partitions(
    before: Transaction | None,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Transaction | None:
    """Return the value with more partitions; None if the transaction has them all."""
    before = _owned(before, producer)
    if before.state is ONGOING and partitions <= before.partitions:
        return None
    return replace(
        before,
        previous_producer_id=before.producer_id,
        state=ONGOING,
        partitions=before.partitions | partitions,
        start_ms=before.start_ms if before.state is ONGOING else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def verify_partitions(
    before: Transaction | None,
    producer: Producer,
    partitions: Iterable[TopicPartition],
    *,
    added: frozenset[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """Return for each partition whether it is in the transaction; those `added` are not committed yet."""
    before = _owned(before, producer)
    return {
        each: ErrorCode.NONE
        if each in before.partitions and each not in added
        else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _owned(before: Transaction | None, producer: Producer) -> Transaction:
    """Return the value if a producer may change the partitions of its transaction."""
    if before is None or before.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if before.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if before.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return before


def end_tv1(before: Transaction, *, is_commit: bool, now_ms: int) -> Transaction | None:
    """Return the end that EndTxn up to version 4 asks for; None if the transaction has ended so already."""
    state = _written(END_TV1[before.state, is_commit])
    return None if state is None else _end_tv1(before, state, now_ms=now_ms)


def check_end_tv1(before: Transaction | None, producer: Producer) -> Transaction:
    """Return the value if a producer may end its transaction; it may still be in transition."""
    if before is None or before.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if before.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return before


def end_tv2(
    before: Transaction | None, producer: Producer, *, is_commit: bool, now_ms: int, new_id: NewId
) -> Transaction | None:
    """Return the end that EndTxn from version 5 on asks for; None if the transaction has ended so already."""
    if before is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_overflow_retry = (
        before.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_USABLE_EPOCH
        and before.epoch == 0
    )
    if before.producer_id != producer.producer_id and not is_overflow_retry:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_retry = is_overflow_retry or before.epoch == producer.epoch + 1
    if not is_retry and before.epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    state = _written(END_TV2[before.state, is_commit, is_retry])
    return None if state is None else _end_tv2(before, state, now_ms=now_ms, new_id=new_id)


def _written(result: EndResult) -> TransactionState | None:
    """Return the state to write, None for success without a record; raise the error of a refusal."""
    if isinstance(result, TransactionState):
        return result
    if result is not ErrorCode.NONE:
        raise KafkaError(result)
    return None


def _end_tv1(before: Transaction, state: TransactionState, *, now_ms: int) -> Transaction:
    return replace(
        before,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=state,
        last_update_ms=now_ms,
        client_version=0,
    )


def _end_tv2(before: Transaction, state: TransactionState, *, now_ms: int, new_id: NewId) -> Transaction:
    return replace(
        before,
        previous_producer_id=before.producer_id,
        next_producer_id=new_id() if before.is_exhausted else NO_PRODUCER_ID,
        epoch=min(before.epoch + 1, MAX_EPOCH),
        last_epoch=before.epoch,
        state=state,
        start_ms=now_ms if before.state.is_idle else before.start_ms,
        last_update_ms=now_ms,
        client_version=TV2,
    )


def complete(before: Transaction, *, now_ms: int) -> Transaction:
    """Return the value once every partition has its marker."""
    producer_id, epoch = before.producer_id, before.epoch
    if before.client_version >= TV2 and before.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = before.next_producer_id, 0
    return replace(
        before,
        producer_id=producer_id,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        epoch=epoch,
        state=COMPLETE_COMMIT if before.state is PREPARE_COMMIT else COMPLETE_ABORT,
        partitions=NO_PARTITIONS,
        last_update_ms=now_ms,
    )


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    """Return whether an open transaction has lasted longer than its producer wanted."""
    return (
        transaction.state is ONGOING
        and transaction.timeout_ms != NEVER
        and transaction.start_ms + transaction.timeout_ms < now_ms
    )


def is_expired(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Return whether an id has been idle for so long that it is forgotten."""
    return transaction.state.is_idle and transaction.last_update_ms <= now_ms - expiration_ms
