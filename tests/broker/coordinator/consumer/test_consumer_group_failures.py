"""Consumer groups with silent members, failing writes, and reloads."""

from __future__ import annotations

import pytest

from kcli.broker.coordinator.consumer.group import ConsumerGroupState
from kcli.broker.coordinator.consumer.member import MemberState
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    decode_record,
    encode_key,
    encode_value,
)
from tests.broker.coordinator.consumer.settled_consumers import settled, stored
from tests.broker.coordinator.virtual_consumers import REBALANCE_MS, Consumer, VirtualConsumers


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


# --- time --------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_when_its_session_ends_and_not_before(world: VirtualConsumers) -> None:
    first, _ = settled(world, "a", "b")
    for _ in range(8):
        world.advance(5000)
        first.beat()
    assert set(world.consumer_group().members) == {"a", "b"}
    world.advance(5000)
    assert set(world.consumer_group().members) == {"a"}
    first.beat()
    assert world.outline() == {"a": "4 stable t0 t1 t2 t3"}


def test_a_group_may_have_a_session_timeout_and_an_interval_of_its_own(world: VirtualConsumers) -> None:
    world.configure_group("g", consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="7000")
    assert world.enter("a").response.heartbeat_interval_ms == 7000
    world.advance(49_999)
    assert set(world.consumer_group().members) == {"a"}
    world.advance(1)
    assert not world.consumer_group().members


def test_a_member_that_does_not_give_up_in_time_is_removed(world: VirtualConsumers) -> None:
    first, second = (
        Consumer(world, "a", {"rebalance_timeout_ms": 20_000}, keeps=True),
        Consumer(world, "b", {}),
    )
    first.beat()
    second.beat()
    first.beat()
    for _ in range(4):
        world.advance(4_999)
        first.beat()
        second.beat()
    assert "a" in world.consumer_group().members
    world.advance(4)
    assert set(world.consumer_group().members) == {"b"}
    first.beat()
    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert world.outline() == {"b": "4 stable t0 t1 t2 t3"}


def test_a_timer_whose_work_could_not_be_written_tries_again(world: VirtualConsumers) -> None:
    world.enter("a")
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.advance(45_000)
    assert set(world.consumer_group().members) == {"a"}
    world.append_error = None
    world.advance(499)
    assert set(world.consumer_group().members) == {"a"}
    world.advance(1)
    assert not world.consumer_group().members


def test_targets_are_not_computed_more_often_than_the_interval_says() -> None:
    world = VirtualConsumers(consumer_assignment_interval_ms=1000)
    world.enter("a")
    world.advance(999)
    call = world.enter("b")
    assert (call.response.member_epoch, world.given(call)) == (2, "")
    assert world.consumer_group().state is ConsumerGroupState.ASSIGNING
    world.advance(1)
    assert world.beat("b", 2).response.member_epoch == 3


def test_a_group_may_have_an_interval_of_its_own_between_targets() -> None:
    world = VirtualConsumers()
    world.configure_group("g", consumer_assignment_interval_ms="1000")
    world.enter("a")
    world.advance(999)
    assert world.enter("b").response.member_epoch == 2
    world.advance(1)
    assert world.beat("b", 2).response.member_epoch == 3


# --- failures and restarts ---------------------------------------------------------------------------


def test_what_cannot_be_written_is_answered_with_the_error_and_changes_nothing(
    world: VirtualConsumers,
) -> None:
    world.enter("a")
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert world.enter("b").error is ErrorCode.NOT_COORDINATOR
    assert world.beat("a", -1).error is ErrorCode.NOT_COORDINATOR
    assert world.beat("a", 2).error is ErrorCode.NONE
    assert world.outline() == {"a": "2 stable t0 t1 t2 t3"}


def test_the_answer_waits_until_its_records_are_committed(world: VirtualConsumers) -> None:
    world.holds_commits = True
    joining = world.enter("a")
    assert joining.is_parked
    world.commit_held()
    assert joining.error is ErrorCode.NONE


def test_a_restart_brings_back_members_and_their_timers(world: VirtualConsumers) -> None:
    first, second = settled(world, "a", "b")
    second.keeps = True
    third = Consumer(world, "c", {"instance_id": "i"})
    for consumer in (third, first, second):
        consumer.beat()
    before = world.outline()
    assert before == {"a": "4 stable t0 t1", "b": "3 unrevoked t2 -t3", "c": "4 unreleased"}
    world.restart()
    assert world.outline() == before
    kinds = sorted(f"{key[0]} {key[2]}" for key in world.timers if isinstance(key, tuple))
    assert kinds == ["consumer-rebalance b", *(f"consumer-session {each}" for each in "abc")]
    second.keeps = False
    for _ in range(4):
        for consumer in (first, second, third):
            consumer.beat()
    assert world.consumer_group().state is ConsumerGroupState.STABLE


def test_a_log_of_kafka_4_0_is_read_and_its_topics_record_deleted(world: VirtualConsumers) -> None:
    world.enter("a")
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    world.log.append((encode_key(key), encode_value(ConsumerGroupPartitionMetadataValue(topics=[]))))
    world.restart()
    size = len(world.log)
    world.beat("a", 2)
    assert stored(world, size) == ["PartitionMetadata none"]
    world.beat("a", 2)
    assert len(world.log) == size + 1


def test_a_state_from_the_future_makes_a_member_start_again(world: VirtualConsumers) -> None:
    world.enter("a")
    key, value = world.log[-1]
    assignment = decode_record(key, value).value
    assignment.state = 9
    assignment.assigned_partitions[0].assignment_epochs = None
    world.log.append((key, encode_value(assignment)))
    world.restart()
    assert world.consumer_group().members["a"].state is MemberState.UNKNOWN
    assert world.beat("a", 2).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.given(world.enter("a")) == "t0 t1 t2 t3"
    assert world.outline() == {"a": "2 stable t0 t1 t2 t3"}


# --- written, and not committed in time ----------------------------------------------------------------


def test_a_member_whose_joining_was_not_committed_in_time_is_removed_unless_it_comes_again(
    world: VirtualConsumers,
) -> None:
    world.holds_commits = True
    call = world.enter("a")
    world.fail_held()
    world.holds_commits = False
    assert call.error is ErrorCode.REQUEST_TIMED_OUT
    assert list(world.consumer_group().members) == ["a"]
    world.advance(45_000)
    assert not world.consumer_group().members


def test_who_is_to_give_up_partitions_has_its_time_for_it_though_the_order_was_not_committed_in_time(
    world: VirtualConsumers,
) -> None:
    first, second = Consumer(world, "a", {}, keeps=True), Consumer(world, "b", {})
    first.beat()
    second.beat()
    world.holds_commits = True
    first.beat()
    world.fail_held()
    world.holds_commits = False
    assert world.outline()["a"].startswith("2 unrevoked")
    for _ in range(REBALANCE_MS // 10_000):
        world.advance(10_000)
        first.beat()
        second.beat()
    assert list(world.consumer_group().members) == ["b"]
