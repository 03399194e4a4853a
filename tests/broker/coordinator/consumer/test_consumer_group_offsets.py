"""Consumer groups: description, offsets, deletion."""

from __future__ import annotations

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from tests.broker.coordinator.consumer.settled_consumers import settled
from tests.broker.coordinator.virtual_consumers import Consumer, VirtualConsumers


@pytest.fixture
def world() -> VirtualConsumers:
    return VirtualConsumers()


def test_a_group_is_described_with_what_its_members_have_and_are_to_have(world: VirtualConsumers) -> None:
    first, second = Consumer(world, "a", {}, keeps=True), Consumer(world, "b", {"server_assignor": "range"})
    first.beat()
    second.beat()
    first.beat()
    group, missing = world.shard.consumer_group_describe(world.now, ["g", "none"])
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
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
    assert told == {"a": (2, [("t", [0, 1, 2, 3])], [("t", [0, 1])], 1), "b": (3, [], [("t", [2, 3])], 1)}
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
    "in its epoch": ("a", 3, 9, ErrorCode.NONE),
    "behind, but it has had the partition since": ("a", 2, 9, ErrorCode.NONE),
    "before it had the partition": ("b", 2, 9, ErrorCode.STALE_MEMBER_EPOCH),
    "ahead": ("a", 4, 9, ErrorCode.STALE_MEMBER_EPOCH),
    "by an old request": ("a", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    "by a stranger": ("x", 3, 9, ErrorCode.UNKNOWN_MEMBER_ID),
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
        return int(world.shard.offset_fetch(asked).error_code)

    assert [fetch(None, -1), fetch("a", 2), fetch("a", 1), fetch("x", 2)] == [
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
    assert world.enter("a").response.member_epoch == 2


def test_an_empty_group_goes_with_its_last_offset(world: VirtualConsumers) -> None:
    world.enter("a")
    world.commit({("t", 0): 7}, member_id="a", generation=2)
    world.now_ms += 8 * 24 * 3600 * 1000
    world.perform(world.shard.expire_offsets(world.now))
    assert world.offsets() == {("t", 0): 7}, "a member reads the topic"
    world.beat("a", -1)
    world.perform(world.shard.expire_offsets(world.now))
    assert "g" not in world.shard.groups
    assert world.offsets() == {}
