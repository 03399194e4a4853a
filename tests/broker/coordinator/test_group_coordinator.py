"""The shard as a whole: listing, describing and deleting groups, loading, unloading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import (
    ConsumerGroupPartitionMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kcli.protocol.messages.describe_groups import DescribeGroupsResponse
from kcli.protocol.schema.declaration import codec
from tests.broker.coordinator.virtual_coordinator import SESSION_MS, VirtualCoordinator, subscription


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


# --- list and describe ---------------------------------------------------------------------------------


def test_groups_are_listed_with_state_and_type(world: VirtualCoordinator) -> None:
    world.stable(group="a")
    world.join(group="b", version=3)
    world.commit({("t", 0): 1}, group="c")
    listed = [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in world.shard.list_groups()]
    assert listed == [
        ("a", "consumer", "Stable", "classic"),
        ("b", "consumer", "CompletingRebalance", "classic"),
        ("c", "", "Empty", "classic"),
    ]


def test_a_stable_group_is_described_with_all_that_its_members_said(world: VirtualCoordinator) -> None:
    member = world.join(instance="i").response.member_id
    world.sync(member, 1, assignments={member: b"all"})
    (group,) = world.shard.describe_groups(world.now, ["g"], 5)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (described,) = group.members
    assert (described.member_id, described.group_instance_id) == (member, "i")
    assert (described.client_id, described.client_host) == ("c", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (subscription("t"), b"all")


def test_what_is_not_agreed_on_is_not_described(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    world.join(version=3)
    (group,) = world.shard.describe_groups(world.now, ["g"], 5)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [each.member_metadata for each in group.members] == [b"", b""]
    assert {each.member_id for each in group.members} == {leader, "c-id2"}


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_does_not_exist_is_dead(world: VirtualCoordinator, version: int) -> None:
    (group,) = world.shard.describe_groups(world.now, ["nothing"], version)
    assert (group.group_state, group.members) == ("Dead", [])
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert group.error_message == ("Group nothing not found." if version >= 6 else None)
    codec(DescribeGroupsResponse, version).encode(DescribeGroupsResponse(groups=[group]))


# --- delete --------------------------------------------------------------------------------------------


def test_groups_are_deleted_if_they_are_empty(world: VirtualCoordinator) -> None:
    world.stable(group="busy")
    world.commit({("t", 0): 1}, group="simple")
    _, (leader,) = world.stable(group="left")
    world.leave(leader, group="left")
    results = world.delete("busy", "simple", "left", "nothing", "left").response
    assert [(each.group_id, each.error_code) for each in results] == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("simple", 0),
        ("left", 0),
        ("nothing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert set(world.shard.groups) == {"busy"}
    world.restart()
    assert set(world.shard.groups) == {"busy"}
    assert world.offsets("simple") == {}


def test_a_group_that_rebalances_is_not_deleted(world: VirtualCoordinator) -> None:
    world.join(version=3)
    assert world.delete("g").response[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert not world.log


@pytest.mark.parametrize("written", [False, True])
def test_a_deletion_that_is_not_confirmed_says_so(world: VirtualCoordinator, written: bool) -> None:
    world.commit({("t", 0): 1})
    world.holds_commits = written
    world.append_error = None if written else ErrorCode.COORDINATOR_NOT_AVAILABLE
    call = world.delete("g", "nothing")
    world.fail_held(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [each.error_code for each in call.response] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert ("g" in world.shard.groups) is not written


def test_many_groups_with_many_offsets_are_deleted_in_steps(world: VirtualCoordinator) -> None:
    names = [f"group-{number}" for number in range(7)]
    for name in names:
        world.commit({("t", partition): 1 for partition in range(450)}, group=name)
    world.commit({("t", partition): 1 for partition in range(2_500)}, group="large")
    call = world.delete("large", *names, "nothing")
    # A group is deleted as a whole; batches have a limit.
    assert set(world.shard.groups) == set(names)
    assert call.is_parked
    # A join before its turn keeps a group.
    member_id = world.join(version=3, group=names[-1]).response.member_id
    world.advance(10)
    assert [(each.group_id, each.error_code) for each in call.response] == [
        ("large", 0),
        *((name, 0) for name in names[:-1]),
        (names[-1], ErrorCode.NON_EMPTY_GROUP),
        ("nothing", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert set(world.shard.groups) == {names[-1]}
    assert set(world.group(names[-1]).members) == {member_id}
    assert world.offsets("large") == {}
    assert len(world.offsets(names[-1])) == 450


@pytest.mark.parametrize("written", [False, True])
def test_deletions_that_a_shard_leaves_unfinished_are_answered(
    world: VirtualCoordinator, written: bool
) -> None:
    for name in "abc":
        world.commit({("t", partition): 1 for partition in range(1_200)}, group=name)
    world.holds_commits = not written
    call = world.delete("a", "b", "c")
    world.unload()
    assert [each.error_code for each in call.response] == [
        ErrorCode.NONE if written else ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
    ]
    assert not world.timers


def test_an_id_given_out_by_a_deleted_group_is_forgotten(world: VirtualCoordinator) -> None:
    given = world.join(version=9).response.member_id
    assert world.delete("g").response[0].error_code == 0
    assert not world.timers
    assert world.join(given).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_generations_of_a_group_that_is_founded_again_start_again(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    world.leave(leader)
    world.delete("g")
    assert world.join(version=3).response.generation_id == 1


# --- loading -------------------------------------------------------------------------------------------


def group_value(generation: int, *members: str) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=members[0] if members else None,
        members=[
            MemberMetadata(
                member_id=each,
                client_id="c",
                client_host="/127.0.0.1",
                session_timeout=SESSION_MS,
                subscription=subscription("t"),
                assignment=b"",
            )
            for each in members
        ],
    )


def load(world: VirtualCoordinator, *records: tuple[object, object]) -> None:
    for key, value in records:
        world.log.append((encode_key(key), None if value is None else encode_value(value)))
    world.restart()


KEY = GroupMetadataKey(group="g")


def test_the_last_record_of_a_group_counts(world: VirtualCoordinator) -> None:
    load(world, (KEY, group_value(3, "m1")), (KEY, group_value(5, "m2", "m3")))
    assert world.state() == "Stable"
    group = world.group()
    assert (group.generation, group.leader_id, set(group.members)) == (5, "m2", {"m2", "m3"})
    assert group.rebalance_timeout_ms == SESSION_MS  # older records have none of its own
    assert set(world.timers) == {("session", "g", "m2"), ("session", "g", "m3")}


def test_loaded_members_have_a_whole_session_to_show_up(world: VirtualCoordinator) -> None:
    load(world, (KEY, group_value(5, "m2", "m3")))
    world.advance(SESSION_MS - 1)
    assert world.heartbeat("m2", 5).error == ErrorCode.NONE
    world.advance(1)
    assert set(world.group().members) == {"m2"}
    assert world.join("m2", version=3).response.generation_id == 6


def test_a_loaded_leader_that_is_no_member_is_replaced(world: VirtualCoordinator) -> None:
    value = group_value(5, "m2", "m3")
    value.leader = "m1"
    load(world, (KEY, value))
    assert world.group().leader_id == "m2"


def test_of_ids_that_a_damaged_record_has_twice_the_first_counts(world: VirtualCoordinator) -> None:
    value = group_value(5, "m1", "m2", "m1", "m3")
    for member, instance in zip(value.members, ("i", "i", None, None), strict=True):
        member.group_instance_id = instance
    load(world, (KEY, value))
    assert list(world.group().members) == ["m1", "m3"]
    assert world.group().static_members == {"i": "m1"}
    world.leave(("", "i"))
    assert world.join("m3").response.generation_id == 6
    world.advance(10 * SESSION_MS)
    assert world.state() == "Empty"


def test_members_of_one_instance_id_can_both_be_removed(world: VirtualCoordinator) -> None:
    """Damaged records of a consumer group may bring them into a group that has become classic."""
    value = group_value(5, "m1", "m2")
    value.members[0].group_instance_id = "i"
    load(world, (KEY, value))
    group = world.group()
    group.add(replace(group.members["m1"], member_id="m4"))
    for member_id in ("m1", "m4", "m2"):
        assert group.remove(member_id).member_id == member_id
    assert (group.static_members, group.members) == ({}, {})


def test_a_loaded_group_without_members_is_empty(world: VirtualCoordinator) -> None:
    load(world, (KEY, group_value(5)))
    assert world.state() == "Empty"
    assert world.join(version=3).response.generation_id == 6


def test_a_deleted_group_stays_deleted(world: VirtualCoordinator) -> None:
    load(world, (KEY, group_value(5, "m2")), (KEY, None))
    assert not world.shard.groups


def test_offsets_whose_group_was_deleted_are_not_lost_and_expire(world: VirtualCoordinator) -> None:
    offset = OffsetCommitValue(offset=1, metadata="", commit_timestamp=world.now.wall_ms)
    load(world, (OffsetCommitKey(group="g", topic="t", partition=0), offset), (KEY, None))
    assert world.offsets() == {("t", 0): 1}
    world.advance(7 * 24 * 60 * 60 * 1000)
    world.perform(world.shard.expire_offsets(world.now))
    assert not world.shard.groups


def test_a_tombstone_of_an_offset_that_is_not_there_changes_nothing(world: VirtualCoordinator) -> None:
    load(world, (OffsetCommitKey(group="g", topic="t", partition=0), None))
    assert not world.shard.groups


def test_records_of_a_kind_that_says_nothing_are_passed_over(world: VirtualCoordinator) -> None:
    load(world, (ConsumerGroupPartitionMetadataKey(group_id="g"), None), (KEY, group_value(5)))
    assert world.state() == "Empty"


# --- unloading -----------------------------------------------------------------------------------------


def test_whoever_waits_is_sent_to_the_next_coordinator(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable(group="preparing")
    join = world.join(group="preparing", version=3)
    _, (one, two) = world.stable(2, group="completing")
    world.join(one, group="completing")
    generation = world.join(two, group="completing").response.generation_id
    sync = world.sync(two, generation, group="completing")
    written = len(world.log)
    world.perform(world.shard.unloaded(world.now))
    assert join.error == sync.error == ErrorCode.NOT_COORDINATOR
    assert not world.timers
    assert len(world.log) == written
    assert world.heartbeat(leader, 1, group="preparing").error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_is_being_written_when_it_ends_is_answered(world: VirtualCoordinator) -> None:
    generation, (leader, follower) = world.stable(2)
    world.join(leader)
    world.join(follower)
    world.holds_commits = True
    calls = [
        world.sync(follower, generation + 1),
        world.sync(leader, generation + 1, assignments={follower: b"all"}),
        world.commit({("t", 0): 1}, group="simple"),
    ]
    world.unload()
    assert [call.error for call in calls[:2]] == [ErrorCode.NOT_COORDINATOR] * 2
    assert calls[2].response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
