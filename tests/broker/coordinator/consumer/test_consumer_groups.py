"""ConsumerGroupHeartbeat: refused requests, stored records, moving partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.coordinator.consumer.group import ConsumerGroupState
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.broker.coordinator.consumer.settled_consumers import settled, stored
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers, topic_id
from tests.broker.coordinator.virtual_coordinator import START_WALL_MS

T = topic_id("t")


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


# --- what is refused ---------------------------------------------------------------------------------

JOINS = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": []}

REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no group": ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
    "an empty instance id": ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
    "an empty rack": ({"rack_id": "  "}, ErrorCode.INVALID_REQUEST),
    "no member id": ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    "no member id where the broker would make one, to stay": (
        {"member_id": "", "version": 0, "member_epoch": 1},
        ErrorCode.INVALID_REQUEST,
    ),
    "no member id where the broker would make one, to leave": (
        {"member_id": "", "version": 0, "member_epoch": -1},
        ErrorCode.INVALID_REQUEST,
    ),
    "joins without a rebalance timeout": ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
    "joins without its partitions": ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
    "joins with partitions": (
        {"topic_partitions": [TopicPartitions(topic_id=T, partitions=[0])]},
        ErrorCode.INVALID_REQUEST,
    ),
    "joins without a subscription": ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
    "comes back later, but is not static": ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
    "an epoch that there is not": ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
    "an assignor that there is not": ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    "an expression that is none": ({"subscribed_topic_regex": "a("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    "an expression that looks around": (
        {"subscribed_topic_regex": "(?!a)b"},
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ),
    "stays in a group that there is not": ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
    "leaves a group that there is not": ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
}


@pytest.mark.parametrize(("fields", "error"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_is_wrong_is_refused_and_nothing_is_stored(
    world: VirtualConsumers, fields: dict[str, Any], error: ErrorCode
) -> None:
    said = {"member_id": "m", "member_epoch": 0, "version": 1, **JOINS, **fields}
    call = world.beat(said.pop("member_id"), said.pop("member_epoch"), **said)
    assert call.error is error
    assert call.response.error_message
    assert call.response.member_id is None
    assert not world.log
    assert not world.timers


def test_who_is_not_a_member_or_not_where_it_should_be_is_told_so(world: VirtualConsumers) -> None:
    settled(world, "a", "b")
    (epoch,) = {member.epoch for member in world.consumer_group().members.values()}
    size = len(world.log)
    errors = {
        "unknown": world.beat("x", 2).error,
        "unknown, leaves": world.beat("x", -1).error,
        "ahead": world.beat("a", epoch + 1).error,
        "behind": world.beat("a", epoch - 1, owned={("t", 2)}).error,
        "behind, and does not say what it has": world.beat("a", epoch - 1).error,
        "instance unknown": world.beat("a", epoch, instance_id="i").error,
        "instance unknown, leaves": world.beat("a", -2, instance_id="i").error,
    }
    assert errors == {
        "unknown": ErrorCode.UNKNOWN_MEMBER_ID,
        "unknown, leaves": ErrorCode.UNKNOWN_MEMBER_ID,
        "ahead": ErrorCode.FENCED_MEMBER_EPOCH,
        "behind": ErrorCode.FENCED_MEMBER_EPOCH,
        "behind, and does not say what it has": ErrorCode.FENCED_MEMBER_EPOCH,
        "instance unknown": ErrorCode.UNKNOWN_MEMBER_ID,
        "instance unknown, leaves": ErrorCode.UNKNOWN_MEMBER_ID,
    }
    assert len(world.log) == size


def test_a_full_group_takes_nobody_else() -> None:
    world = VirtualConsumers(consumer_max_size=2)
    settled(world, "a", "b")
    assert world.enter("c").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.enter("a").error is ErrorCode.NONE


def test_a_classic_group_of_something_else_is_no_consumer_group(world: VirtualConsumers) -> None:
    world.stable(1, protocol_type="connect", protocols={"default": b""})
    assert world.enter("a").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.beat("a", 2).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.state() == "Stable"


# --- joining, sharing, leaving -----------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once_and_kafkas_records_are_stored(
    world: VirtualConsumers,
) -> None:
    call = world.enter("a", rack_id="r", server_assignor="range")
    assert (call.error, call.response.member_id, call.response.member_epoch) == (ErrorCode.NONE, "a", 2)
    assert call.response.heartbeat_interval_ms == 5000
    assert world.given(call) == "t0 t1 t2 t3"
    assert stored(world) == [
        "MemberMetadata a t",
        "Metadata epoch 2",
        "TargetAssignmentMember a [[0, 1, 2, 3]]",
        "TargetAssignmentMetadata epoch 2",
        "CurrentMemberAssignment a epoch 2 after 0 state 0 [([0, 1, 2, 3], [2, 2, 2, 2])] []",
    ]
    values = [decode_record(key, value).value for key, value in world.log]
    assert (values[0].client_id, values[0].client_host) == ("c", "/127.0.0.1")
    assert (values[0].rack_id, values[0].server_assignor, values[0].rebalance_timeout_ms) == (
        "r",
        "range",
        60_000,
    )
    assert values[1].metadata_hash
    assert values[3].assignment_timestamp == START_WALL_MS + world.now_ms


def test_a_heartbeat_that_says_nothing_new_stores_nothing_and_brings_nothing(world: VirtualConsumers) -> None:
    world.enter("a")
    size = len(world.log)
    call = world.beat("a", 2)
    assert (call.error, call.response.member_epoch, world.given(call)) == (ErrorCode.NONE, 2, None)
    full = world.beat("a", 2, owned=set(), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    assert world.given(full) == "t0 t1 t2 t3"
    assert len(world.log) == size


def test_the_broker_makes_an_id_for_an_old_client(world: VirtualConsumers) -> None:
    assert world.enter("", version=0).response.member_id == "id1"


def test_partitions_move_only_when_they_are_given_up(world: VirtualConsumers) -> None:
    first, second = Consumer(world, "a", {}), Consumer(world, "b", {})
    first.beat()
    second.beat()
    assert world.outline() == {"a": "2 stable t0 t1 t2 t3", "b": "3 unreleased"}
    first.keeps = True
    first.beat()
    assert world.outline() == {"a": "2 unrevoked t0 t1 -t2 t3", "b": "3 unreleased"}
    first.beat()
    second.beat()
    assert world.outline() == {"a": "2 unrevoked t0 t1 -t2 t3", "b": "3 unreleased"}
    assert world.consumer_group().state is ConsumerGroupState.RECONCILING
    first.owned -= {("t", 2), ("t", 3)}
    first.beat()
    assert world.outline() == {"a": "3 stable t0 t1", "b": "3 unreleased"}
    second.beat()
    assert world.outline() == {"a": "3 stable t0 t1", "b": "3 stable t2 t3"}
    assert world.consumer_group().state is ConsumerGroupState.STABLE


def test_who_missed_the_last_answer_may_say_the_epoch_before(world: VirtualConsumers) -> None:
    first, _ = settled(world, "a", "b")
    lost = world.enter("c")
    assert lost.error is ErrorCode.NONE
    before = first.epoch
    for _ in range(3):
        world.beat("a", first.epoch, owned={("t", 0)})
    assert world.consumer_group().members["a"].epoch > before
    # A topic that is not assigned is too much, even without partitions.
    more = TopicPartitions(topic_id=bytes(15) + b"\xff", partitions=[])
    assert world.beat("a", before, topic_partitions=[more]).error is ErrorCode.FENCED_MEMBER_EPOCH
    call = world.beat("a", before, owned={("t", 0)})
    assert (call.error, call.response.member_epoch) == (ErrorCode.NONE, before + 1)


def test_a_member_that_leaves_leaves_its_partitions_to_the_others(world: VirtualConsumers) -> None:
    first, _ = settled(world, "a", "b")
    size = len(world.log)
    call = world.beat("b", -1)
    assert (call.error, call.response.member_id, call.response.member_epoch) == (ErrorCode.NONE, "b", -1)
    assert stored(world, size) == [
        "CurrentMemberAssignment b none",
        "TargetAssignmentMember b none",
        "MemberMetadata b none",
        "Metadata epoch 4",
    ]
    first.beat()
    assert world.outline() == {"a": "4 stable t0 t1 t2 t3"}
    world.beat("a", -1)
    assert world.consumer_group().state is ConsumerGroupState.EMPTY
    assert not world.timers


def test_a_member_that_wants_other_topics_gets_these_and_gives_up_the_old(world: VirtualConsumers) -> None:
    world.topics(u=2)
    world.enter("a")
    call = world.beat("a", 2, subscribed_topic_names=["u"])
    assert world.given(call) == ""
    assert world.outline() == {"a": "2 unrevoked -t0 t1 t2 t3"}
    call = world.beat("a", 2, owned=set())
    assert (call.response.member_epoch, world.given(call)) == (3, "u0 u1")


# --- static members ----------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_finds_its_partitions_and_nobody_else_moves(
    world: VirtualConsumers,
) -> None:
    settled(world, "a", "b", instance_id=None)
    static = Consumer(world, "s", {"instance_id": "i"})
    others = [Consumer(world, name, {}, epoch=2) for name in "ab"]
    for _ in range(4):
        for consumer in (static, *others):
            consumer.beat()
    before = world.outline()
    epoch = world.consumer_group().epoch
    gone = world.beat("s", -2, instance_id="i")
    assert (gone.error, gone.response.member_epoch) == (ErrorCode.NONE, -2)
    assert world.consumer_group().members["s"].epoch == -2
    size = len(world.log)
    call = world.enter("s2", instance_id="i")
    assert call.response.member_epoch == epoch
    assert stored(world, size)[:5] == [
        "CurrentMemberAssignment s none",
        "TargetAssignmentMember s none",
        "MemberMetadata s none",
        "MemberMetadata s2 t",
        "TargetAssignmentMember s2 [[3]]",
    ]
    after = world.outline()
    assert after.pop("s2") == before.pop("s")
    assert after == before
    assert world.consumer_group().epoch == epoch


def test_a_static_member_that_does_not_come_back_is_removed(world: VirtualConsumers) -> None:
    world.enter("s", instance_id="i")
    world.beat("s", -2, instance_id="i")
    world.advance(45_000)
    assert not world.consumer_group().members


def test_an_instance_id_in_use_is_not_given_away_and_a_former_self_is_fenced(world: VirtualConsumers) -> None:
    world.enter("s", instance_id="i")
    assert world.enter("s2", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert world.enter("s", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
    world.beat("s", -2, instance_id="i")
    assert world.enter("s2", instance_id="i").error is ErrorCode.NONE
    assert world.beat("s", 2, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("s", -1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("s", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
