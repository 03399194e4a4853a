"""The tables of states are whole, and agree with each other."""

from __future__ import annotations

from itertools import product

import pytest

from kcli.broker.coordinator.transaction.transaction import Transaction, check_transition
from kcli.broker.coordinator.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    END_TV1,
    END_TV2,
    IDLE,
    ONGOING,
    PREDECESSORS,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STATES_BY_LABEL,
    TransactionState,
)
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import TopicPartition

SOME = frozenset({TopicPartition("a", 0)})


def transaction(state: TransactionState, *, version: int = 0, partitions: frozenset = SOME) -> Transaction:  # type: ignore[type-arg]
    return Transaction("tx", 1, 0, 60_000, 0, state, partitions, client_version=version)


def test_every_state_has_its_predecessors() -> None:
    assert set(PREDECESSORS) == {None, *TransactionState}


@pytest.mark.parametrize(("before", "after"), list(product(TransactionState, repeat=2)))
def test_a_transition_is_legal_or_an_error(before: TransactionState, after: TransactionState) -> None:
    legal = before in PREDECESSORS[after]
    if after is PREPARE_ABORT and before in IDLE:
        legal = False  # Only TV2, and only without partitions.
        check_transition(transaction(before), transaction(after, version=2, partitions=frozenset()))
        with pytest.raises(ValueError, match="no transition"):
            check_transition(transaction(before), transaction(after, partitions=frozenset()))
    if legal:
        check_transition(transaction(before), transaction(after))
    else:
        with pytest.raises(ValueError, match="no transition"):
            check_transition(transaction(before), transaction(after))


@pytest.mark.parametrize("state", TransactionState)
def test_an_id_begins_empty(state: TransactionState) -> None:
    if state is EMPTY:
        check_transition(None, transaction(state))
    else:
        with pytest.raises(ValueError, match="no transition"):
            check_transition(None, transaction(state))


def test_end_txn_has_an_answer_in_every_state() -> None:
    assert set(END_TV1) == set(product(TransactionState, (True, False)))
    assert set(END_TV2) == set(product(TransactionState, (True, False), (True, False)))


@pytest.mark.parametrize(("state", "commits", "repeats"), END_TV2)
def test_what_end_txn_writes_is_legal(state: TransactionState, commits: bool, repeats: bool) -> None:
    for result in (END_TV1[state, commits], END_TV2[state, commits, repeats]):
        if isinstance(result, TransactionState):
            assert state in PREDECESSORS[result]
            assert result in {PREPARE_COMMIT, PREPARE_ABORT}
            assert (result is PREPARE_COMMIT) == commits
        elif result is ErrorCode.NONE:
            assert state is (COMPLETE_COMMIT if commits else COMPLETE_ABORT)


def test_states_have_the_names_and_numbers_of_kafka() -> None:
    assert [(state.label, state.value) for state in TransactionState] == [
        ("Empty", 0),
        ("Ongoing", 1),
        ("PrepareCommit", 2),
        ("PrepareAbort", 3),
        ("CompleteCommit", 4),
        ("CompleteAbort", 5),
    ]
    assert set(STATES_BY_LABEL) == {*(state.label for state in TransactionState), "Dead", "PrepareEpochFence"}
    assert {state for state in TransactionState if state.is_prepared} == {PREPARE_COMMIT, PREPARE_ABORT}
    assert {state for state in TransactionState if state.is_idle} == set(TransactionState) - {
        ONGOING,
        PREPARE_COMMIT,
        PREPARE_ABORT,
    }
