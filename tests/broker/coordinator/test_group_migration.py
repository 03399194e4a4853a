"""Groups that change their protocol while members are at work, and members of both in one group."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.coordinator.classic_group import ClassicGroup
from kcli.broker.coordinator.consumer_group import ConsumerGroup, ConsumerGroupState
from kcli.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.coordinator_records import GroupMetadataKey, decode_record
from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.virtual_classic_consumer import ClassicConsumer
from tests.broker.coordinator.virtual_consumers import Consumer, Partitions, VirtualConsumers, short
from tests.broker.coordinator.virtual_coordinator import Call


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


def classics(world: VirtualConsumers, count: int, **fields: Any) -> list[ClassicConsumer]:
    """Return classic consumers that share the topic."""
    consumers: list[ClassicConsumer] = []
    for number in range(count):
        instance = f"{fields['instance']}{number}" if "instance" in fields else None
        consumers.append(ClassicConsumer(world, ("t",), instance))
        turns(consumers)
    return consumers


def turns(consumers: list[Any], rounds: int = 8) -> None:
    for _ in range(rounds):
        for consumer in consumers:
            if isinstance(consumer, Consumer):
                consumer.beat()
            else:
                consumer.turn()


def shares(*consumers: Consumer | ClassicConsumer) -> list[str]:
    """Return what each has; nothing may be there twice, and everything must be there."""
    has: Partitions = set()
    for consumer in consumers:
        assert has.isdisjoint(consumer.owned)
        has |= consumer.owned
    assert has == {("t", index) for index in range(4)}
    return [short(consumer.owned) for consumer in consumers]


def kind(world: VirtualConsumers) -> str:
    (listed,) = world.shard.list_groups()
    return f"{listed.group_type} {listed.group_state}"


# --- upgrade -----------------------------------------------------------------------------------------


def test_a_live_classic_group_becomes_a_consumer_group_and_everybody_goes_on(world: VirtualConsumers) -> None:
    first, second = classics(world, 2)
    generation = first.generation
    before = {each.member_id: set(each.owned) for each in (first, second)}
    third = Consumer(world, "a", {})
    third.beat()
    assert kind(world) == "consumer Reconciling"
    group = world.consumer_group()
    assert (group.epoch, group.target_epoch) == (generation + 1, generation + 1)
    for each in (first, second):
        member = group.members[each.member_id]
        assert (member.epoch, member.classic is not None) == (generation, True)
        assert world._named_owned(member.assigned) == before[each.member_id]
    first.turn()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    turns([first, second, third])
    assert kind(world) == "consumer Stable"
    assert sorted(map(len, (first.owned, second.owned, third.owned))) == [1, 1, 2]
    shares(first, second, third)
    assert first.generation == third.epoch


def test_who_waits_for_the_classic_group_asks_the_new_one(world: VirtualConsumers) -> None:
    first, _ = classics(world, 2)
    joining = world.join(first.member_id, protocols={"range": encode_subscription(Subscription(("t", "u")))})
    assert joining.is_parked
    world.enter("a")
    assert joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not [key for key in world.timers if key[0] in {"session", "join", "sync"}]


def test_an_upgrade_that_cannot_be_written_leaves_the_classic_group_as_it_was(
    world: VirtualConsumers,
) -> None:
    first, second = classics(world, 2)
    joining = world.join(first.member_id, protocols={"range": encode_subscription(Subscription(("t", "u")))})
    before = dict(world.timers)
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert world.enter("a").error is ErrorCode.NOT_COORDINATOR
    assert joining.is_parked
    assert world.timers == before
    assert kind(world) == "classic PreparingRebalance"
    world.append_error = None
    turns([second])
    assert joining.error is ErrorCode.NONE


def test_an_upgrade_that_is_lost_with_leadership_answers_who_waits(world: VirtualConsumers) -> None:
    first, _ = classics(world, 2)
    joining = world.join(first.member_id, protocols={"range": encode_subscription(Subscription(("t", "u")))})
    world.holds_commits = True
    coming = world.enter("a")
    assert joining.is_parked
    world.unload()
    assert joining.error is ErrorCode.NOT_COORDINATOR
    assert coming.error is ErrorCode.NOT_COORDINATOR


UPGRADABLE = {"bidirectional": True, "upgrade": True, "downgrade": False, "disabled": False}


@pytest.mark.parametrize(("policy", "allowed"), UPGRADABLE.items(), ids=UPGRADABLE)
def test_the_policy_says_whether_a_group_may_be_upgraded(policy: str, allowed: bool) -> None:
    world = VirtualConsumers(migration_policy=policy)
    classics(world, 1)
    expected = ErrorCode.NONE if allowed else ErrorCode.GROUP_ID_NOT_FOUND
    assert world.enter("a").error is expected
    assert isinstance(world.group(), ConsumerGroup if allowed else ClassicGroup)


def test_a_group_with_too_many_members_is_not_upgraded() -> None:
    world = VirtualConsumers(consumer_max_size=1)
    classics(world, 2)
    assert world.enter("a").error is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("metadata", "assignment"),
    [
        (b"\0", b""),
        (encode_subscription(Subscription(("t",))), b"\0\1\0"),
        (encode_subscription(Subscription(("t",))), encode_assignment(Assignment({"t": (0,)}, b"mine"))),
    ],
    ids=["malformed subscription", "malformed assignment", "data of an assignor of its own"],
)
def test_a_group_whose_bytes_say_something_else_is_not_upgraded(
    world: VirtualConsumers, metadata: bytes, assignment: bytes
) -> None:
    joined = world.join(version=3, protocols={"own": metadata})
    member_id, generation = joined.response.member_id, joined.response.generation_id
    world.sync(member_id, generation, assignments={member_id: assignment})
    call = world.enter("a")
    assert (call.error, kind(world)) == (ErrorCode.GROUP_ID_NOT_FOUND, "classic Stable")


def test_what_a_leader_gave_to_two_or_does_not_exist_is_not_taken_over(world: VirtualConsumers) -> None:
    (only,) = classics(world, 1)
    generous = encode_assignment(Assignment({"t": (0, 1, 9), "none": (0,)}))
    second = ClassicConsumer(world, ("t",))
    for _ in range(3):
        second.turn()
        only.turn()
    members = list(world.group().members)
    generation = world.group().generation
    leader = world.group().leader_id
    world.sync(leader, generation, assignments=dict.fromkeys(members, generous))
    world.enter("a")
    had = [world._named_owned(world.consumer_group().members[each].assigned) for each in members]
    assert had == [{("t", 0), ("t", 1)}, set()]


def test_an_empty_classic_group_is_simply_replaced_and_its_offsets_stay(world: VirtualConsumers) -> None:
    (only,) = classics(world, 1)
    world.commit({("t", 1): 5}, member_id=only.member_id, generation=only.generation)
    only.leave()
    assert kind(world) == "classic Empty"
    call = world.enter("a")
    assert (call.response.member_epoch, world.given(call)) == (1, "t0 t1 t2 t3")
    assert world.offsets() == {("t", 1): 5}
    world.restart()
    assert kind(world) == "consumer Stable"


# --- downgrade ---------------------------------------------------------------------------------------


def mixed(world: VirtualConsumers, count: int = 2) -> tuple[list[ClassicConsumer], Consumer]:
    """Return classic members and one of the new protocol, who share a topic."""
    consumers = classics(world, count)
    modern = Consumer(world, "a", {})
    turns([modern, *consumers])
    assert kind(world) == "consumer Stable"
    return consumers, modern


@pytest.mark.parametrize("how", ["leaves", "is silent", "is removed by a tool"])
def test_with_the_last_member_of_the_new_protocol_the_group_is_classic_again(
    world: VirtualConsumers, how: str
) -> None:
    consumers, modern = mixed(world)
    epoch = modern.epoch
    match how:
        case "leaves":
            assert world.beat("a", -1).error is ErrorCode.NONE
        case "is silent":
            for _ in range(9):
                world.advance(5_000)
                turns(consumers, 1)
        case _:
            assert world.leave(("a", None)).response.members[0].error_code == ErrorCode.NONE
    turns(consumers)
    assert kind(world) == "classic Stable"
    assert {each.generation for each in consumers} == {epoch + 1}
    shares(*consumers)
    assert not [key for key in world.timers if str(key[0]).startswith("consumer-")]
    world.restart()
    assert kind(world) == "classic Stable"
    turns(consumers, 1)
    shares(*consumers)


def test_a_classic_group_that_was_one_of_both_knows_all_that_its_members_offer(
    world: VirtualConsumers,
) -> None:
    metadata = encode_subscription(Subscription(("t",)))
    joined = world.join(version=3, protocols={"range": metadata, "roundrobin": metadata})
    member_id, generation = joined.response.member_id, joined.response.generation_id
    world.sync(member_id, generation, assignments={member_id: b""})
    world.enter("a")
    world.beat("a", -1)
    (member,) = world.group().members.values()
    assert [each.name for each in member.protocols] == ["range", "roundrobin"]


DOWNGRADABLE = {"bidirectional": True, "downgrade": True, "upgrade": False, "disabled": False}


@pytest.mark.parametrize(("policy", "allowed"), DOWNGRADABLE.items(), ids=DOWNGRADABLE)
def test_the_policy_says_whether_a_group_may_be_downgraded(policy: str, allowed: bool) -> None:
    world = VirtualConsumers(migration_policy="bidirectional")
    consumers, _ = mixed(world)
    log = list(world.log)
    world = VirtualConsumers(migration_policy=policy)
    world.log = log
    world.restart()
    for each in consumers:
        each.coordinator = world
    world.beat("a", -1)
    turns(consumers)
    assert kind(world).partition(" ")[0] == ("classic" if allowed else "consumer")
    if policy != "disabled":
        # Else classic members are not let in again.
        shares(*consumers)


def test_a_group_with_too_many_classic_members_stays_as_it_is() -> None:
    world = VirtualConsumers(max_size=1)
    (first,), modern = mixed(world, 1)
    second = ClassicConsumer(world, ("t",))
    turns([first, second, modern])
    world.beat("a", -1)
    turns([first, second])
    assert kind(world) == "consumer Stable"
    shares(first, second)


def test_a_downgrade_that_cannot_be_written_changes_nothing(world: VirtualConsumers) -> None:
    consumers, modern = mixed(world)
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.beat("a", -1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kind(world) == "consumer Stable"
    world.append_error = None
    turns([modern, *consumers])
    shares(modern, *consumers)


@pytest.mark.parametrize("way", ["up", "down"])
def test_sessions_go_on_in_a_group_whose_conversion_was_not_committed_in_time(
    world: VirtualConsumers, way: str
) -> None:
    (silent, lively), modern = mixed(world)
    if way == "up":
        world.beat("a", -1)
        turns([silent, lively])
    world.holds_commits = True
    call = world.enter("a") if way == "up" else world.beat("a", -1)
    world.fail_held()
    world.holds_commits = False
    assert call.error is ErrorCode.REQUEST_TIMED_OUT
    assert kind(world).partition(" ")[0] == ("consumer" if way == "up" else "classic")
    modern.epoch = 0
    for _ in range(16):
        world.advance(5_000)
        turns([lively, modern] if way == "up" else [lively], 2)
    assert silent.member_id not in world.group().members
    shares(lively, *([modern] if way == "up" else []))


def test_an_empty_consumer_group_makes_room_for_a_classic_one(world: VirtualConsumers) -> None:
    world.enter("a")
    world.beat("a", -1)
    (only,) = classics(world, 1)
    assert kind(world) == "classic Stable"
    assert shares(only) == ["t0 t1 t2 t3"]
    world.restart()
    assert kind(world) == "classic Stable"


def test_a_refused_joining_leaves_an_empty_consumer_group_as_it_is(world: VirtualConsumers) -> None:
    world.enter("a")
    world.beat("a", -1)
    assert world.join(session_ms=1).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert kind(world) == "consumer Empty"


def test_who_has_an_id_of_an_empty_consumer_group_gets_a_new_one(world: VirtualConsumers) -> None:
    world.enter("a")
    world.beat("a", -1)
    assert world.join("a").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert kind(world) == "consumer Empty"


# --- static members ----------------------------------------------------------------------------------


def test_a_static_member_changes_to_the_new_protocol_and_back_in_its_own_place(
    world: VirtualConsumers,
) -> None:
    first, second = classics(world, 2, instance="i")
    place = set(first.owned)
    modern = Consumer(world, "a", {"instance_id": "i0"})
    turns([modern, second])
    assert kind(world) == "consumer Stable"
    assert modern.owned == place
    shares(modern, second)
    first.turn()
    assert first.is_dead, "it was fenced"
    returned = ClassicConsumer(world, ("t",), "i0")
    turns([returned, second])
    assert kind(world) == "classic Stable"
    shares(returned, second)
    modern.beat()
    assert modern.error is not ErrorCode.NONE


def test_a_static_member_that_comes_back_in_a_mixed_group_keeps_its_partitions(
    world: VirtualConsumers,
) -> None:
    (static,) = classics(world, 1, instance="i")
    modern = Consumer(world, "a", {})
    turns([static, modern])
    place = set(static.owned)
    returned = ClassicConsumer(world, ("t",), "i0")
    turns([returned, modern])
    assert returned.owned == place
    assert world.consumer_group().state is ConsumerGroupState.STABLE
    static.turn()
    assert static.is_dead


# --- classic members among others ----------------------------------------------------------------------


def join(world: VirtualConsumers, member_id: str = "", **fields: Any) -> Call:
    return world.join(member_id, protocols={"range": encode_subscription(Subscription(("t",)))}, **fields)


def test_a_classic_member_joins_without_waiting_and_gets_what_is_free(world: VirtualConsumers) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    assert join(world).error is ErrorCode.MEMBER_ID_REQUIRED
    joined = join(world, "m")
    assert (joined.response.generation_id, joined.response.protocol_name, joined.response.leader) == (
        2,
        "range",
        "",
    )
    synced = world.sync("m", 2)
    assert decode_assignment(synced.response.assignment).partitions == {}
    assert world.heartbeat("m", 2).error is ErrorCode.NONE, "it waits for what is not free"
    turns([modern], 2)
    assert world.heartbeat("m", 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    join(world, "m")
    assert decode_assignment(world.sync("m", 2).response.assignment).partitions == {"t": (2, 3)}
    assert world.heartbeat("m", 2).error is ErrorCode.NONE


def test_a_classic_member_gives_up_in_two_steps_if_it_says_what_it_has(world: VirtualConsumers) -> None:
    def joined(*owned: int) -> int:
        mine = Subscription(("t",), owned_partitions={"t": owned})
        call = world.join("m", protocols={"cooperative-sticky": encode_subscription(mine)})
        return int(call.response.generation_id)

    def synced(generation: int) -> tuple[int, ...]:
        call = world.sync("m", generation)
        return decode_assignment(call.response.assignment).partitions["t"]

    modern = Consumer(world, "a", {})
    turns([modern], 1)
    joined()
    turns([modern], 2)
    generation = joined()
    assert synced(generation) == (2, 3)
    world.enter("b")
    world.enter("c")
    assert world.heartbeat("m", generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(2, 3) == generation, "it stays in its generation until it has given up"
    assert synced(generation) == (2,)
    assert world.outline()["m"] == f"{generation} unrevoked t2 -t3"
    assert world.heartbeat("m", generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(2) == world.consumer_group().epoch
    assert world.outline()["m"] == f"{world.consumer_group().epoch} stable t2"


CLASSIC_ERRORS: dict[str, tuple[str, dict[str, Any], ErrorCode]] = {
    "heartbeat of a stranger": ("heartbeat", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "heartbeat of a member of the new protocol": (
        "heartbeat",
        {"member_id": "a"},
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
    "heartbeat of another generation": ("heartbeat", {"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    "heartbeat of an unknown instance": ("heartbeat", {"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "sync of a stranger": ("sync", {"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
    "sync of another generation": ("sync", {"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    "sync for another protocol": ("sync", {"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "sync for another type": ("sync", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with too short a session": ("join", {"session_ms": 10}, ErrorCode.INVALID_SESSION_TIMEOUT),
    "join with another type": ("join", {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with other protocols": ("join", {"protocols": {"own": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "join with malformed metadata": ("join", {"protocols": {"range": b"\0"}}, ErrorCode.UNKNOWN_SERVER_ERROR),
    "join of an unknown instance": ("join", {"member_id": "x", "instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(("request_name", "fields", "error"), CLASSIC_ERRORS.values(), ids=CLASSIC_ERRORS)
def test_a_classic_request_that_is_wrong_is_refused(
    world: VirtualConsumers, request_name: str, fields: dict[str, Any], error: ErrorCode
) -> None:
    world.enter("a")
    join(world, "m")
    size = len(world.log)
    said = {"member_id": "m", **fields}
    if request_name != "join":
        said.setdefault("generation", 2)
    assert getattr(world, request_name)(**said).error is error
    assert len(world.log) == size


def test_classic_members_do_not_get_into_a_group_without_migration() -> None:
    world = VirtualConsumers(migration_policy="disabled")
    world.enter("a")
    assert join(world, "m").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_no_classic_member_either() -> None:
    world = VirtualConsumers(consumer_max_size=1)
    world.enter("a")
    assert join(world, "m").error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_both_protocols_are_removed_by_one_request(world: VirtualConsumers) -> None:
    world.enter("a")
    world.enter("b", instance_id="i")
    join(world, "m")
    left = world.leave("a", ("", "i"), ("m", None), ("x", None), ("m", "j"))
    assert [each.error_code for each in left.response.members] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert kind(world) == "consumer Empty"
    assert world.leave("m", version=1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_classic_members_commit_in_their_generation(world: VirtualConsumers) -> None:
    world.enter("a")
    join(world, "m")
    errors = [
        world.commit({("t", 0): 1}, member_id="m", generation=generation, version=5)
        .response.topics[0]
        .partitions[0]
        .error_code
        for generation in (2, 1, 3)
    ]
    assert errors == [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize("forgets", ["to join", "to sync"])
def test_a_classic_member_that_does_not_do_what_it_is_told_is_removed(
    world: VirtualConsumers, forgets: str
) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    join(world, "m", rebalance_ms=20_000)
    if forgets == "to join":
        world.sync("m", 2)
        turns([modern], 2)
    for _ in range(5):
        assert "m" in world.consumer_group().members
        world.heartbeat("m", 2)
        modern.beat()
        world.advance(4_000)
    assert "m" not in world.consumer_group().members


def test_a_classic_member_whose_joining_was_not_committed_in_time_is_removed_unless_it_comes_again(
    world: VirtualConsumers,
) -> None:
    modern = Consumer(world, "a", {})
    modern.beat()
    world.holds_commits = True
    call = join(world, "m", rebalance_ms=20_000)
    world.fail_held()
    world.holds_commits = False
    assert call.error is ErrorCode.REQUEST_TIMED_OUT
    assert "m" in world.consumer_group().members
    for _ in range(5):
        world.advance(4_000)
        modern.beat()
    assert "m" not in world.consumer_group().members


def test_a_restart_in_the_middle_of_a_migration_loses_nobody(world: VirtualConsumers) -> None:
    consumers, modern = mixed(world)
    before = world.outline()
    world.restart()
    assert world.outline() == before
    turns([modern, *consumers])
    shares(modern, *consumers)
    written = [decode_record(key, value) for key, value in world.log]
    assert sum(isinstance(each.key, GroupMetadataKey) and each.value is None for each in written) == 1
