"""Groups that change their protocol while members work."""

from __future__ import annotations

import pytest

from kcli.broker.coordinator.classic.group import ClassicGroup
from kcli.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from kcli.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.consumer.migrating_members import classics, kind, mixed, shares, turns
from tests.broker.coordinator.virtual_classic_consumer import ClassicConsumer
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


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
    assert (call.response.member_epoch, world.given(call)) == (2, "t0 t1 t2 t3")
    assert world.offsets() == {("t", 1): 5}
    world.restart()
    assert kind(world) == "consumer Stable"


# --- downgrade ---------------------------------------------------------------------------------------


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
        # Otherwise classic members could not join again.
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
