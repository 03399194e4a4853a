"""ConsumerGroupHeartbeat: what is refused, what is stored for the rest, and how partitions move."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kcli.broker.coordinator.consumer_group import ConsumerGroupState
from kcli.broker.coordinator.consumer_member import MemberState
from kcli.protocol.coordinator_records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    decode_record,
    encode_key,
    encode_value,
)
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.broker.coordinator.virtual_consumers import REBALANCE_MS, Consumer, VirtualConsumers, topic_id
from tests.broker.coordinator.virtual_coordinator import START_WALL_MS

T = topic_id("t")


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


def settled(world: VirtualConsumers, *names: str, **says: Any) -> list[Consumer]:
    """Return members that have joined one after the other and shared the topics."""
    consumers = [Consumer(world, name, {**says}) for name in names]
    for count in range(1, len(consumers) + 1):
        for _ in range(4):
            for consumer in consumers[:count]:
                consumer.beat()
    assert world.consumer_group().state is ConsumerGroupState.STABLE
    return consumers


def stored(world: VirtualConsumers, since: int = 0) -> list[str]:
    """Return the records of the log, one line each: type, member or expression, and what it says."""
    lines = []
    for key, value in world.log[since:]:
        record = decode_record(key, value)
        named = getattr(record.key, "member_id", None) or getattr(record.key, "regular_expression", "")
        kind = type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        lines.append(f"{kind} {named} {say(record.value)}".replace("  ", " "))
    return lines


def say(value: Any) -> str:
    match type(value).__name__.removeprefix("ConsumerGroup").removesuffix("Value"):
        case "Metadata":
            return f"epoch {value.epoch}"
        case "MemberMetadata":
            return ",".join(value.subscribed_topic_names) + value.subscribed_topic_regex
        case "TargetAssignmentMetadata":
            return f"epoch {value.assignment_epoch}"
        case "TargetAssignmentMember":
            return str([each.partitions for each in value.topic_partitions])
        case "CurrentMemberAssignment":
            has = [(each.partitions, each.assignment_epochs) for each in value.assigned_partitions]
            revoking = [each.partitions for each in value.partitions_pending_revocation]
            epochs = f"epoch {value.member_epoch} after {value.previous_member_epoch}"
            return f"{epochs} state {value.state} {has} {revoking}"
        case "RegularExpression":
            return ",".join(value.topics)
        case _:
            return "none" if value is None else repr(value)


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
        "unknown": world.beat("x", 1).error,
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
    assert world.beat("a", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.state() == "Stable"


# --- joining, sharing, leaving -----------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once_and_kafkas_records_are_stored(
    world: VirtualConsumers,
) -> None:
    call = world.enter("a", rack_id="r", server_assignor="range")
    assert (call.error, call.response.member_id, call.response.member_epoch) == (ErrorCode.NONE, "a", 1)
    assert call.response.heartbeat_interval_ms == 5000
    assert world.given(call) == "t0 t1 t2 t3"
    assert stored(world) == [
        "MemberMetadata a t",
        "Metadata epoch 1",
        "TargetAssignmentMember a [[0, 1, 2, 3]]",
        "TargetAssignmentMetadata epoch 1",
        "CurrentMemberAssignment a epoch 1 after 0 state 0 [([0, 1, 2, 3], [1, 1, 1, 1])] []",
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
    call = world.beat("a", 1)
    assert (call.error, call.response.member_epoch, world.given(call)) == (ErrorCode.NONE, 1, None)
    full = world.beat("a", 1, owned=set(), rebalance_timeout_ms=60_000, subscribed_topic_names=["t"])
    assert world.given(full) == "t0 t1 t2 t3"
    assert len(world.log) == size


def test_the_broker_makes_an_id_for_an_old_client(world: VirtualConsumers) -> None:
    assert world.enter("", version=0).response.member_id == "id1"


def test_partitions_move_only_when_they_are_given_up(world: VirtualConsumers) -> None:
    first, second = Consumer(world, "a", {}), Consumer(world, "b", {})
    first.beat()
    second.beat()
    assert world.outline() == {"a": "1 stable t0 t1 t2 t3", "b": "2 unreleased"}
    first.keeps = True
    first.beat()
    assert world.outline() == {"a": "1 unrevoked t0 t1 -t2 t3", "b": "2 unreleased"}
    first.beat()
    second.beat()
    assert world.outline() == {"a": "1 unrevoked t0 t1 -t2 t3", "b": "2 unreleased"}
    assert world.consumer_group().state is ConsumerGroupState.RECONCILING
    first.owned -= {("t", 2), ("t", 3)}
    first.beat()
    assert world.outline() == {"a": "2 stable t0 t1", "b": "2 unreleased"}
    second.beat()
    assert world.outline() == {"a": "2 stable t0 t1", "b": "2 stable t2 t3"}
    assert world.consumer_group().state is ConsumerGroupState.STABLE


def test_who_missed_the_last_answer_may_say_the_epoch_before(world: VirtualConsumers) -> None:
    first, _ = settled(world, "a", "b")
    lost = world.enter("c")
    assert lost.error is ErrorCode.NONE
    before = first.epoch
    for _ in range(3):
        world.beat("a", first.epoch, owned={("t", 0)})
    assert world.consumer_group().members["a"].epoch > before
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
        "Metadata epoch 3",
    ]
    first.beat()
    assert world.outline() == {"a": "3 stable t0 t1 t2 t3"}
    world.beat("a", -1)
    assert world.consumer_group().state is ConsumerGroupState.EMPTY
    assert not world.timers


def test_a_member_that_wants_other_topics_gets_these_and_gives_up_the_old(world: VirtualConsumers) -> None:
    world.topics(u=2)
    world.enter("a")
    call = world.beat("a", 1, subscribed_topic_names=["u"])
    assert world.given(call) == ""
    assert world.outline() == {"a": "1 unrevoked -t0 t1 t2 t3"}
    call = world.beat("a", 1, owned=set())
    assert (call.response.member_epoch, world.given(call)) == (2, "u0 u1")


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
    assert world.outline() == {"a": "3 stable t0 t1 t2 t3"}


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
    assert world.outline() == {"b": "3 stable t0 t1 t2 t3"}


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
    assert (call.response.member_epoch, world.given(call)) == (1, "")
    assert world.consumer_group().state is ConsumerGroupState.ASSIGNING
    world.advance(1)
    assert world.beat("b", 1).response.member_epoch == 2


# --- failures and restarts ---------------------------------------------------------------------------


def test_what_cannot_be_written_is_answered_with_the_error_and_changes_nothing(
    world: VirtualConsumers,
) -> None:
    world.enter("a")
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert world.enter("b").error is ErrorCode.NOT_COORDINATOR
    assert world.beat("a", -1).error is ErrorCode.NOT_COORDINATOR
    assert world.beat("a", 1).error is ErrorCode.NONE
    assert world.outline() == {"a": "1 stable t0 t1 t2 t3"}


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
    assert before == {"a": "3 stable t0 t1", "b": "2 unrevoked t2 -t3", "c": "3 unreleased"}
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
    world.beat("a", 1)
    assert stored(world, size) == ["PartitionMetadata none"]
    world.beat("a", 1)
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
    assert world.beat("a", 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert world.given(world.enter("a")) == "t0 t1 t2 t3"
    assert world.outline() == {"a": "1 stable t0 t1 t2 t3"}


# --- topics ------------------------------------------------------------------------------------------


def test_a_topic_that_grows_is_noticed_with_the_next_heartbeat_of_anyone(world: VirtualConsumers) -> None:
    first, second = settled(world, "a", "b")
    world.topics(t=6)
    size = len(world.log)
    second.beat()
    assert stored(world, size)[0] == "Metadata epoch 3"
    first.beat()
    assert world.outline() == {"a": "3 stable t0 t1 t4", "b": "3 stable t2 t3 t5"}


def test_a_topic_may_come_later_and_go_and_come_again_as_another(world: VirtualConsumers) -> None:
    only = Consumer(world, "a", {"subscribed_topic_names": ["t", "late"]})
    only.beat()
    world.topics(late=1)
    only.beat()
    assert world.outline() == {"a": "2 stable late0 t0 t1 t2 t3"}
    world.topics(late=0)
    only.beat()
    assert world.outline() == {"a": "3 stable t0 t1 t2 t3"}
    world.topics(late=2)
    only.beat()
    assert world.outline() == {"a": "4 stable late0 late1 t0 t1 t2 t3"}


def test_a_topic_that_nobody_reads_changes_nothing(world: VirtualConsumers) -> None:
    world.enter("a")
    size = len(world.log)
    world.topics(other=3)
    world.beat("a", 1)
    assert len(world.log) == size


# --- expressions -------------------------------------------------------------------------------------


def test_an_expression_is_resolved_at_once_and_again_when_topics_come_and_go(world: VirtualConsumers) -> None:
    world.topics(orders=1, u=1)
    call = world.enter("a", subscribed_topic_regex="t|or.*")
    assert world.given(call) == "orders0 t0 t1 t2 t3"
    assert stored(world)[:2] == ["MemberMetadata a t|or.*", "RegularExpression t|or.* orders,t"]
    world.topics(u2=1)
    world.beat("a", 1)
    assert len(stored(world)) == 6
    world.topics(ores=1)
    assert world.given(world.beat("a", 1)) == "orders0 ores0 t0 t1 t2 t3"
    world.topics(orders=0)
    world.beat("a", 2, owned={("t", 0)})
    assert world.consumer_group().regexes["t|or.*"].topics == {"t", "ores"}


def test_names_and_an_expression_add_up_and_the_expression_goes_with_its_last_member(
    world: VirtualConsumers,
) -> None:
    world.topics(u=1)
    world.enter("a", "u", subscribed_topic_regex="t")
    world.enter("b", "u", subscribed_topic_regex="t")
    assert world.consumer_group().subscribed == {"t", "u"}
    size = len(world.log)
    world.beat("b", -1)
    assert "RegularExpression t none" not in stored(world, size)
    world.beat("a", 1, subscribed_topic_regex="")
    assert "RegularExpression t none" in stored(world, size)
    assert world.consumer_group().subscribed == {"u"}


def test_an_expression_that_matches_nothing_is_no_error(world: VirtualConsumers) -> None:
    call = world.enter("a", subscribed_topic_regex="nothing")
    assert (call.error, call.response.member_epoch, world.given(call)) == (ErrorCode.NONE, 1, "")


def test_expressions_are_matched_again_when_the_interval_has_passed(world: VirtualConsumers) -> None:
    world.enter("a", subscribed_topic_regex="t.*")
    world.beat("a", 1)
    world.image = type(world.image)(topics={}, topics_by_id={}, offset=9)
    world.beat("a", 1)
    assert world.consumer_group().regexes["t.*"].topics == {"t"}
    world.now_ms += 600_000
    world.beat("a", 1)
    assert world.consumer_group().regexes["t.*"].topics == frozenset()


COSTLY = "|".join(["(.*a.{200})"] * 40)
"""Matches what has an `a` 201 characters before its end, which takes many steps to find out."""


def costly_names(count: int) -> dict[str, int]:
    random = Random(1)
    return {"".join(random.choices("ab", k=249)): 1 for _ in range(count)}


def test_an_expression_that_takes_too_long_is_refused(world: VirtualConsumers) -> None:
    world.topics(**costly_names(10))
    call = world.enter("a", subscribed_topic_regex=COSTLY)
    assert call.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert call.response.error_message.endswith("it takes too many steps to match")
    assert not world.log
    # Members that want something else are none the worse for it.
    assert world.given(world.enter("b", subscribed_topic_regex="t")) == "t0 t1 t2 t3"
    assert world.beat("b", 1, subscribed_topic_regex=COSTLY).error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.beat("b", 1).error is ErrorCode.NONE


def test_what_an_expression_matched_stays_when_it_comes_to_take_too_long(world: VirtualConsumers) -> None:
    # Not the text above: what was worked out of that one is remembered.
    costly = COSTLY + "|t"
    assert world.given(world.enter("a", subscribed_topic_regex=costly)) == "t0 t1 t2 t3"
    world.topics(**costly_names(10))
    call = world.beat("a", 1, subscribed_topic_names=["u"])
    assert call.error is ErrorCode.NONE
    assert world.consumer_group().regexes[costly].topics == {"t"}
    assert world.given(world.enter("b", subscribed_topic_regex=costly)) is not None


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
    assert world.beat("s", 1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("s", -1, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("s", 1).error is ErrorCode.UNKNOWN_MEMBER_ID


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
    assert world.outline()["a"].startswith("1 unrevoked")
    for _ in range(REBALANCE_MS // 10_000):
        world.advance(10_000)
        first.beat()
        second.beat()
    assert list(world.consumer_group().members) == ["b"]


# --- as a group of any kind ----------------------------------------------------------------------------


def test_a_group_is_described_with_what_its_members_have_and_are_to_have(world: VirtualConsumers) -> None:
    first, second = Consumer(world, "a", {}, keeps=True), Consumer(world, "b", {"server_assignor": "range"})
    first.beat()
    second.beat()
    first.beat()
    group, missing = world.shard.consumer_group_describe(world.now, ["g", "none"])
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert group.assignor_name == "range"
    told = {
        each.member_id: (
            each.member_epoch,
            [(part.topic_name, part.partitions) for part in each.assignment.topic_partitions],
            [(part.topic_name, part.partitions) for part in each.target_assignment.topic_partitions],
            each.member_type,
        )
        for each in group.members
    }
    assert told == {
        "a": (1, [("t", [0, 1, 2, 3])], [("t", [0, 1])], 1),
        "b": (2, [], [("t", [2, 3])], 1),
    }
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (listed,) = world.shard.list_groups()
    assert (listed.group_type, listed.protocol_type, listed.group_state) == (
        "consumer",
        "consumer",
        "Reconciling",
    )
    (classic,) = world.shard.describe_groups(world.now, ["g"], 6)
    assert (classic.group_state, classic.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


COMMITS = {
    "in its epoch": ("a", 2, 9, ErrorCode.NONE),
    "behind, but it has had the partition since": ("a", 1, 9, ErrorCode.NONE),
    "before it had the partition": ("b", 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
    "ahead": ("a", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
    "by an old request": ("a", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
    "by a stranger": ("x", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    "by a tool while members are at work": ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(("name", "epoch", "version", "error"), COMMITS.values(), ids=COMMITS)
def test_offsets_are_committed_by_epoch(
    world: VirtualConsumers, name: str, epoch: int, version: int, error: ErrorCode
) -> None:
    settled(world, "a", "b")
    partition = 2 if name == "b" else 0
    call = world.commit({("t", partition): 7}, member_id=name, generation=epoch, version=version)
    (topic,) = call.response.topics
    assert [each.error_code for each in topic.partitions] == [error]
    assert world.offsets() == ({} if error else {("t", partition): 7})


def test_offsets_are_seen_by_everybody_but_by_members_only_in_their_epoch(world: VirtualConsumers) -> None:
    settled(world, "a")

    def fetch(member_id: str | None, epoch: int) -> int:
        asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        return int(world.shard.offset_fetch(world.now, asked, require_stable=False).error_code)

    assert [fetch(None, -1), fetch("a", 1), fetch("a", 0), fetch("x", 1)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_an_empty_group_takes_commits_of_tools_and_can_be_deleted_with_all_its_records(
    world: VirtualConsumers,
) -> None:
    world.enter("a", subscribed_topic_regex="t")
    assert world.delete("g").response[0].error_code == ErrorCode.NON_EMPTY_GROUP
    (deleted,) = world.delete_offsets(("t", 0)).response.topics
    assert deleted.partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    world.beat("a", -1)
    assert world.commit({("t", 0): 7}).response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert world.delete("g").response[0].error_code == ErrorCode.NONE
    assert "g" not in world.shard.groups
    latest = dict(world.log)
    assert set(latest.values()) == {None}
    world.restart()
    assert not world.shard.groups


def test_a_group_that_was_deleted_begins_anew(world: VirtualConsumers) -> None:
    world.enter("a")
    world.beat("a", -1)
    world.delete("g")
    assert world.enter("a").response.member_epoch == 1


def test_an_empty_group_goes_with_its_last_offset(world: VirtualConsumers) -> None:
    world.enter("a")
    world.commit({("t", 0): 7}, member_id="a", generation=1)
    world.now_ms += 8 * 24 * 3600 * 1000
    world.perform(world.shard.expire_offsets(world.now))
    assert world.offsets() == {("t", 0): 7}, "a member reads the topic"
    world.beat("a", -1)
    world.perform(world.shard.expire_offsets(world.now))
    assert "g" not in world.shard.groups
    assert world.offsets() == {}
