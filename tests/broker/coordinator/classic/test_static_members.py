"""JoinGroup: static members that return."""

from __future__ import annotations

import pytest

from kcli.protocol.error_codes import ErrorCode
from tests.broker.coordinator.virtual_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    VirtualCoordinator,
    subscription,
)


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


def static_group(world: VirtualCoordinator, session_ms: int = SESSION_MS) -> tuple[int, str, str]:
    """Return the generation, a static leader's id and a static follower's, instances `i` and `j`."""
    world.join(instance="i", session_ms=session_ms)
    follower = world.join(instance="j", session_ms=session_ms)
    leading = world.join(world.group().leader_id, instance="i", session_ms=session_ms).response
    leader, generation = leading.member_id, leading.generation_id
    follower_id = follower.response.member_id
    assignments = {leader: b"for i", follower_id: b"for j"}
    world.sync(leader, generation, assignments=assignments, instance="i")
    world.sync(follower_id, generation, instance="j")
    assert world.state() == "Stable"
    return generation, leader, follower_id


def test_a_static_member_is_named_after_its_instance(world: VirtualCoordinator) -> None:
    assert world.join(instance="i").response.member_id == "i-id1"


def test_a_static_follower_comes_back_without_a_rebalance(world: VirtualCoordinator) -> None:
    generation, leader, follower = static_group(world)
    back = world.join(instance="j").response
    assert (back.error_code, back.generation_id, back.leader) == (0, generation, leader)
    assert (back.members, back.skip_assignment) == ([], False)
    assert back.member_id != follower
    assert world.state() == "Stable"
    assert world.sync(back.member_id, generation, instance="j").response.assignment == b"for j"
    assert ("session", "g", follower) not in world.timers
    assert world.heartbeat(leader, generation, instance="i").error == ErrorCode.NONE


def test_a_static_leader_comes_back_and_need_not_assign(world: VirtualCoordinator) -> None:
    generation, _, _ = static_group(world)
    back = world.join(instance="i", version=9).response
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2
    assert world.sync(back.member_id, generation, instance="i").response.assignment == b"for i"


def test_an_older_static_leader_is_told_that_its_former_self_leads(world: VirtualCoordinator) -> None:
    generation, leader, _ = static_group(world)
    back = world.join(instance="i", version=8).response
    assert (back.leader, back.members, back.skip_assignment) == (leader, [], False)
    assert back.generation_id == generation
    assert world.group().leader_id == back.member_id


@pytest.mark.parametrize("request_name", ["join", "sync", "heartbeat", "leave", "commit"])
def test_the_former_self_of_a_static_member_is_fenced(world: VirtualCoordinator, request_name: str) -> None:
    generation, _, follower = static_group(world)
    world.join(instance="j")
    match request_name:
        case "join":
            error = world.join(follower, instance="j").error
        case "sync":
            error = world.sync(follower, generation, instance="j").error
        case "heartbeat":
            error = world.heartbeat(follower, generation, instance="j").error
        case "leave":
            error = world.leave((follower, "j")).response.members[0].error_code
        case _:
            call = world.commit({("t", 0): 1}, member_id=follower, generation=generation, instance="j")
            error = call.response.topics[0].partitions[0].error_code
    assert error == ErrorCode.FENCED_INSTANCE_ID


def test_what_the_former_self_waits_for_is_fenced(world: VirtualCoordinator) -> None:
    _, leader, follower = static_group(world)
    waiting = world.join(leader, instance="i")
    former = world.join(follower, instance="j", protocols={"range": b"new"})
    assert not former.is_parked  # both have joined
    late = world.sync(follower, 3, instance="j")
    assert late.is_parked
    back = world.join(instance="j")
    assert late.error == ErrorCode.FENCED_INSTANCE_ID
    assert back.is_parked  # the leader may have assigned to the former id
    assert world.join(waiting.response.member_id, instance="i").error == ErrorCode.NONE
    assert back.error == ErrorCode.NONE


def test_a_duplicate_instance_takes_a_parked_joins_place(world: VirtualCoordinator) -> None:
    static_group(world)
    world.join(version=3)
    first = world.join(instance="j")
    second = world.join(instance="j")
    assert first.error == ErrorCode.FENCED_INSTANCE_ID
    assert second.is_parked


def test_a_static_member_with_another_choice_of_protocol_rebalances(world: VirtualCoordinator) -> None:
    world.join(instance="i", protocols={"range": b"", "round": b""})
    follower = world.join(instance="j", protocols={"range": b"", "round": b""})
    leading = world.join("i-id1", instance="i", protocols={"range": b"", "round": b""}).response
    world.sync(leading.member_id, leading.generation_id, instance="i")
    world.sync(follower.response.member_id, leading.generation_id, instance="j")
    back = world.join(instance="j", protocols={"round": b""})
    assert back.is_parked
    assert world.state() == "PreparingRebalance"


def test_a_static_member_is_waited_for_while_others_join(world: VirtualCoordinator) -> None:
    _, leader, follower = static_group(world)
    newcomer = world.join(version=3, session_ms=1_800_000)
    for _ in range(12):
        world.advance(REBALANCE_MS // 12)
        world.heartbeat(leader, 2, instance="i")
        world.heartbeat(follower, 2, instance="j")
    assert newcomer.response.leader == newcomer.response.member_id
    # They have not joined in time but stay members.
    assert {each.member_id for each in newcomer.response.members} >= {leader, follower}


def test_a_rebalance_that_nobody_joins_waits_for_the_static_members(world: VirtualCoordinator) -> None:
    generation, leader, follower = static_group(world, session_ms=200_000)
    world.join(version=3)
    world.leave("c-id3")
    world.advance(REBALANCE_MS * 3)
    assert world.state() == "PreparingRebalance"
    assert set(world.group().members) == {leader, follower}
    assert world.join(instance="j", session_ms=200_000).is_parked
    world.advance(REBALANCE_MS)
    assert world.state() == "CompletingRebalance"
    assert world.group().generation == generation + 1


def test_static_members_that_never_come_back_end_with_their_sessions(world: VirtualCoordinator) -> None:
    static_group(world, session_ms=200_000)
    world.join(version=3)
    world.leave("c-id3")
    world.advance(200_000)
    assert world.state() == "Empty"
    assert not world.timers


def test_the_new_id_of_a_static_member_outlives_a_restart(world: VirtualCoordinator) -> None:
    generation, _, _ = static_group(world)
    back = world.join(instance="j").response.member_id
    world.restart()
    assert world.heartbeat(back, generation, instance="j").error == ErrorCode.NONE
    assert world.sync(back, generation, instance="j").response.assignment == b"for j"


def test_a_new_id_that_is_not_stored_is_taken_back(world: VirtualCoordinator) -> None:
    generation, _, follower = static_group(world)
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    back = world.join(instance="j", protocols={"range": b"new"}, session_ms=20_000)
    assert back.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert back.response.member_id == ""
    assert world.heartbeat(follower, generation, instance="j").error == ErrorCode.NONE
    member = world.group().members[follower]
    assert (member.session_timeout_ms, member.metadata("range")) == (SESSION_MS, subscription("t"))
    assert ("session", "g", follower) in world.timers


def test_a_rebalance_answers_a_static_member_whose_id_is_being_stored(world: VirtualCoordinator) -> None:
    generation, leader, _ = static_group(world)
    world.holds_commits = True
    back = world.join(instance="j")
    assert back.is_parked
    leading = world.join(leader, instance="i")
    assert back.response.generation_id == leading.response.generation_id == generation + 1
    world.fail_held()
    world.commit_held()
    assert back.response.member_id in world.group().members


def test_a_static_member_may_join_with_its_id(world: VirtualCoordinator) -> None:
    generation, _, follower = static_group(world)
    again = world.join(follower, instance="j").response
    assert (again.error_code, again.generation_id, again.member_id) == (0, generation, follower)
    assert world.join("other", instance="j").error == ErrorCode.FENCED_INSTANCE_ID
    assert world.join(follower, instance="unknown").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_given_to_a_dynamic_member_is_not_for_a_static_one(world: VirtualCoordinator) -> None:
    given = world.join(version=9).response.member_id
    assert world.join(given, instance="i").error == ErrorCode.UNKNOWN_MEMBER_ID
