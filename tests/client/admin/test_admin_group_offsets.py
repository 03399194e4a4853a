"""Committed offsets are read for several groups at once, set for an idle group, and deleted."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client import admin
from kcli.client.admin import CommittedOffset, TopicPartition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.fake_brokers import fake_cluster

OFFSET_FETCH = 9
ORDERS = [TopicPartition("orders", index) for index in range(3)]


def fetched(group_id: str, *entries: tuple[int, int, int], code: int = 0) -> OffsetFetchResponseGroup:
    """Return one group's response from version 8 on: partitions of `orders` as (offset, epoch, code)."""
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            metadata="m",
            error_code=error,
        )
        for index, (offset, epoch, error) in enumerate(entries)
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)] if partitions else []
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=code)


def fetched_alone(*entries: tuple[int, int], code: int = 0) -> OffsetFetchResponse:
    """Return the response before version 8: partitions of `orders` as (offset, code)."""
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=offset, metadata="", error_code=error
        )
        for index, (offset, error) in enumerate(entries)
    ]
    topics = [OffsetFetchResponseTopic(name="orders", partitions=partitions)] if partitions else []
    return OffsetFetchResponse(topics=topics, error_code=code)


# --- read ------------------------------------------------------------------------------------------------


async def test_the_groups_of_one_coordinator_are_asked_about_together(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):
        brokers.coordinators = {"a": 1, "b": 1, "c": 2}

        def answer(node_id: int, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
            assert version == 9  # the last version with topic names
            known = {
                "a": fetched("a", (5, 2, 0), (-1, -1, 0), (7, -1, 0)),
                "b": fetched("b", code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
                "c": fetched("c", (-1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT)),
            }
            return OffsetFetchResponse(groups=[known[group.group_id] for group in request.groups])

        brokers.script(OffsetFetchRequest, answer, answer)
        found = await admin.list_group_offsets(
            client, {"a": ORDERS, "b": None, "c": ORDERS[:1]}, require_stable=True
        )
        assert found["a"] == {
            ORDERS[0]: CommittedOffset(5, 2, "m"),
            ORDERS[1]: None,
            ORDERS[2]: CommittedOffset(7, None, "m"),
        }
        refused = found["b"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert isinstance(found["c"], dict)
        unstable = found["c"][ORDERS[0]]
        assert isinstance(unstable, KafkaError)
        assert unstable.code is ErrorCode.UNSTABLE_OFFSET_COMMIT
        requests = brokers.received(OffsetFetchRequest)
        asked = [[(group.group_id, group.topics) for group in request.groups] for request in requests]
        (first,) = [groups for groups in asked if len(groups) == 2]
        assert first[0][1][0].partition_indexes == [0, 1, 2]
        assert first[1] == ("b", None)
        assert all(request.require_stable for request in requests)


@pytest.mark.parametrize("version", [2, 6, 7])
async def test_older_brokers_are_asked_about_one_group_after_the_other(
    version: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.max_versions[OFFSET_FETCH] = version
        brokers.disconnect(1)
        brokers.script(OffsetFetchRequest, fetched_alone((5, 0)), fetched_alone(code=30))
        found = await admin.list_group_offsets(client, {"a": None, "b": None}, require_stable=True)
        assert found["a"] == {ORDERS[0]: CommittedOffset(5)}
        assert isinstance(found["b"], KafkaError)
        requests = brokers.received(OffsetFetchRequest)
        assert [(request.group_id, request.topics) for request in requests] == [("a", None), ("b", None)]
        assert requests[0].require_stable is (version == 7)


async def test_version_1_tells_a_groups_error_in_each_partition(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.max_versions[OFFSET_FETCH] = 1
        brokers.disconnect(1)
        brokers.script(
            OffsetFetchRequest,
            fetched_alone((-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (-1, 14)),
            fetched_alone((5, 0), (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
        )
        found = (await admin.list_group_offsets(client, {"a": ORDERS[:2]}))["a"]
        assert isinstance(found, dict)
        assert found[ORDERS[0]] == CommittedOffset(5)
        assert isinstance(found[ORDERS[1]], KafkaError)
        with_all = (await admin.list_group_offsets(client, {"a": None}))["a"]
        assert isinstance(with_all, KafkaError)
        assert with_all.code is ErrorCode.UNSUPPORTED_VERSION


# --- set -------------------------------------------------------------------------------------------------


def committing(*codes: int) -> Any:
    """Return a script that answers the partitions of a commit with these codes in turn."""

    def answer(node_id: int, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        remaining = iter(codes)
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=entry.partition_index, error_code=next(remaining)
                        )
                        for entry in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


async def test_offsets_are_committed_outside_of_any_generation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(OffsetCommitRequest, committing(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        altered = await admin.alter_group_offsets(
            client, "a", {ORDERS[0]: CommittedOffset(5, 3, "m"), ORDERS[1]: CommittedOffset(6)}
        )
        assert altered[ORDERS[0]] is None
        assert altered[ORDERS[1]] is not None
        (received,) = [entry for entry in brokers.requests if isinstance(entry.request, OffsetCommitRequest)]
        assert received.version == 9
        entries = received.request.topics[0].partitions
        assert [
            (entry.committed_offset, entry.committed_leader_epoch, entry.committed_metadata)
            for entry in entries
        ] == [(5, 3, "m"), (6, -1, "")]


async def test_only_what_a_coordinator_could_not_commit_yet_is_sent_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2) as (brokers, client):

        def moved(node_id: int, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
            brokers.coordinators["a"] = 2
            return committing(0, ErrorCode.NOT_COORDINATOR)(node_id, request, version)  # type: ignore[no-any-return]

        brokers.script(OffsetCommitRequest, moved, committing(ErrorCode.REBALANCE_IN_PROGRESS), committing(0))
        altered = await admin.alter_group_offsets(client, "a", dict.fromkeys(ORDERS[:2], CommittedOffset(5)))
        assert altered == {ORDERS[0]: None, ORDERS[1]: None}
        sent = [entry for entry in brokers.requests if isinstance(entry.request, OffsetCommitRequest)]
        assert [entry.node_id for entry in sent] == [1, 2, 2]
        assert [len(entry.request.topics[0].partitions) for entry in sent] == [2, 1, 1]


async def test_a_group_with_members_refuses(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(OffsetCommitRequest, committing(ErrorCode.UNKNOWN_MEMBER_ID))
        refused = (await admin.alter_group_offsets(client, "a", {ORDERS[0]: CommittedOffset(5)}))[ORDERS[0]]
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert len(brokers.received(OffsetCommitRequest)) == 1


# --- delete ----------------------------------------------------------------------------------------------


async def test_offsets_are_deleted_partition_by_partition(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        answer = OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name="orders",
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=1, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                        ),
                        OffsetDeleteResponsePartition(partition_index=0),
                    ],
                )
            ]
        )
        later = OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, topics=[])
        brokers.script(OffsetDeleteRequest, later, answer)
        deleted = await admin.delete_group_offsets(client, "a", ORDERS)
        assert list(deleted) == ORDERS
        assert deleted[ORDERS[0]] is None
        codes = [error.code for error in deleted.values() if error is not None]
        assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_SERVER_ERROR]


async def test_deleting_the_offsets_of_no_group_raises(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (brokers, client):
        brokers.script(OffsetDeleteRequest, OffsetDeleteResponse(error_code=69, topics=[]))
        with pytest.raises(KafkaError, match="no such group"):
            await admin.delete_group_offsets(client, "a", ORDERS)
