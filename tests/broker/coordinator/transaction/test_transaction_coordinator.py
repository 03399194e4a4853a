"""A shard of transactional ids: transitions, markers, time, loading."""

from __future__ import annotations

import pytest

from kcli.broker.config.transaction_definitions import TransactionConfig
from kcli.broker.coordinator.transaction.messages import Markers
from kcli.broker.coordinator.transaction.transaction import Producer, Transaction
from kcli.broker.coordinator.transaction.transaction_coordinator import COMPLETE_RETRY_MS, TURN_WRITES
from kcli.broker.coordinator.transaction.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from tests.broker.coordinator.transaction.virtual_transactions import (
    FIRST_PRODUCER_ID,
    ID,
    START_MS,
    A,
    B,
    VirtualTransactions,
)

PID = FIRST_PRODUCER_ID
OK = ErrorCode.NONE
CONCURRENT, UNAVAILABLE = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE
DAY_MS = 86_400_000


def begun(level: int = 2, config: TransactionConfig | None = None) -> VirtualTransactions:
    """Return a coordinator with one id, in epoch 0."""
    coordinator = VirtualTransactions(level=level, config=config)
    assert coordinator.init() == Producer(PID, 0)
    return coordinator


def ongoing(level: int = 2, version: int = 2) -> VirtualTransactions:
    """Return a coordinator with an open transaction."""
    coordinator = begun(level)
    assert coordinator.add((PID, 0), B, A, version=version) == OK
    coordinator.messages.clear()
    return coordinator


def states(coordinator: VirtualTransactions) -> list[int]:
    """Return the states in the log."""
    return [value.transaction_status for value in coordinator.values()]


# --- one transaction


@pytest.mark.parametrize(
    ("level", "version", "commit"), [(0, 0, True), (1, 0, False), (2, 0, True), (2, 2, True), (2, 2, False)]
)
def test_a_transaction_is_four_records_and_one_message(level: int, version: int, commit: bool) -> None:
    coordinator = ongoing(level, version)
    last = Producer(PID, 1 if version else 0)
    assert coordinator.end((PID, 0), commit, version=version) == last
    prepared, completed = (PREPARE_COMMIT, COMPLETE_COMMIT) if commit else (PREPARE_ABORT, COMPLETE_ABORT)
    assert states(coordinator) == [EMPTY, ONGOING, prepared]
    (markers,) = coordinator.take_markers()
    assert markers == Markers(7, 0, ID, PID, last.epoch, commit, version, (A, B))
    coordinator.write(markers, A)
    assert (coordinator.ended(), states(coordinator)[-1]) == ([], prepared)
    coordinator.write(markers, A, B)
    assert (coordinator.ended(), states(coordinator)[-1]) == ([ID], completed)
    assert coordinator.batches == [1, 1, 1, 1]
    final = coordinator.values()[-1]
    assert (final.transaction_partitions, final.transaction_start_timestamp_ms) == ([], START_MS)
    assert set(coordinator.versions()) == {0 if level == 0 else 1}
    coordinator.write(markers)  # a marker that came twice
    assert len(coordinator.log) == 4


def test_records_hold_what_kafka_writes() -> None:
    coordinator = begun()
    coordinator.wall_ms += 10
    coordinator.add((PID, 0), TopicPartition("b", 2), A, TopicPartition("b", 0))
    first, second = coordinator.values()
    assert first.transaction_partitions is None
    assert (first.previous_producer_id, first.next_producer_id, first.next_producer_epoch) == (PID, -1, -1)
    assert (first.client_transaction_version, second.client_transaction_version) == (0, 2)
    assert [(each.topic, each.partition_ids) for each in second.transaction_partitions] == [
        ("a", [0]),
        ("b", [0, 2]),
    ]
    assert second.transaction_start_timestamp_ms == second.transaction_last_update_timestamp_ms
    assert second.transaction_start_timestamp_ms == START_MS + 10


def test_a_client_of_tv2_is_written_whole_even_at_level_0() -> None:
    coordinator = ongoing(2)
    coordinator.level = 0
    assert coordinator.end((PID, 0)) == Producer(PID, 1)
    coordinator.write_all()
    assert coordinator.versions() == [1, 1, 1, 1]
    assert coordinator.add((PID, 1), A, version=0) == OK
    assert coordinator.versions()[-1] == 0
    coordinator.restart()
    assert coordinator.end((PID, 1), version=0) == Producer(PID, 1)
    coordinator.write_all()
    assert coordinator.of().state is COMPLETE_COMMIT  # type: ignore[union-attr]


def test_a_transaction_without_partitions_is_completed_at_once() -> None:
    coordinator = begun()
    assert coordinator.end((PID, 0), False) == Producer(PID, 1)
    assert states(coordinator) == [EMPTY, PREPARE_ABORT, COMPLETE_ABORT]
    assert coordinator.take_markers() == []


def test_the_last_epoch_of_a_producer_id() -> None:
    coordinator = begun()
    coordinator.preset(Transaction(ID, PID, 32765, 60_000, START_MS, previous_producer_id=PID))
    assert coordinator.end((PID, 32765), False) == Producer(PID, 32766)
    assert coordinator.add((PID, 32766), A) == OK
    coordinator.messages.clear()
    assert coordinator.end((PID, 32766)) == Producer(PID + 1, 0)
    (markers,) = coordinator.take_markers()
    assert (markers.producer_id, markers.producer_epoch) == (PID, 32767)
    assert coordinator.end((PID, 32766)) == CONCURRENT
    coordinator.restart()  # the next producer id is in the record
    coordinator.write_all()
    assert coordinator.end((PID, 32766)) == Producer(PID + 1, 0)  # the response was lost
    assert coordinator.end((PID, 32766), False) == ErrorCode.INVALID_TXN_STATE
    assert coordinator.add((PID + 1, 0), A) == OK
    assert coordinator.end((PID, 32766)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_timeouts_of_producers_have_limits() -> None:
    coordinator = VirtualTransactions(config=TransactionConfig(max_timeout_ms=5000))
    for timeout_ms in (0, -1, 5001):
        assert coordinator.init(timeout_ms=timeout_ms) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.log == []
    assert coordinator.init(timeout_ms=5000) == Producer(PID, 0)
    assert coordinator.of().timeout_ms == 5000  # type: ignore[union-attr]


def test_without_a_producer_id_nothing_begins() -> None:
    coordinator = VirtualTransactions()
    coordinator.has_ids = False
    assert coordinator.init() == UNAVAILABLE
    coordinator.has_ids = True
    assert coordinator.init() == Producer(PID, 0)


def test_a_session_of_an_unknown_id_ignores_the_producer_that_its_client_was() -> None:
    coordinator = VirtualTransactions()
    assert coordinator.init((PID + 7, 5)) == Producer(PID, 0)


def test_an_empty_id_is_refused() -> None:
    coordinator = begun()
    assert coordinator.add((PID, 0), A, name="") == ErrorCode.INVALID_REQUEST
    assert coordinator.add((PID, 0), A, name="", verify=True) == ErrorCode.INVALID_REQUEST
    assert coordinator.end((PID, 0), name="") == ErrorCode.INVALID_REQUEST
    assert coordinator.end((PID, 0), name="", version=0) == ErrorCode.INVALID_REQUEST


# --- transitions


def test_what_is_not_committed_yet_is_concurrent() -> None:
    coordinator = VirtualTransactions()
    coordinator.holds = True
    assert coordinator.init() is None
    assert coordinator.init() == CONCURRENT
    coordinator.commit_held()
    assert coordinator.ended() == [ID]
    coordinator.holds = True
    assert coordinator.add((PID, 0), A) is None
    assert coordinator.add((PID, 0), A) == CONCURRENT
    assert coordinator.end((PID, 0)) == CONCURRENT
    assert coordinator.end((PID, 0), version=0) == CONCURRENT
    assert coordinator.end((PID, 1), version=0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.init() == CONCURRENT
    # A partition counts as added once that is committed.
    assert coordinator.add((PID, 0), A, verify=True) == ErrorCode.TRANSACTION_ABORTABLE
    coordinator.commit_held()
    assert coordinator.add((PID, 0), A, verify=True) == OK
    assert coordinator.end((PID, 0)) == Producer(PID, 1)
    for producer in ((PID, 0), (PID, 1)):
        assert coordinator.add(producer, A) == CONCURRENT
        assert coordinator.end(producer) == CONCURRENT
        assert coordinator.init(producer) == CONCURRENT


@pytest.mark.parametrize("level", [0, 2])
def test_an_abort_that_is_not_written_raises_the_epoch_only_once(level: int) -> None:
    coordinator = ongoing(level, version=level)
    coordinator.append_error = UNAVAILABLE
    for _ in range(2):
        assert coordinator.init() == UNAVAILABLE
        assert coordinator.of().producer == Producer(PID, 0)  # type: ignore[union-attr]
    coordinator.append_error = None
    assert coordinator.init() == CONCURRENT
    coordinator.write_all()
    assert coordinator.init() == Producer(PID, 2)


def test_each_protocol_ends_what_the_other_has_ended() -> None:
    """As when the level changes, or a client is replaced by an older one."""
    coordinator = ongoing()
    coordinator.end((PID, 0))
    coordinator.write_all()
    assert coordinator.end((PID, 0), version=0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end((PID, 1), version=0) == Producer(PID, 1)
    assert coordinator.end((PID, 1), False, version=0) == ErrorCode.INVALID_TXN_STATE
    coordinator.add((PID, 1), A, version=0)
    coordinator.end((PID, 1), version=0)
    assert coordinator.end((PID, 1)) == CONCURRENT
    coordinator.write_all()
    assert coordinator.end((PID, 0)) == Producer(PID, 1)
    assert coordinator.end((PID, 1)) == ErrorCode.INVALID_TXN_STATE


def test_no_marker_leaves_before_the_decision_is_committed() -> None:
    coordinator = ongoing()
    coordinator.holds = True
    assert coordinator.end((PID, 0)) is None
    assert coordinator.take_markers() == []
    coordinator.time_out_held()
    assert coordinator.take_markers() == []
    coordinator.settle_held()
    (markers,) = coordinator.take_markers()
    coordinator.write(markers)
    assert states(coordinator)[-1] == COMPLETE_COMMIT
    assert coordinator.end((PID, 0)) == Producer(PID, 1)


@pytest.mark.parametrize("code", [UNAVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_failed_write_changes_nothing(code: ErrorCode) -> None:
    coordinator = VirtualTransactions()
    coordinator.append_error = code
    assert coordinator.init() == code
    coordinator.append_error = None
    producer = coordinator.init()
    assert producer == Producer(PID + 1, 0)
    coordinator.append_error = code
    assert coordinator.init(producer) == code
    assert coordinator.add(producer, A) == code
    coordinator.append_error = None
    assert coordinator.add(producer, A) == OK
    coordinator.append_error = code
    assert coordinator.end(producer) == code
    assert coordinator.init() == code
    assert coordinator.take_markers() == []
    coordinator.append_error = None
    assert coordinator.end(producer) == Producer(PID + 1, 1)


@pytest.mark.parametrize("code", [UNAVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_a_failed_completion_is_tried_again(code: ErrorCode) -> None:
    coordinator = ongoing()
    coordinator.end((PID, 0))
    coordinator.append_error = code
    coordinator.write_all()
    coordinator.pass_time(3 * COMPLETE_RETRY_MS)
    assert states(coordinator)[-1] == PREPARE_COMMIT
    assert coordinator.init() == CONCURRENT
    coordinator.append_error = None
    coordinator.pass_time(COMPLETE_RETRY_MS)
    assert states(coordinator)[-1] == COMPLETE_COMMIT
    assert coordinator.ended() == [ID]
    assert coordinator.init() == Producer(PID, 2)


def test_a_completion_whose_commit_takes_long_is_written_once() -> None:
    coordinator = ongoing()
    coordinator.end((PID, 0))
    coordinator.holds = True
    coordinator.write_all()
    coordinator.time_out_held()
    coordinator.pass_time(10 * COMPLETE_RETRY_MS)
    assert states(coordinator).count(COMPLETE_COMMIT) == 1
    assert coordinator.ended() == []
    coordinator.settle_held()
    assert coordinator.ended() == [ID]


def test_markers_of_another_producer_count_for_nothing() -> None:
    coordinator = ongoing()
    coordinator.end((PID, 0))
    (markers,) = coordinator.take_markers()
    shard, now = coordinator.shard, coordinator.now
    for producer_id, epoch in ((PID, 0), (PID + 1, 1), (PID, 2)):
        assert shard.markers_written(now, ID, producer_id, epoch, markers.partitions) == []
    assert shard.markers_written(now, "unknown", PID, 1, markers.partitions) == []
    coordinator.write(markers)
    assert states(coordinator)[-1] == COMPLETE_COMMIT


def test_a_fenced_transaction_is_left_to_whoever_fenced_it() -> None:
    coordinator = ongoing()
    coordinator.end((PID, 0))
    (markers,) = coordinator.take_markers()
    coordinator.write(markers, A)
    assert coordinator.shard.markers_fenced(coordinator.now, ID, PID, 1) == []
    coordinator.write(markers)
    assert states(coordinator)[-1] == PREPARE_COMMIT
    assert coordinator.init() == CONCURRENT
    coordinator.restart()
    coordinator.write_all()
    assert states(coordinator)[-1] == COMPLETE_COMMIT


def test_an_id_is_described_without_the_partitions_that_have_their_marker() -> None:
    coordinator = ongoing()

    def described() -> dict[str, list[int]]:
        return {each.topic: each.partitions for each in coordinator.shard.describe(ID).topics}

    assert described() == {"a": [0], "b": [1]}
    coordinator.end((PID, 0))
    (markers,) = coordinator.take_markers()
    coordinator.write(markers, A)
    assert described() == {"b": [1]}
    assert coordinator.shard.describe(ID).transaction_state == "PrepareCommit"
    coordinator.write(markers)
    assert described() == {}


# --- time


@pytest.mark.parametrize(("level", "epoch"), [(0, 1), (1, 1), (2, 1)])
def test_a_transaction_that_lasts_too_long_is_aborted(level: int, epoch: int) -> None:
    coordinator = ongoing(level, version=0)
    coordinator.pass_time(60_000)
    assert states(coordinator)[-1] == ONGOING
    coordinator.pass_time(10_000)
    assert states(coordinator)[-1] == PREPARE_ABORT
    (markers,) = coordinator.take_markers()
    assert (markers.producer_epoch, markers.is_commit) == (epoch, False)
    assert markers.transaction_version == (2 if level == 2 else 0)
    coordinator.write(markers)
    assert states(coordinator)[-1] == COMPLETE_ABORT
    assert coordinator.end((PID, 0), version=0) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add((PID, 0), A) == ErrorCode.PRODUCER_FENCED
    assert coordinator.timers.keys() <= {"timeouts"}
    coordinator.pass_time(DAY_MS)
    assert coordinator.timers == {}  # nothing is open, so nothing is looked for
    assert len(coordinator.log) == 4


def test_a_timeout_waits_for_a_transition_and_for_a_producer_id() -> None:
    coordinator = ongoing()
    coordinator.holds = True
    assert coordinator.add((PID, 0), TopicPartition("c", 0)) is None
    coordinator.pass_time(100_000)
    assert states(coordinator)[-1] == ONGOING
    coordinator.commit_held()
    coordinator.append_error = UNAVAILABLE
    coordinator.pass_time(20_000)
    assert states(coordinator)[-1] == ONGOING
    coordinator.append_error = None
    coordinator.pass_time(10_000)
    assert states(coordinator)[-1] == PREPARE_ABORT


PER_TURN = TURN_WRITES // 3
"""How many transactions with one partition are ended in one turn."""


def with_open_transactions(count: int) -> VirtualTransactions:
    """Return a coordinator of so many transactions with one partition each."""
    coordinator = VirtualTransactions()
    for number in range(count):
        producer = coordinator.init(name=f"{number}")
        coordinator.add(producer, A, name=f"{number}")
    return coordinator


def test_very_many_timeouts_are_handled_turn_by_turn() -> None:
    """Those that cannot be aborted wait for the next check, and do not keep the others from their turn."""
    coordinator = with_open_transactions(3 * PER_TURN - 1)
    coordinator.timers["timeouts"] = coordinator.wall_ms + 70_000
    coordinator.pass_time(70_000)
    assert len(coordinator.take_markers()) == PER_TURN
    coordinator.append_error = UNAVAILABLE
    coordinator.pass_time(10)
    coordinator.append_error = None
    coordinator.pass_time(9_000)
    assert len(coordinator.take_markers()) == PER_TURN - 1
    coordinator.pass_time(2_000)
    assert len(coordinator.take_markers()) == PER_TURN


def test_very_many_prepared_transactions_are_completed_turn_by_turn_after_a_restart() -> None:
    count = 2 * PER_TURN + 1
    coordinator = with_open_transactions(count)
    for number in range(count):
        coordinator.end((FIRST_PRODUCER_ID + number, 0), name=f"{number}")
    coordinator.restart()
    assert len(coordinator.take_markers()) == PER_TURN
    assert coordinator.init(name=f"{count - 1}") == CONCURRENT
    coordinator.pass_time(20)
    coordinator.write_all()
    assert coordinator.init(name=f"{count - 1}") == Producer(FIRST_PRODUCER_ID + count - 1, 2)


def test_a_timeout_at_the_last_epoch_waits_for_a_producer_id() -> None:
    coordinator = begun()
    coordinator.preset(Transaction(ID, PID, 32766, 60_000, START_MS))
    coordinator.add((PID, 32766), A)
    coordinator.has_ids = False
    coordinator.pass_time(100_000)
    assert states(coordinator)[-1] == ONGOING
    coordinator.has_ids = True
    coordinator.pass_time(10_000)
    coordinator.write_all()
    assert coordinator.of().producer == Producer(PID + 1, 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("is_fenced_by_time", [True, False], ids=["time-out", "another session"])
@pytest.mark.parametrize("asks", ["end", "init"])
def test_a_producer_that_is_fenced_at_its_last_epoch_gets_the_new_producer_id(
    is_fenced_by_time: bool, asks: str
) -> None:
    """Its next request counts as the repetition of one whose response was lost."""
    coordinator = begun()
    coordinator.preset(Transaction(ID, PID, 32766, 60_000, START_MS, previous_producer_id=PID))
    coordinator.add((PID, 32766), A)
    if is_fenced_by_time:
        coordinator.pass_time(70_000)
    else:
        assert coordinator.init() == CONCURRENT
    (markers,) = coordinator.take_markers()
    assert (markers.producer_id, markers.producer_epoch, markers.is_commit) == (PID, 32767, False)
    coordinator.write(markers)
    assert coordinator.end((PID, 32766), True) == ErrorCode.INVALID_TXN_STATE
    again = coordinator.end((PID, 32766), False) if asks == "end" else coordinator.init((PID, 32766))
    assert again == coordinator.of().producer == Producer(PID + 1, 0)  # type: ignore[union-attr]


def test_a_clock_that_is_set_back_postpones() -> None:
    coordinator = ongoing()
    coordinator.wall_ms -= DAY_MS
    coordinator.timers = dict.fromkeys(coordinator.timers, coordinator.wall_ms)
    coordinator.pass_time(DAY_MS)
    assert states(coordinator)[-1] == ONGOING
    coordinator.pass_time(80_000)
    assert states(coordinator)[-1] == PREPARE_ABORT


def test_seven_idle_days_forget_an_id() -> None:
    coordinator = begun()
    coordinator.init(name="open")
    coordinator.add((PID + 1, 0), A, name="open")
    coordinator.wall_ms += 7 * DAY_MS - 1
    coordinator.sweep()
    assert len(coordinator.log) == 3
    coordinator.wall_ms += 1
    coordinator.sweep()
    assert coordinator.values()[3:] == [None]
    assert (coordinator.of(), coordinator.of("open").state) == (None, ONGOING)  # type: ignore[union-attr]
    assert coordinator.add((PID, 0), A) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.sweep()
    assert len(coordinator.log) == 4
    coordinator.restart()
    assert coordinator.of() is None
    assert coordinator.init() == Producer(PID + 2, 0)


def test_ids_are_forgotten_in_batches() -> None:
    coordinator = VirtualTransactions()
    for number in range(1000):
        coordinator.init(name=f"{number:0500}")
    coordinator.batches.clear()
    coordinator.wall_ms += 7 * DAY_MS
    coordinator.sweep()
    assert coordinator.batches == [32] * 2
    coordinator.pass_time(1000)
    assert coordinator.batches == [32] * 31 + [8]
    assert list(coordinator.shard.transactions()) == []


def test_ids_that_cannot_be_forgotten_wait_for_the_next_sweep() -> None:
    coordinator = VirtualTransactions()
    for number in range(100):
        coordinator.init(name=f"{number:0500}")
    coordinator.wall_ms += 7 * DAY_MS
    coordinator.append_error = UNAVAILABLE
    coordinator.sweep()
    assert coordinator.timers == {}
    coordinator.append_error = None
    coordinator.sweep()
    coordinator.pass_time(1000)
    assert list(coordinator.shard.transactions()) == []


def test_an_id_that_cannot_be_forgotten_stays() -> None:
    coordinator = begun()
    coordinator.wall_ms += 7 * DAY_MS
    coordinator.append_error = UNAVAILABLE
    coordinator.sweep()
    coordinator.append_error = None
    assert coordinator.init((PID, 0)) == Producer(PID, 1)
    coordinator.wall_ms += 7 * DAY_MS
    coordinator.holds = True
    coordinator.sweep()
    assert coordinator.init((PID, 1)) == CONCURRENT
    with pytest.raises(KafkaError) as gone:
        coordinator.shard.describe(ID)
    assert gone.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    coordinator.commit_held()
    assert coordinator.init((PID, 1)) == Producer(PID + 1, 0)


def test_a_new_configuration_counts_from_now_on() -> None:
    coordinator = begun()
    coordinator.shard.reconfigure(TransactionConfig(max_timeout_ms=1, id_expiration_ms=5))
    assert coordinator.init() == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    coordinator.wall_ms += 5
    coordinator.sweep()
    assert coordinator.of() is None


# --- loading


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_leader_sends_the_markers_again(commit: bool) -> None:
    coordinator = ongoing()
    coordinator.end((PID, 0), commit)
    coordinator.write(coordinator.take_markers()[0], A)
    coordinator.restart(committed=False)
    assert coordinator.take_markers() == []  # the decision may not be committed
    assert coordinator.init() == CONCURRENT
    coordinator.commit_held()
    (markers,) = coordinator.take_markers()
    assert markers == Markers(7, 1, ID, PID, 1, commit, 2, (A, B))
    coordinator.write(markers)
    assert states(coordinator)[-1] == (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    assert coordinator.end((PID, 0), commit) == Producer(PID, 1)
    coordinator.restart()
    assert coordinator.take_markers() == []


def test_an_open_transaction_goes_on_and_times_out_with_the_next_leader() -> None:
    coordinator = ongoing()
    coordinator.restart()
    assert coordinator.add((PID, 0), A, B, verify=True) == OK
    coordinator.pass_time(80_000)
    assert states(coordinator)[-1] == PREPARE_ABORT


def test_a_new_leader_completes_an_end_without_partitions() -> None:
    coordinator = begun()
    coordinator.holds = True
    coordinator.end((PID, 0), False)
    coordinator.restart()
    assert states(coordinator) == [EMPTY, PREPARE_ABORT, COMPLETE_ABORT]


def test_a_new_leader_does_not_know_the_epoch_before() -> None:
    coordinator = begun()
    assert coordinator.init((PID, 0)) == Producer(PID, 1)
    assert coordinator.init((PID, 0)) == Producer(PID, 1)
    coordinator.restart()
    assert coordinator.init((PID, 0)) == ErrorCode.PRODUCER_FENCED
    assert coordinator.init((PID, 1)) == Producer(PID, 2)
