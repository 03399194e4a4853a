"""Committed offsets: commit, fetch, delete."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.coordinator.effects import Append, Cancel
from kcli.broker.coordinator.offsets.offset_cleanup import DELETED_TOPICS_KEY, TOPIC_TOMBSTONES_PER_STEP
from kcli.broker.metadata.metadata_image import MetadataDelta, TopicImage
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.broker.coordinator.virtual_coordinator import START_WALL_MS, Call, VirtualCoordinator

WALL_MS = START_WALL_MS + 1_000_000
OLD_ID, NEW_ID = b"the old topic id", b"the new topic id"


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


def errors(call: Call) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in call.response.topics
        for each in topic.partitions
    }


def stored(world: VirtualCoordinator) -> Any:
    return decode_record(*world.log[-1])


# --- commit --------------------------------------------------------------------------------------------


def test_one_append_holds_all_offsets_of_a_request(world: VirtualCoordinator) -> None:
    world.holds_commits = True
    call = world.commit({("t", 0): 1, ("u", 3): 2, ("t", 1): 3})
    assert call.is_parked
    assert len(world.held) == 1
    world.commit_held()
    assert errors(call) == {("t", 0): 0, ("t", 1): 0, ("u", 3): 0}
    assert world.offsets() == {("t", 0): 1, ("t", 1): 3, ("u", 3): 2}


def test_a_commit_keeps_all_that_it_says(world: VirtualCoordinator) -> None:
    world.commit({("t", 7): 5}, metadata="why", committed_leader_epoch=3)
    key, value, _ = stored(world)
    assert (key.group, key.topic, key.partition) == ("g", "t", 7)
    assert (value.offset, value.leader_epoch, value.metadata) == (5, 3, "why")
    assert (value.commit_timestamp, value.expire_timestamp) == (WALL_MS, -1)
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    (topic,) = world.shard.offset_fetch(asked).topics
    (found,) = topic.partitions
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (5, 3, "why")


@pytest.mark.parametrize(
    ("fields", "committed_ms", "expires_ms"),
    [
        ({}, WALL_MS, -1),
        ({"commit_timestamp": 77, "version": 1}, 77, -1),
        ({"retention_time_ms": 5_000, "version": 2}, WALL_MS, WALL_MS + 5_000),
        ({"retention_time_ms": 0, "version": 4}, WALL_MS, WALL_MS),
        ({"retention_time_ms": 2**63 - 1, "version": 4}, WALL_MS, 2**63 - 1),
        ({"metadata": None}, WALL_MS, -1),
    ],
)
def test_times_of_old_clients(
    world: VirtualCoordinator, fields: dict[str, Any], committed_ms: int, expires_ms: int
) -> None:
    world.commit({("t", 0): 5}, **fields)
    _, value, _ = stored(world)
    assert (value.commit_timestamp, value.expire_timestamp) == (committed_ms, expires_ms)
    assert value.metadata == ""


@pytest.mark.parametrize(
    ("metadata", "fits"),
    [("x" * 10, True), ("x" * 11, False), ("ä" * 10, True), ("😀" * 5, True), ("😀" * 6, False)],
)
def test_long_metadata_hits_its_partition_alone(metadata: str, fits: bool) -> None:
    world = VirtualCoordinator(offset_metadata_max_bytes=10)
    call = world.commit({("t", 0): 5}, metadata=metadata)
    assert errors(call) == {("t", 0): 0 if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert bool(world.log) is fits
    if not fits:
        assert not world.shard.groups


def test_offsets_count_only_once_they_are_written(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 5})
    world.append_error = ErrorCode.UNKNOWN_SERVER_ERROR
    assert errors(world.commit({("t", 0): 9, ("t", 1): 9})) == {("t", 0): -1, ("t", 1): -1}
    assert world.offsets() == {("t", 0): 5}


def test_a_commit_without_a_group_makes_a_simple_one(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 5}, version=0)
    (listed,) = world.shard.list_groups()
    assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")
    assert world.group().protocol_type is None
    assert world.join(version=3).error == ErrorCode.NONE
    assert world.group().protocol_type is not None


def test_offsets_outlive_a_restart(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    for offset in (5, 9):
        world.commit({("t", 0): offset, ("t", 1): 1}, member_id=leader, generation=generation)
    world.commit({("u", 0): 2}, group="simple")
    world.restart()
    assert world.offsets() == {("t", 0): 9, ("t", 1): 1}
    assert world.offsets("simple") == {("u", 0): 2}


def test_static_members_commit_as_who_they_are(world: VirtualCoordinator) -> None:
    joined = world.join(instance="i").response
    world.sync(joined.member_id, 1)
    fenced = world.commit({("t", 0): 5}, member_id="other", generation=1, instance="i")
    assert errors(fenced) == {("t", 0): ErrorCode.FENCED_INSTANCE_ID}
    taken = world.commit({("t", 0): 5}, member_id=joined.member_id, generation=1, instance="i")
    assert errors(taken) == {("t", 0): ErrorCode.NONE}


def test_an_instance_without_a_generation_is_a_member_that_must_say_so(world: VirtualCoordinator) -> None:
    joined = world.join(instance="i").response
    world.sync(joined.member_id, 1)
    call = world.commit({("t", 0): 5}, instance="i", member_id=joined.member_id)
    assert errors(call) == {("t", 0): ErrorCode.ILLEGAL_GENERATION}


# --- fetch ---------------------------------------------------------------------------------------------


def fetch(world: VirtualCoordinator, topic_id: bytes) -> int:
    topics = [OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id="g", topics=topics)
    found = world.shard.offset_fetch(asked)
    assert found.topics[0].topic_id == topic_id
    return found.topics[0].partitions[0].committed_offset


def test_what_nobody_committed_is_told_as_none(world: VirtualCoordinator) -> None:
    assert world.fetch("nothing", "t", 0, 1) == {0: -1, 1: -1}
    assert world.offsets("nothing") == {}
    world.commit({("t", 1): 5})
    assert world.fetch("g", "t", 0, 1) == {0: -1, 1: 5}
    assert world.fetch("g", "u", 0) == {0: -1}


def commit_with_id(world: VirtualCoordinator, topic_id: bytes, offset: int) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic])
    call = world.call("commit", lambda now, call: world.shard.offset_commit(now, call, request, 10))
    assert call.response.topics[0].topic_id == topic_id


def test_an_offset_is_that_of_the_topic_and_not_of_its_namesake(world: VirtualCoordinator) -> None:
    commit_with_id(world, OLD_ID, 5)
    assert fetch(world, OLD_ID) == 5
    assert fetch(world, NEW_ID) == -1
    assert fetch(world, bytes(16)) == 5


# --- delete --------------------------------------------------------------------------------------------


def test_offsets_are_deleted_of_topics_that_nobody_reads(world: VirtualCoordinator) -> None:
    generation, (leader,) = world.stable()
    world.commit({("t", 0): 1, ("u", 0): 2, ("u", 1): 3}, member_id=leader, generation=generation)
    call = world.delete_offsets(("t", 0), ("u", 0), ("u", 9))
    assert call.error == ErrorCode.NONE
    assert errors(call) == {
        ("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("u", 0): ErrorCode.NONE,
        ("u", 9): ErrorCode.NONE,
    }
    assert world.offsets() == {("t", 0): 1, ("u", 1): 3}
    world.restart()
    assert world.offsets() == {("t", 0): 1, ("u", 1): 3}


def test_nothing_is_deleted_where_subscriptions_cannot_be_read(world: VirtualCoordinator) -> None:
    for group, metadata in (("malformed", b"\x00\x01\xff"), ("silent", b"")):
        world.commit({("t", 0): 1}, group=group)
        world.stable(group=group, protocols={"range": metadata})
        call = world.delete_offsets(("t", 0), group=group)
        assert errors(call) == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_who_may_not_delete_offsets(world: VirtualCoordinator) -> None:
    assert world.delete_offsets(("t", 0), group="nothing").error == ErrorCode.GROUP_ID_NOT_FOUND
    world.stable(protocol_type="connect", protocols={"x": b""})
    assert world.delete_offsets(("t", 0)).error == ErrorCode.NON_EMPTY_GROUP


def test_all_offsets_of_an_empty_group_may_be_deleted(world: VirtualCoordinator) -> None:
    _, (leader,) = world.stable()
    world.leave(leader)
    world.commit({("t", 0): 1})
    assert errors(world.delete_offsets(("t", 0))) == {("t", 0): ErrorCode.NONE}
    assert world.offsets() == {}


def test_a_deletion_that_is_not_written_deletes_nothing(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1})
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert world.delete_offsets(("t", 0)).error == ErrorCode.NOT_COORDINATOR
    assert world.offsets() == {("t", 0): 1}


def test_the_offsets_of_a_deleted_topic_go(world: VirtualCoordinator) -> None:
    world.commit({("t", 0): 1, ("u", 0): 2})
    world.commit({("t", 5): 1}, group="h")
    delta = MetadataDelta(deleted_topics=(TopicImage("t", OLD_ID, ()),))
    world.perform(world.shard.image_changed(world.now, delta))
    assert (world.offsets(), world.offsets("h")) == ({("u", 0): 2}, {})


def test_many_offsets_of_deleted_topics_go_in_steps(world: VirtualCoordinator) -> None:
    for name in "gh":
        world.commit({("t", partition): 1 for partition in range(450)}, group=name)
        world.commit({("u", 0): 1, ("v", 0): 1}, group=name)
    deleted = tuple(TopicImage(name, OLD_ID, ()) for name in "tu")
    effects = world.shard.image_changed(world.now, MetadataDelta(deleted_topics=deleted))
    world.perform(effects)
    (append,) = (effect for effect in effects if isinstance(effect, Append))
    assert len(append.records) == TOPIC_TOMBSTONES_PER_STEP
    assert len(world.offsets("g")) + len(world.offsets("h")) == 904 - TOPIC_TOMBSTONES_PER_STEP
    # Another topic is deleted meanwhile, and one with the name of the first is created.
    world.perform(
        world.shard.image_changed(world.now, MetadataDelta(deleted_topics=(TopicImage("v", OLD_ID, ()),)))
    )
    commit_with_id(world, NEW_ID, 5)
    world.advance(20)
    assert (world.offsets(), world.offsets("h")) == ({("t", 0): 5}, {})
    assert not world.timers
    world.restart()
    assert (world.offsets(), world.offsets("h")) == ({("t", 0): 5}, {})


def test_offsets_of_a_deleted_topic_that_cannot_be_deleted_are_left_to_expire(
    world: VirtualCoordinator,
) -> None:
    world.commit({("t", partition): 1 for partition in range(450)})
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    delta = MetadataDelta(deleted_topics=(TopicImage("t", OLD_ID, ()),))
    world.perform(world.shard.image_changed(world.now, delta))
    world.advance(100)
    assert not world.timers
    assert len(world.offsets()) == 450


def test_a_shard_that_goes_leaves_the_offsets_of_deleted_topics(world: VirtualCoordinator) -> None:
    world.commit({("t", partition): 1 for partition in range(450)})
    delta = MetadataDelta(deleted_topics=(TopicImage("t", OLD_ID, ()),))
    world.perform(world.shard.image_changed(world.now, delta))
    effects = world.shard.unloaded(world.now)
    assert Cancel(DELETED_TOPICS_KEY) in effects


def test_the_offsets_of_a_new_topic_with_the_deleted_ones_name_stay(world: VirtualCoordinator) -> None:
    commit_with_id(world, NEW_ID, 5)
    delta = MetadataDelta(deleted_topics=(TopicImage("t", OLD_ID, ()),))
    assert world.shard.image_changed(world.now, delta) == []
