"""What requests and time do to a transactional id, row by row.

Cases of Kafka's `TransactionMetadataTest` and `TransactionCoordinatorTest` are among them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcli.broker.coordinator.transaction import decisions
from kcli.broker.coordinator.transaction.transaction import Producer, Transaction, check_transition
from kcli.broker.coordinator.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    END_TV1,
    END_TV2,
    IDLE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition

NOW, START = 5000, 4000
PID, PREVIOUS, NEW = 10, 9, 99
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
FENCED, CONCURRENT = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def known(state: TransactionState, epoch: int = 5, **fields: Any) -> Transaction:
    """Return an id in a state, with partitions and a start where there is a transaction."""
    has_partitions = state not in IDLE
    return Transaction(
        "tx",
        PID,
        epoch,
        60_000,
        START,
        state,
        frozenset({A}) if has_partitions else frozenset(),
        START if state is not EMPTY else -1,
        **{"previous_producer_id": PID, "last_epoch": -1, **fields},
    )


def new_id() -> int:
    return NEW


def no_id() -> int:
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


# --- InitProducerId


def init(before: Transaction, pair: tuple[int, int] | None, level: int = 2) -> Any:
    """Return the next value, or the code of the error."""
    expected = None if pair is None else Producer(*pair)
    try:
        after = decisions.init_producer(before, expected, 7000, level=level, now_ms=NOW, new_id=new_id)
    except KafkaError as error:
        return error.code
    check_transition(before, after)
    return after


def session(producer_id: int, epoch: int, last_epoch: int) -> dict[str, Any]:
    """Return what a session of an idle id begins with."""
    return {
        "producer_id": producer_id,
        "previous_producer_id": PID,
        "epoch": epoch,
        "last_epoch": last_epoch,
        "timeout_ms": 7000,
        "state": EMPTY,
        "partitions": frozenset(),
        "start_ms": -1,
        "last_update_ms": NOW,
    }


SESSIONS = [
    # fields before, pair, result
    ({}, None, session(PID, 6, -1)),
    ({}, (PID, 5), session(PID, 6, 5)),
    ({}, (PID, 4), FENCED),
    ({}, (PID, 6), FENCED),
    ({}, (PID + 1, 5), FENCED),
    ({"last_epoch": 4}, (PID, 4), session(PID, 5, 4)),
    ({"last_epoch": 4}, (PID, 5), session(PID, 6, 5)),
    ({"last_epoch": 4}, None, session(PID, 6, -1)),
    ({"epoch": 32765}, (PID, 32765), session(PID, 32766, 32765)),
    ({"epoch": 32766}, None, session(NEW, 0, -1)),
    ({"epoch": 32766}, (PID, 32766), session(NEW, 0, 32766)),
    ({"epoch": 32767}, (PID, 32767), session(NEW, 0, 32767)),
    ({"epoch": 32766, "last_epoch": 32765}, (PID, 32765), session(PID, 32766, 32765)),
    ({"epoch": 32766}, (PID, 32764), FENCED),
    # The response with a new producer id was lost.
    (
        {"epoch": 0, "last_epoch": 32766, "previous_producer_id": PREVIOUS},
        (PREVIOUS, 32766),
        session(PID, 0, 32766),
    ),
    ({"epoch": 0, "last_epoch": 32766, "previous_producer_id": PREVIOUS}, (PREVIOUS, 32765), FENCED),
    ({"epoch": 0, "previous_producer_id": PREVIOUS}, (PREVIOUS, 32766), FENCED),
]


@pytest.mark.parametrize("state", sorted(IDLE))
@pytest.mark.parametrize(("fields", "pair", "expected"), SESSIONS)
def test_a_session_of_an_idle_id(
    state: TransactionState, fields: dict[str, Any], pair: tuple[int, int] | None, expected: Any
) -> None:
    before = known(state, **{"epoch": 5, **fields})
    after = init(before, pair)
    assert after == (replace(before, **expected) if isinstance(expected, dict) else expected)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_a_session_waits_for_markers(state: TransactionState) -> None:
    assert init(known(state), None) == CONCURRENT
    assert init(known(state), (PID, 5)) == CONCURRENT
    assert init(known(state), (PID + 1, 5)) == FENCED


def test_a_first_session() -> None:
    after = decisions.new_transaction("tx", 7000, now_ms=NOW, new_id=new_id)
    check_transition(None, after)
    assert after == Transaction("tx", NEW, 0, 7000, NOW, EMPTY, previous_producer_id=NEW)
    with pytest.raises(KafkaError):
        decisions.new_transaction("tx", 7000, now_ms=NOW, new_id=no_id)


@pytest.mark.parametrize(
    ("level", "epoch", "expected"),
    [
        (0, 5, (6, -1, -1, 0)),
        (1, 5, (6, -1, -1, 0)),
        (2, 5, (6, 5, -1, 2)),
        (1, 32766, (32767, -1, -1, 0)),
        (2, 32765, (32766, 32765, -1, 2)),
        (2, 32766, (32767, 32766, NEW, 2)),
        (2, 32767, (32767, 32767, NEW, 2)),
        (1, 32767, (32767, -1, -1, 0)),
    ],
)
def test_an_open_transaction_is_fenced_once(
    level: int, epoch: int, expected: tuple[int, int, int, int]
) -> None:
    before = known(ONGOING, epoch)
    for after in (init(before, None, level), init(before, (PID, 3), level)):
        assert (after.epoch, after.last_epoch, after.next_producer_id, after.client_version) == expected
        assert after == replace(
            before,
            state=PREPARE_ABORT,
            epoch=expected[0],
            last_epoch=expected[1],
            next_producer_id=expected[2],
            client_version=expected[3],
            last_update_ms=NOW,
        )
    assert init(before, (PID + 1, 5), level) == FENCED


# --- AddPartitionsToTxn


def add(before: Transaction | None, producer: tuple[int, int], *partitions: TopicPartition) -> Any:
    try:
        after = decisions.add_partitions(
            before, Producer(*producer), frozenset(partitions), client_version=2, now_ms=NOW
        )
    except KafkaError as error:
        return error.code
    if after is not None:
        check_transition(before, after)
    return after


@pytest.mark.parametrize("state", sorted(IDLE))
def test_partitions_begin_a_transaction(state: TransactionState) -> None:
    before = known(state)
    assert add(before, (PID, 5), A, B) == replace(
        before,
        state=ONGOING,
        partitions=frozenset({A, B}),
        start_ms=NOW,
        last_update_ms=NOW,
        client_version=2,
    )


def test_more_partitions_join_an_open_transaction() -> None:
    before = known(ONGOING, previous_producer_id=PREVIOUS)
    assert add(before, (PID, 5), B) == replace(
        before,
        partitions=frozenset({A, B}),
        previous_producer_id=PID,
        start_ms=START,
        last_update_ms=NOW,
        client_version=2,
    )
    assert add(before, (PID, 5), A) is None


@pytest.mark.parametrize(
    ("before", "producer", "code"),
    [
        (None, (PID, 5), UNKNOWN),
        (known(EMPTY), (PID + 1, 5), UNKNOWN),
        (known(EMPTY), (PID, 4), FENCED),
        (known(EMPTY), (PID, 6), FENCED),
        (known(ONGOING), (PID, 4), FENCED),
        (known(PREPARE_COMMIT), (PID, 5), CONCURRENT),
        (known(PREPARE_ABORT), (PID, 5), CONCURRENT),
        (known(PREPARE_ABORT), (PID, 4), FENCED),
    ],
)
def test_wrong_producers_neither_add_nor_verify(
    before: Transaction | None, producer: tuple[int, int], code: ErrorCode
) -> None:
    assert add(before, producer, A) == code
    with pytest.raises(KafkaError) as refused:
        decisions.verify_partitions(before, Producer(*producer), [A], added=frozenset())
    assert refused.value.code == code


def test_partitions_are_verified() -> None:
    producer = Producer(PID, 5)
    before = replace(known(ONGOING), partitions=frozenset({A, B}))
    other = TopicPartition("a", 1)
    found = decisions.verify_partitions(before, producer, [A, B, other], added=frozenset({B}))
    assert found == {
        A: ErrorCode.NONE,
        B: ErrorCode.TRANSACTION_ABORTABLE,
        other: ErrorCode.TRANSACTION_ABORTABLE,
    }
    for state in IDLE:
        found = decisions.verify_partitions(known(state), producer, [A], added=frozenset())
        assert found == {A: ErrorCode.TRANSACTION_ABORTABLE}


# --- EndTxn


def end_tv1(before: Transaction, *, commit: bool) -> Any:
    try:
        after = decisions.end_tv1(before, is_commit=commit, now_ms=NOW)
    except KafkaError as error:
        return error.code
    if after is not None:
        check_transition(before, after)
    return after


def end_tv2(before: Transaction | None, producer: tuple[int, int], *, commit: bool) -> Any:
    try:
        after = decisions.end_tv2(before, Producer(*producer), is_commit=commit, now_ms=NOW, new_id=new_id)
    except KafkaError as error:
        return error.code
    if after is not None:
        check_transition(before, after)
    return after


def as_written(result: Any, after: Any) -> Any:
    """Return what a table says, of a value that was decided."""
    if isinstance(result, TransactionState):
        return after.state
    return ErrorCode.NONE if after is None else after


@pytest.mark.parametrize(("state", "commits"), END_TV1)
def test_the_first_protocol_is_the_table(state: TransactionState, commits: bool) -> None:
    before = known(state, client_version=2)
    after = end_tv1(before, commit=commits)
    result = END_TV1[state, commits]
    assert as_written(result, after) == result
    if isinstance(after, Transaction):
        assert after == replace(before, state=result, last_update_ms=NOW, client_version=0)


@pytest.mark.parametrize(
    ("before", "producer", "code"),
    [
        (None, (PID, 5), UNKNOWN),
        (known(ONGOING), (PID + 1, 5), UNKNOWN),
        (known(ONGOING), (PID, 4), FENCED),
        (known(ONGOING), (PID, 6), FENCED),
        (known(ONGOING), (PID, 5), None),
    ],
)
def test_the_first_protocol_wants_the_current_producer(
    before: Transaction | None, producer: tuple[int, int], code: ErrorCode | None
) -> None:
    if code is None:
        assert decisions.check_end_tv1(before, Producer(*producer)) is before
    else:
        with pytest.raises(KafkaError) as refused:
            decisions.check_end_tv1(before, Producer(*producer))
        assert refused.value.code == code


@pytest.mark.parametrize(("state", "commits", "repeats"), END_TV2)
@pytest.mark.parametrize("epoch", [5, 32766, 32767])
def test_the_second_protocol_is_the_table(
    state: TransactionState, commits: bool, repeats: bool, epoch: int
) -> None:
    before = known(state, epoch)
    after = end_tv2(before, (PID, epoch - repeats), commit=commits)
    result = END_TV2[state, commits, repeats]
    assert as_written(result, after) == result
    if isinstance(after, Transaction):
        assert after == replace(
            before,
            state=result,
            epoch=min(epoch + 1, 32767),
            last_epoch=epoch,
            next_producer_id=NEW if epoch >= 32766 else -1,
            start_ms=NOW if state in IDLE else START,
            last_update_ms=NOW,
            client_version=2,
        )


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("state", TransactionState)
def test_the_second_protocol_knows_its_own_retry_after_the_last_epoch(
    state: TransactionState, commits: bool
) -> None:
    before = known(state, 0, previous_producer_id=PREVIOUS)
    after = end_tv2(before, (PREVIOUS, 32766), commit=commits)
    result = END_TV2[state, commits, True]
    assert as_written(result, after) == result
    assert end_tv2(before, (PREVIOUS, 32765), commit=commits) == UNKNOWN
    assert end_tv2(before, (PID + 1, 32766), commit=commits) == UNKNOWN


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("commits", [True, False])
def test_the_second_protocol_fences_all_other_epochs(state: TransactionState, commits: bool) -> None:
    before = known(state)
    assert [end_tv2(before, (PID, epoch), commit=commits) for epoch in (3, 6, -1)] == [FENCED] * 3
    assert end_tv2(before, (PID + 1, 5), commit=commits) == UNKNOWN
    assert end_tv2(None, (PID, 5), commit=commits) == UNKNOWN


def test_without_a_new_id_the_last_epoch_does_not_end() -> None:
    with pytest.raises(KafkaError):
        decisions.end_tv2(
            known(ONGOING, 32766), Producer(PID, 32766), is_commit=True, now_ms=NOW, new_id=no_id
        )


# --- completion, time


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"client_version": 0}, Producer(PID, 5)),
        ({"client_version": 2}, Producer(PID, 5)),
        ({"client_version": 2, "next_producer_id": NEW}, Producer(NEW, 0)),
        ({"client_version": 0, "next_producer_id": NEW}, Producer(PID, 5)),
    ],
)
@pytest.mark.parametrize(
    ("state", "completed"), [(PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT)]
)
def test_a_transaction_is_completed(
    state: TransactionState, completed: TransactionState, fields: dict[str, Any], expected: Producer
) -> None:
    before = known(state, last_epoch=4, **fields)
    after = decisions.complete(before, now_ms=NOW)
    check_transition(before, after)
    assert after == replace(
        before,
        state=completed,
        producer_id=expected.producer_id,
        epoch=expected.epoch,
        next_producer_id=-1,
        partitions=frozenset(),
        last_update_ms=NOW,
    )
    assert (after.start_ms, after.previous_producer_id) == (START, PID)


@pytest.mark.parametrize("state", TransactionState)
def test_only_open_transactions_time_out(state: TransactionState) -> None:
    before = replace(known(state), start_ms=START, timeout_ms=1000)
    assert not decisions.is_timed_out(before, START + 1000)
    assert decisions.is_timed_out(before, START + 1001) == (state is ONGOING)
    assert not decisions.is_timed_out(replace(before, timeout_ms=2**31 - 1), 2**62)


@pytest.mark.parametrize("state", TransactionState)
def test_only_idle_ids_expire(state: TransactionState) -> None:
    before = replace(known(state), last_update_ms=START)
    assert not decisions.is_expired(before, START + 999, 1000)
    assert decisions.is_expired(before, START + 1000, 1000) == (state in IDLE)
