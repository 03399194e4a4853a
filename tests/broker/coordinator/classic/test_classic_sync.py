"""SyncGroup, heartbeats, leaving, and the timers behind them."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.coordinator.effects import Reply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataValue, decode_record
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.leave_group import LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.schema.declaration import codec
from tests.broker.coordinator.virtual_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    START_WALL_MS,
    Call,
    VirtualCoordinator,
    subscription,
)

NEW_MEMBER_MS = 5 * 60 * 1000


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


def completing(world: VirtualCoordinator, **join: Any) -> tuple[int, str, str]:
    """Return generation, leader and follower of a group whose members have not synced."""
    _, (leader, follower) = world.stable(2, **join)
    world.join(leader, **join)
    generation = world.join(follower, **join).response.generation_id
    return generation, leader, follower


def last_record(world: VirtualCoordinator) -> Any:
    return decode_record(*world.log[-1])


# --- the assignment ------------------------------------------------------------------------------------


def test_followers_wait_for_the_leader(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world)
    waiting = world.sync(follower, generation)
    assert waiting.is_parked
    leading = world.sync(leader, generation, assignments={leader: b"some", follower: b"\x00rest"})
    assert leading.response.assignment == b"some"
    assert waiting.response.assignment == b"\x00rest"
    assert (waiting.response.protocol_type, waiting.response.protocol_name) == ("consumer", "range")


def test_a_generation_is_stored_before_anybody_has_its_assignment(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world)
    world.holds_commits = True
    calls = [world.sync(follower, generation), world.sync(leader, generation, assignments={follower: b"all"})]
    assert all(call.is_parked for call in calls)
    assert world.state() == "CompletingRebalance"
    world.commit_held()
    assert [call.response.assignment for call in calls] == [b"all", b""]
    assert world.state() == "Stable"


def test_the_record_holds_the_whole_generation(world: VirtualCoordinator) -> None:
    both = {"range": subscription("t"), "round": b"\xff"}
    generation, leader, follower = completing(world, protocols=both)
    world.sync(leader, generation, assignments={leader: b"some", "stranger": b"more"})
    key, value, version = last_record(world)
    assert (key.group, version) == ("g", 3)
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.protocol, value.leader, value.generation) == (
        "consumer",
        "range",
        leader,
        generation,
    )
    assert value.current_state_timestamp == START_WALL_MS + 1_000_000
    stored = {each.member_id: (each.subscription, each.assignment) for each in value.members}
    assert stored == {leader: (subscription("t"), b"some"), follower: (subscription("t"), b"")}
    first = value.members[0]
    assert (first.client_id, first.client_host) == ("c", "/127.0.0.1")
    assert (first.session_timeout, first.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)


@pytest.mark.parametrize("written", [False, True])
def test_an_assignment_that_is_not_stored_is_forgotten(world: VirtualCoordinator, written: bool) -> None:
    generation, leader, follower = completing(world)
    waiting = world.sync(follower, generation)
    world.holds_commits = written
    world.append_error = None if written else ErrorCode.NOT_COORDINATOR
    leading = world.sync(leader, generation, assignments={follower: b"all"})
    if written:
        world.fail_held(ErrorCode.NOT_COORDINATOR)
    assert waiting.error == leading.error == ErrorCode.NOT_COORDINATOR
    assert world.state() == "PreparingRebalance"
    assert {member.assignment for member in world.group().members.values()} == {b""}
    assert world.heartbeat(follower, generation).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_overtakes_an_assignment_that_is_being_stored(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world)
    world.holds_commits = True
    waiting = world.sync(follower, generation)
    leading = world.sync(leader, generation, assignments={follower: b"all"})
    world.join(version=3)
    assert waiting.error == leading.error == ErrorCode.REBALANCE_IN_PROGRESS
    world.commit_held()
    assert world.state() == "PreparingRebalance"


def test_a_leader_cannot_assign_twice_in_a_generation(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world)
    world.holds_commits = True
    first = world.sync(leader, generation, assignments={follower: b"first"})
    again = world.sync(leader, generation, assignments={follower: b"second"})
    assert first.error == ErrorCode.REBALANCE_IN_PROGRESS
    written = len(world.log)
    world.commit_held()
    assert again.error == ErrorCode.NONE
    assert world.sync(follower, generation).response.assignment == b"first"
    assert len(world.log) == written


def test_assignments_outlive_a_restart(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    world.restart()
    assert world.state() == "Stable"
    assert world.sync(follower, generation).response.assignment == f"for {follower}".encode()
    assert world.heartbeat(leader, generation).error == ErrorCode.NONE
    assert world.join(follower).response.generation_id == generation


@pytest.mark.parametrize(
    ("named", "error"),
    [
        (("consumer", "range"), ErrorCode.NONE),
        (("consumer", "round"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (("connect", "range"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ((None, "range"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (("consumer", None), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_version_5_must_name_the_protocol(
    world: VirtualCoordinator, named: tuple[str | None, str | None], error: ErrorCode
) -> None:
    generation, (leader,) = world.stable()
    call = world.sync(leader, generation, protocol_type=named[0], protocol=named[1], version=5)
    assert call.error == error


@pytest.mark.parametrize("version", range(6))
def test_every_answer_fits_every_version(world: VirtualCoordinator, version: int) -> None:
    generation, (leader,) = world.stable()
    for member in (leader, "stranger"):
        call = world.sync(member, generation, protocol_type="consumer", protocol="range", version=version)
        codec(SyncGroupResponse, version).encode(call.response)


# --- timers --------------------------------------------------------------------------------------------


def test_a_member_without_heartbeats_is_removed(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(leader, generation).error == ErrorCode.NONE
    world.advance(1)
    assert world.state() == "PreparingRebalance"
    assert set(world.group().members) == {leader}
    assert world.heartbeat(follower, generation).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_touches_no_timer(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    world.advance(1_000)
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=leader)
    effects = world.shard.heartbeat(world.now, Call("heartbeat"), request)
    assert [type(effect) for effect in effects] == [Reply]


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "sync", "commit", "join"])
def test_signs_of_life(world: VirtualCoordinator, sign_of_life: str) -> None:
    generation, (leader, follower) = world.stable(2)
    for _ in range(5):
        world.advance(SESSION_MS * 3 // 4)
        world.heartbeat(leader, generation)
        match sign_of_life:
            case "heartbeat":
                world.heartbeat(follower, generation)
            case "sync":
                world.sync(follower, generation)
            case "commit":
                world.commit({("t", 0): 1}, member_id=follower, generation=generation)
            case _:
                world.join(leader)
                generation = world.join(follower).response.generation_id
                world.sync(leader, generation)
    assert set(world.group().members) == {leader, follower}


def test_who_waits_for_the_group_is_not_asked_for_heartbeats(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    waiting = world.join(leader)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        world.heartbeat(follower, generation)
    assert waiting.is_parked
    world.join(follower)
    assert waiting.error == ErrorCode.NONE
    world.advance(SESSION_MS - 1)
    assert leader in world.group().members
    world.advance(1)
    assert not world.group().members


def test_a_heartbeat_counts_while_the_group_prepares(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    world.join(leader)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(follower, generation).error == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(SESSION_MS - 1)
    assert follower in world.group().members


def test_a_new_members_join_is_parked_for_five_minutes_at_most(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable(rebalance_ms=1_000_000, session_ms=1_000_000)
    newcomer = world.join(version=3)
    world.advance(NEW_MEMBER_MS - 1)
    assert newcomer.is_parked
    world.advance(1)
    assert newcomer.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer.response.member_id == ""
    assert set(world.group().members) == {leader}


def test_who_joins_and_never_syncs_is_removed(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world, session_ms=1_000_000)
    waiting = world.sync(follower, generation)
    world.advance(REBALANCE_MS)
    assert waiting.error == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(world.group().members) == {follower}
    assert world.group().leader_id == follower
    assert world.heartbeat(leader, generation).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_never_syncs_is_removed_from_a_stable_group(world: VirtualCoordinator) -> None:
    generation, leader, _ = completing(world, session_ms=1_000_000)
    world.sync(leader, generation)
    assert world.state() == "Stable"
    world.advance(REBALANCE_MS)
    assert world.state() == "PreparingRebalance"
    assert set(world.group().members) == {leader}


def test_a_shorter_session_counts_from_the_join_that_asks_for_it(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable(session_ms=1_000_000)
    world.join(leader, session_ms=6_000)
    world.advance(6_000)
    assert world.state() == "Empty"


# --- leaving -------------------------------------------------------------------------------------------


def test_the_last_member_leaves_an_empty_group_behind(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    (left,) = world.leave(leader).response.members
    assert (left.member_id, left.error_code) == (leader, 0)
    assert world.state() == "Empty"
    assert not world.timers
    _, value, _ = last_record(world)
    assert (value.generation, value.members, value.leader, value.protocol) == (generation + 1, [], None, None)
    assert value.protocol_type == "consumer"


def test_an_empty_group_that_is_not_stored_is_empty_all_the_same(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.leave(leader).response.members[0].error_code == 0
    assert world.state() == "Empty"
    world.restart()
    assert world.state() == "Stable"
    assert world.heartbeat(leader, generation).error == ErrorCode.NONE


def test_members_leave_together_in_one_rebalance(world: VirtualCoordinator) -> None:
    generation, (leader, *others) = world.stable(3)
    left = world.leave(*others, "stranger").response
    assert left.error_code == 0
    assert [each.error_code for each in left.members] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group().generation == generation
    assert world.join(leader).response.generation_id == generation + 1


def test_a_tool_removes_static_members_by_their_instance(world: VirtualCoordinator) -> None:
    member = world.join(instance="i").response.member_id
    left = world.leave(("", "i"), ("", "j"), ("", None), ("wrong", "i")).response.members
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in left] == [
        ("", "i", 0),
        ("", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("wrong", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert member not in world.group().members


def test_a_static_member_leaves_only_as_who_it_is_now(world: VirtualCoordinator) -> None:
    world.join(instance="i")
    assert world.leave(("wrong", "i")).response.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", range(6))
def test_a_leave_is_answered_in_every_version(world: VirtualCoordinator, version: int) -> None:
    _, (leader,) = world.stable()
    gone = world.leave(leader, version=version).response
    again = world.leave(leader, version=version).response
    assert (gone.error_code, bool(gone.members)) == (0, version >= 3)
    assert again.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if version < 3 else 0)
    codec(LeaveGroupResponse, version).encode(again)


def test_what_a_leaver_waits_for_is_answered(world: VirtualCoordinator) -> None:
    generation, leader, follower = completing(world)
    sync = world.sync(follower, generation)
    world.leave(follower)
    assert sync.error == ErrorCode.UNKNOWN_MEMBER_ID
    join = world.join(version=3)
    world.leave("c-id3")
    assert join.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(world.group().members) == {leader}


def test_the_oldest_member_succeeds_a_leader_that_leaves(world: VirtualCoordinator) -> None:
    generation, (leader, second, third) = world.stable(3)
    world.leave(leader)
    joins = [world.join(third), world.join(second)]
    assert {join.response.leader for join in joins} == {second}
    assert joins[0].response.generation_id == generation + 1
