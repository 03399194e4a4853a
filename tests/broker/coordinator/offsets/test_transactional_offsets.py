"""Offsets in transactions: who may commit them, and what they change before and after the marker."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.broker.coordinator.effects import Append, BatchProducer
from kcli.broker.metadata.metadata_image import MetadataDelta, TopicImage
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import decode_record
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinator.consumer.settled_consumers import settled
from tests.broker.coordinator.virtual_consumers import VirtualConsumers
from tests.broker.coordinator.virtual_coordinator import START_WALL_MS, Call, VirtualCoordinator

WEEK_MS = 7 * 24 * 60 * 60 * 1000
T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture
def world() -> VirtualCoordinator:
    return VirtualCoordinator()


def errors(call: Call) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in call.response.topics
        for each in topic.partitions
    }


# --- who may -------------------------------------------------------------------------------------------


CLASSIC_COMMITS: dict[str, tuple[str, dict[str, Any], ErrorCode]] = {
    "no group, no member": ("none", {}, ErrorCode.NONE),
    "no group, a generation": ("none", {"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
    "no group, a member without generation": ("none", {"member_id": "x"}, ErrorCode.NONE),
    "empty, no member": ("empty", {}, ErrorCode.NONE),
    "empty, a member without generation": ("empty", {"member_id": "x"}, ErrorCode.NONE),
    "empty, a generation": ("empty", {"generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
    "stable, no member": ("stable", {}, ErrorCode.NONE),
    "stable, the member": ("stable", {"member_id": "M", "generation": 1}, ErrorCode.NONE),
    "stable, the member without generation": ("stable", {"member_id": "M"}, ErrorCode.ILLEGAL_GENERATION),
    "stable, an old generation": (
        "stable",
        {"member_id": "M", "generation": 0},
        ErrorCode.ILLEGAL_GENERATION,
    ),
    "stable, a stranger": ("stable", {"member_id": "x", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
    "stable, a generation without member": ("stable", {"generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
    "stable, the instance": (
        "stable",
        {"member_id": "M", "generation": 1, "instance": "i"},
        ErrorCode.NONE,
    ),
    "stable, the instance of another member": (
        "stable",
        {"member_id": "x", "generation": 1, "instance": "i"},
        ErrorCode.FENCED_INSTANCE_ID,
    ),
    "stable, an unknown instance": (
        "stable",
        {"member_id": "M", "generation": 1, "instance": "j"},
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
    "between join and sync, no member": ("joined", {}, ErrorCode.NONE),
    "between join and sync, the member": ("joined", {"member_id": "M", "generation": 1}, ErrorCode.NONE),
    "rebalancing, the member": ("rebalancing", {"member_id": "M", "generation": 1}, ErrorCode.NONE),
}


def classic_group(world: VirtualCoordinator, state: str) -> str:
    """Bring the group `g` into a state; return its member."""
    if state == "none":
        return ""
    joined = world.join(instance="i").response
    if state != "joined":
        world.sync(joined.member_id, 1)
    if state == "empty":
        world.leave((joined.member_id, "i"))
    if state == "rebalancing":
        world.join(version=3)
    assert (
        world.state()
        == {
            "empty": "Empty",
            "stable": "Stable",
            "joined": "CompletingRebalance",
            "rebalancing": "PreparingRebalance",
        }[state]
    )
    return str(joined.member_id)


@pytest.mark.parametrize(("state", "who", "error"), CLASSIC_COMMITS.values(), ids=CLASSIC_COMMITS)
def test_a_classic_group_checks_the_member_if_one_is_named(
    world: VirtualCoordinator, state: str, who: dict[str, Any], error: ErrorCode
) -> None:
    member_id = classic_group(world, state)
    who = {**who, "member_id": member_id} if who.get("member_id") == "M" else who
    before = list(world.log)
    assert errors(world.txn_commit({T0: 5, U0: 6}, **who)) == {T0: error, U0: error}
    assert world.unstable(T0, U0) == [not error, not error]
    assert (world.log == before) is bool(error)
    assert world.offsets() == {}


CONSUMER_COMMITS: dict[str, tuple[str, int, int, ErrorCode]] = {
    "in its epoch": ("a", 3, 0, ErrorCode.NONE),
    "behind, but it has had the partition since": ("a", 2, 0, ErrorCode.NONE),
    "behind, a partition that is not its own": ("a", 2, 2, ErrorCode.ILLEGAL_GENERATION),
    "in its epoch, a partition that is not its own": ("a", 3, 2, ErrorCode.NONE),
    "before it had the partition": ("b", 2, 2, ErrorCode.ILLEGAL_GENERATION),
    "ahead": ("a", 4, 0, ErrorCode.ILLEGAL_GENERATION),
    "without an epoch": ("a", -1, 0, ErrorCode.ILLEGAL_GENERATION),
    "by a stranger": ("x", 3, 0, ErrorCode.UNKNOWN_MEMBER_ID),
    "without a member": ("", -1, 0, ErrorCode.NONE),
    "without a member, and an odd epoch": ("", -2, 0, ErrorCode.UNKNOWN_MEMBER_ID),
    "an epoch without a member": ("", 3, 0, ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(
    ("member_id", "epoch", "partition", "error"), CONSUMER_COMMITS.values(), ids=CONSUMER_COMMITS
)
def test_a_consumer_group_checks_member_and_epoch(
    member_id: str, epoch: int, partition: int, error: ErrorCode
) -> None:
    world = VirtualConsumers()
    settled(world, "a", "b")
    call = world.txn_commit({("t", partition): 5}, member_id=member_id, generation=epoch)
    assert errors(call) == {("t", partition): error}
    assert world.unstable(("t", partition)) == [not error]


def test_an_instance_without_a_member_commits_nothing() -> None:
    world = VirtualConsumers()
    settled(world, "a", "b")
    assert errors(world.txn_commit({T0: 5}, instance="i")) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_member_that_is_behind_commits_nothing_of_an_unknown_topic() -> None:
    world = VirtualConsumers()
    settled(world, "a", "b")
    call = world.txn_commit({T0: 5, U0: 5}, member_id="a", generation=2)
    assert set(errors(call).values()) == {ErrorCode.ILLEGAL_GENERATION}


def test_an_empty_consumer_group_takes_commits_without_a_member() -> None:
    world = VirtualConsumers()
    world.enter("a")
    world.beat("a", -1)
    assert errors(world.txn_commit({T0: 5})) == {T0: ErrorCode.NONE}
    world.end_txn()
    assert world.offsets() == {T0: 5}


# --- what is written -----------------------------------------------------------------------------------


def test_one_transactional_batch_holds_all_offsets_of_a_request(world: VirtualCoordinator) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="tid",
        group_id="g",
        producer_id=7,
        producer_epoch=3,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata=None
                    )
                    for index in range(3)
                ],
            )
        ],
    )
    (append,) = world.shard.txn_offset_commit(world.now, Call("txn commit"), request, None)
    assert isinstance(append, Append)
    assert (len(append.records), append.producer) == (3, BatchProducer(7, 3))


def test_a_record_is_the_one_of_an_ordinary_commit() -> None:
    world = VirtualConsumers()
    world.commit({T0: 5}, metadata="why", committed_leader_epoch=3)
    ordinary = world.log[-1]
    world.txn_commit({T0: 5}, metadata="why", leader_epoch=3)
    key, value, _ = decode_record(*world.log[-1])
    assert (key.group, key.topic, key.partition) == ("g", "t", 0)
    assert (value.offset, value.leader_epoch, value.metadata) == (5, 3, "why")
    assert value.commit_timestamp == START_WALL_MS + world.now_ms
    assert value.topic_id == world.image.topics["t"].topic_id
    assert world.log[-1][0] == ordinary[0]


def test_long_metadata_hits_its_partition_alone() -> None:
    world = VirtualCoordinator(offset_metadata_max_bytes=10)
    assert errors(world.txn_commit({T0: 5}, metadata="x" * 11)) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert not world.log
    assert errors(world.txn_commit({T0: 5}, metadata="x" * 10)) == {T0: ErrorCode.NONE}


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_commit_that_is_not_written_changes_nothing(world: VirtualCoordinator, error: ErrorCode) -> None:
    world.append_error = error
    assert errors(world.txn_commit({T0: 5, U0: 6})) == {T0: error, U0: error}
    assert (world.unstable(T0, U0), world.log) == ([False, False], [])


def test_the_answer_waits_for_the_commit(world: VirtualCoordinator) -> None:
    world.holds_commits = True
    commit, end = world.txn_commit({T0: 5}), world.end_txn()
    assert (commit.is_parked, end.is_parked) == (True, True)
    world.commit_held()
    assert (errors(commit), end.response) == ({T0: ErrorCode.NONE}, ErrorCode.NONE)


def test_a_marker_that_is_not_written_ends_nothing(world: VirtualCoordinator) -> None:
    world.txn_commit({T0: 5})
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert world.end_txn().response == ErrorCode.NOT_COORDINATOR
    world.append_error = None
    assert world.unstable(T0) == [True]


# --- until the marker, and after it --------------------------------------------------------------------


def test_an_offset_counts_when_its_transaction_is_committed(world: VirtualCoordinator) -> None:
    world.commit({T0: 1, T1: 2})
    world.txn_commit({T0: 5, U0: 6})
    assert (world.offsets(), world.unstable(T0, T1, U0)) == ({T0: 1, T1: 2}, [True, False, True])
    assert world.end_txn().response == ErrorCode.NONE
    assert (world.offsets(), world.unstable(T0, T1, U0)) == ({T0: 5, T1: 2, U0: 6}, [False] * 3)


def test_an_offset_of_an_aborted_transaction_never_counts(world: VirtualCoordinator) -> None:
    world.commit({T0: 1})
    world.txn_commit({T0: 5, U0: 6})
    world.end_txn(commit=False)
    assert (world.offsets(), world.unstable(T0, U0)) == ({T0: 1}, [False, False])
    world.restart()
    assert world.offsets() == {T0: 1}


def test_a_transaction_may_commit_several_groups_and_more_than_once(world: VirtualCoordinator) -> None:
    world.txn_commit({T0: 5})
    world.txn_commit({T0: 6, T1: 7})
    world.txn_commit({T0: 8}, group="h")
    world.end_txn()
    assert (world.offsets("g"), world.offsets("h")) == ({T0: 6, T1: 7}, {T0: 8})


def test_a_marker_ends_the_transaction_of_its_producer_alone(world: VirtualCoordinator) -> None:
    world.txn_commit({T0: 5}, producer_id=7)
    world.txn_commit({T0: 6, T1: 6}, producer_id=8)
    world.end_txn(9)
    world.end_txn(7, commit=False)
    assert (world.offsets(), world.unstable(T0, T1)) == ({}, [True, True])
    world.end_txn(8)
    assert (world.offsets(), world.unstable(T0, T1)) == ({T0: 6, T1: 6}, [False, False])


def test_the_newest_record_wins_and_not_the_newest_marker(world: VirtualCoordinator) -> None:
    world.txn_commit({T0: 1, T1: 1, U0: 1}, producer_id=7)
    world.txn_commit({T1: 2}, producer_id=8)
    world.commit({T0: 3})
    world.end_txn(8)
    world.end_txn(7)
    assert world.offsets() == {T0: 3, T1: 2, U0: 1}


def test_what_a_transaction_writes_after_an_ordinary_commit_wins(world: VirtualCoordinator) -> None:
    world.txn_commit({T0: 1})
    world.commit({T0: 2})
    assert world.unstable(T0) == [True], "the transaction is still open"
    world.txn_commit({T0: 3})
    world.end_txn()
    assert world.offsets() == {T0: 3}


def test_readers_that_take_unstable_offsets_get_the_stored_one(world: VirtualCoordinator) -> None:
    world.commit({T0: 1})
    world.txn_commit({T0: 5, T1: 6})
    assert world.fetch("g", "t", 0, 1) == {0: 1, 1: -1}


# --- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_restart_in_the_middle_of_a_transaction_changes_nothing(
    world: VirtualCoordinator, commit: bool
) -> None:
    world.commit({T0: 1})
    world.txn_commit({T0: 5, U0: 6})
    world.commit({T1: 2})
    world.txn_commit({T1: 7}, producer_id=8, group="only pending")
    world.restart()
    assert (world.offsets(), world.unstable(T0, T1, U0)) == ({T0: 1, T1: 2}, [True, False, True])
    assert world.unstable(T1, group="only pending") == [True]
    assert set(world.shard.groups) == {"g", "only pending"}
    world.end_txn(commit=commit)
    world.restart()
    assert world.offsets() == ({T0: 5, T1: 2, U0: 6} if commit else {T0: 1, T1: 2})


# --- deletion ------------------------------------------------------------------------------------------


def test_offsets_are_deleted_with_what_is_pending(world: VirtualCoordinator) -> None:
    world.commit({T0: 1})
    world.txn_commit({T0: 5, U0: 6})
    assert errors(world.delete_offsets(T0, T1, U0)) == dict.fromkeys([T0, T1, U0], ErrorCode.NONE)
    assert [value for _, value in world.log[-2:]] == [None, None]
    assert world.unstable(T0, U0) == [False, False]
    world.end_txn()
    assert world.offsets() == {}
    world.restart()
    assert world.offsets() == {}


def test_a_group_is_deleted_with_what_is_pending(world: VirtualCoordinator) -> None:
    world.commit({T0: 1})
    world.txn_commit({T0: 5, U0: 6}, producer_id=7)
    world.txn_commit({U0: 7}, producer_id=8)
    before = len(world.log)
    assert world.delete("g").response[0].error_code == ErrorCode.NONE
    assert len(world.log) == before + 3, "an offset has one tombstone, the group another"
    world.end_txn(7)
    world.end_txn(8)
    assert not world.shard.groups
    world.restart()
    assert not world.shard.groups


def test_a_transaction_that_goes_on_after_the_deletion_of_its_group_makes_a_new_one(
    world: VirtualCoordinator,
) -> None:
    world.txn_commit({T0: 5})
    world.delete("g")
    world.txn_commit({T1: 6})
    world.end_txn()
    assert world.offsets() == {T1: 6}


def test_the_offsets_of_a_deleted_topic_go_with_what_is_pending() -> None:
    world = VirtualConsumers({"t": 2, "u": 1})
    world.commit({T0: 1})
    world.txn_commit({T0: 5, T1: 6, U0: 7})
    world.txn_commit({T1: 6}, producer_id=8, group="only pending")
    world.topics(t=0)
    assert world.unstable(T0, T1, U0) == [False, False, True]
    assert world.unstable(T1, group="only pending") == [False]
    world.end_txn()
    world.end_txn(8)
    assert (world.offsets(), world.offsets("only pending")) == ({U0: 7}, {})


def test_what_is_pending_for_a_new_topic_with_the_deleted_ones_name_stays() -> None:
    world = VirtualConsumers({"t": 2})
    old_id = world.image.topics["t"].topic_id
    world.topics(t=0)
    world.topics(t=2)
    world.txn_commit({T0: 5})
    delta = MetadataDelta(deleted_topics=(TopicImage("t", old_id, ()),))
    assert world.shard.image_changed(world.now, delta) == []
    world.end_txn()
    assert world.offsets() == {T0: 5}


# --- expiry --------------------------------------------------------------------------------------------


def expire(world: VirtualCoordinator) -> None:
    world.perform(world.shard.expire_offsets(world.now))


def test_a_stored_offset_does_not_expire_while_another_is_pending(world: VirtualCoordinator) -> None:
    world.commit({T0: 1, T1: 2})
    world.txn_commit({T0: 5})
    world.advance(WEEK_MS)
    expire(world)
    assert world.offsets() == {T0: 1}
    world.end_txn(commit=False)
    expire(world)
    assert not world.shard.groups


@pytest.mark.parametrize("commit", [True, False])
def test_pending_offsets_keep_a_group_alive(world: VirtualCoordinator, commit: bool) -> None:
    world.txn_commit({T0: 5})
    world.advance(2 * WEEK_MS)
    expire(world)
    assert list(world.shard.groups) == ["g"]
    world.end_txn(commit=commit)
    assert world.offsets() == ({T0: 5} if commit else {})
    expire(world)
    assert not world.shard.groups
