"""Transactional data that a leader appends only inside of an open transaction, or with its guard."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.control_records import TransactionMarker
from kcli.storage.log.log_appender import LogAppendInfo
from kcli.storage.producers.producer_guards import ProducerGuard
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

PRODUCER = 7


class Leader:
    """A log that verifies transactions, and one producer."""

    def __init__(self, log: LogHarness) -> None:
        self.harness = log
        self.log = log.log
        self.log.producer_state.verifies_transactions = True

    def guard(self, *, epoch: int = 0, sequence: int = 0, is_tv2: bool = False) -> ProducerGuard | None:
        return self.log.producer_state.begin_guard(PRODUCER, epoch, sequence, is_tv2=is_tv2, now_ms=NOW_MS)

    def write(
        self,
        guard: ProducerGuard | None = None,
        *,
        epoch: int = 0,
        sequence: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transactional: bool = True,
    ) -> LogAppendInfo:
        batch = batch_of(b"x", producer=(PRODUCER, epoch, sequence), is_transactional=transactional)
        validated = self.log.validator.validate(batch, now_ms=NOW_MS, origin=origin)
        info = self.log.append(validated, leader_epoch=0, now_ms=NOW_MS, guard=guard)
        self.log.advance_high_watermark_to_end()
        return info

    def mark(self, *, epoch: int = 0, version: int = 0) -> None:
        marker = TransactionMarker(PRODUCER, epoch, 0, True, version)
        self.log.append_marker(marker, leader_epoch=0, now_ms=NOW_MS)
        self.log.advance_high_watermark_to_end()


@pytest.fixture
def leader(log: LogHarness) -> Leader:
    return Leader(log)


def refuse(code: ErrorCode, leader: Leader, write: Callable[[], object]) -> None:
    """Assert that `write` is refused and leaves no record."""
    end, size, producers = (
        leader.log.log_end_offset,
        leader.log.size_bytes,
        repr(leader.log.active_producers()),
    )
    with pytest.raises(KafkaError) as refused:
        write()
    assert refused.value.code is code
    assert leader.log.log_end_offset == end
    assert leader.log.size_bytes == size
    assert repr(leader.log.active_producers()) == producers


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_data_without_guard_is_refused(leader: Leader, origin: AppendOrigin) -> None:
    refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(origin=origin))
    guard = leader.guard()
    refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(origin=origin))
    leader.write(guard, origin=origin)


def test_an_open_transaction_needs_no_guard(leader: Leader) -> None:
    leader.write(leader.guard())
    assert len(leader.log.guards) == 0
    assert leader.guard(sequence=1) is None
    leader.write(sequence=1)


def test_a_log_that_does_not_verify_takes_what_comes(leader: Leader) -> None:
    leader.log.producer_state.verifies_transactions = False
    leader.write()
    leader.write(sequence=1)


def test_data_outside_of_transactions_needs_no_guard(leader: Leader) -> None:
    leader.write(transactional=False)


def test_replicated_data_needs_no_guard(leader: Leader) -> None:
    batch = batch_of(b"x", producer=(PRODUCER, 0, 5), is_transactional=True)
    leader.log.append_as_follower(bytes(batch), now_ms=NOW_MS)
    assert leader.log.producer_state.first_unstable_offset == 0


def test_a_marker_between_question_and_append_takes_the_guard(leader: Leader) -> None:
    guard = leader.guard()
    leader.mark()
    assert len(leader.log.guards) == 0
    refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(guard))
    leader.guard()
    refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(guard))


def test_the_open_transaction_of_an_older_epoch_protects_nothing(leader: Leader) -> None:
    leader.write(leader.guard())
    refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(epoch=1))
    assert leader.guard(epoch=1) is not None


def test_an_older_epoch_is_fenced_before_anything_else(leader: Leader) -> None:
    leader.write(leader.guard(epoch=3), epoch=3)
    leader.mark(epoch=3)
    refuse(ErrorCode.INVALID_PRODUCER_EPOCH, leader, lambda: leader.write(epoch=2, sequence=1))
    refuse(ErrorCode.INVALID_PRODUCER_EPOCH, leader, lambda: leader.guard(epoch=2))
    assert len(leader.log.guards) == 0


@pytest.mark.parametrize("is_tv2", [False, True])
def test_a_late_marker_keeps_only_the_guard_of_the_next_transaction(leader: Leader, is_tv2: bool) -> None:
    leader.write(leader.guard(is_tv2=is_tv2))
    guard = leader.guard(epoch=1, is_tv2=is_tv2)
    leader.mark(epoch=1, version=2)
    assert leader.log.guards.get(PRODUCER) is (guard if is_tv2 else None)
    if is_tv2:
        leader.write(guard, epoch=1)
    else:
        refuse(ErrorCode.INVALID_TXN_STATE, leader, lambda: leader.write(guard, epoch=1))


@pytest.mark.parametrize("sequence", [1, 5])
@pytest.mark.parametrize("has_state", [False, True])
def test_a_producer_with_an_epoch_for_each_transaction_begins_at_zero(
    leader: Leader, sequence: int, has_state: bool
) -> None:
    if has_state:
        leader.write(leader.guard(is_tv2=True))
        leader.mark(epoch=1, version=2)
    guard = leader.guard(epoch=1, sequence=sequence, is_tv2=True)
    refuse(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        leader,
        lambda: leader.write(guard, epoch=1, sequence=sequence),
    )
    leader.write(leader.guard(epoch=1, is_tv2=True), epoch=1)


def test_a_producer_without_new_epochs_may_start_anywhere(leader: Leader) -> None:
    leader.write(leader.guard(sequence=5), sequence=5)


def test_a_later_batch_never_comes_before_one_that_waits(leader: Leader) -> None:
    guard = leader.guard(sequence=4)
    assert leader.guard(sequence=2) is guard
    assert leader.guard(sequence=3) is guard
    refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, leader, lambda: leader.write(guard, sequence=4))
    leader.write(guard, sequence=2)
    leader.write(sequence=3)


def test_a_guard_keeps_the_order_although_verification_is_switched_off_meanwhile(leader: Leader) -> None:
    leader.guard(sequence=2)
    leader.log.producer_state.verifies_transactions = False
    refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, leader, lambda: leader.write(sequence=4))
    leader.write(sequence=2)


def test_a_newer_epoch_begins_with_its_own_lowest_sequence(leader: Leader) -> None:
    guard = leader.guard(sequence=2)
    assert leader.guard(epoch=1, sequence=9) is guard
    assert guard is not None
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 9)
    assert leader.guard(epoch=0, sequence=1) is guard
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 9)


def test_a_repeated_batch_needs_no_guard_and_gets_its_former_offsets(leader: Leader) -> None:
    first = leader.write(leader.guard())
    leader.mark()
    again = leader.write()
    assert (again.duplicate, again.first_offset) == (True, first.first_offset)
    assert leader.log.log_end_offset == 2


def test_guards_expire_with_silent_producers(leader: Leader) -> None:
    state = leader.log.producer_state
    leader.guard()
    state.remove_expired(NOW_MS + state.producer_id_expiration_ms - 1)
    assert len(state.guards) == 1
    state.remove_expired(NOW_MS + state.producer_id_expiration_ms)
    assert len(state.guards) == 0


def test_guards_are_in_memory_only(leader: Leader) -> None:
    leader.guard()
    leader.harness.reopen()
    assert len(leader.harness.log.guards) == 0
