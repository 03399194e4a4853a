"""Fetch: limits, waiting, sessions, isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.broker.handlers.produce.test_produce import with_follower
from tests.broker.records import (
    batch,
    fetch_request,
    fetched,
    fill,
    offsets,
    produce_request,
    values,
)
from tests.broker.single_node import START_MS, Client, Node, connected, running_node
from tests.support.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN_ID = bytes(range(16))


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "error", "expected"),
    [(0, 0, [0, 1, 2]), (2, 0, [2]), (3, 0, []), (4, 1, []), (-1, 1, [])],
)
async def test_offsets_within_the_log_are_read(
    offset: int, error: int, expected: list[int], tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a", b"b", b"c")
        data = fetched(await client.ask(fetch_request("t", offset), 12))
        assert (data.error_code, offsets(data)) == (error, expected)


async def test_the_first_batch_comes_whatever_the_limits(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a" * 50_000, b"b" * 50_000)
        for version in (3, 4, 12):
            request = fetch_request("t", max_bytes=1)
            request.max_bytes = 1
            data = fetched(await client.ask(request, version))
            assert [len(value or b"") for _, value in values(data)] == [50_000]


async def test_partitions_share_the_budget_in_request_order(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=4)
        for index in (0, 2, 3):
            await fill(client, "t", b"v" * 1000, b"v" * 1000, index=index)
        size = len(batch(b"v" * 1000))

        async def sizes(order: list[int], max_bytes: int, partition_max_bytes: int) -> list[int]:
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=max_bytes,
                topics=[
                    FetchTopic(
                        topic="t",
                        partitions=[
                            FetchPartition(
                                partition=index, fetch_offset=0, partition_max_bytes=partition_max_bytes
                            )
                            for index in order
                        ],
                    )
                ],
            )
            response = await client.ask(request, 12)
            rows = response.responses[0].partitions
            assert [row.partition_index for row in rows] == order
            return [len(bytes(row.records)) for row in rows]

        assert await sizes([1, 0, 2, 3], 2**31 - 1, 10_000) == [0, 2 * size, 2 * size, 2 * size]
        assert await sizes([1, 0, 2, 3], 2**31 - 1, 1) == [0, size, 0, 0]
        assert await sizes([3, 2, 1, 0], 3 * size, 10_000) == [2 * size, size, 0, 0]
        # What is left is smaller than a batch: nothing rather than a part.
        assert await sizes([3, 2, 1, 0], 2 * size + 100, 10_000) == [2 * size, 0, 0, 0]


async def test_large_and_small_slices_arrive_whole(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        contents = [b"%07d" % n * size for n, size in enumerate([1, 10_000, 3, 100_000, 2, 20])]
        await fill(client, "t", *contents)
        for offset, expected in enumerate(contents):
            data = fetched(await client.ask(fetch_request("t", offset, max_bytes=1), 12))
            assert values(data) == [(offset, expected)]
        data = fetched(await client.ask(fetch_request("t", max_bytes=10 << 20), 12))
        assert [value for _, value in values(data)] == contents


async def test_a_slice_outlives_its_topic(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        await fill(client, "t", *[b"v" * 1_000_000] * 20)
        # More than the socket takes, so the broker is in the middle of sending when the topic goes.
        await client.send(fetch_request("t", max_bytes=100 << 20), 12)
        while not await received_something(client):
            pass
        node.controller.delete_topics([topic.topic_id])
        data = fetched((await client.receive(1, 12))[1])
        assert len(values(data)) == 20


async def received_something(client: Client) -> bool:
    await client._fill(4)
    return True


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "index", "epoch", "version", "error"),
    [
        ("no", 0, -1, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, -1, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, -1, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, 7, 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("t", 0, 0, 12, ErrorCode.NONE),
    ],
)
async def test_errors_are_answered_at_once(
    topic: str, index: int, epoch: int, version: int, error: ErrorCode, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        request = fetch_request(topic, index=index, max_wait_ms=60_000 if error else 0)
        request.topics[0].partitions[0].current_leader_epoch = epoch
        data = fetched(await client.ask(request, version))
        assert data.error_code == error


async def test_a_fenced_epoch_tells_the_new_leader(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        partition = node.replica_manager.partition("t", 0)
        partition.leader_epoch = 5
        request = fetch_request("", max_wait_ms=60_000)
        request.topics[0].topic_id = topic.topic_id
        request.topics[0].partitions[0].current_leader_epoch = 4
        response = await client.ask(request, 16)
        data = fetched(response)
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 0)
        assert [(e.node_id, e.port) for e in response.node_endpoints] == [(1, node.port)]


async def test_an_unknown_topic_id_is_an_error(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = fetch_request("", max_wait_ms=60_000)
        request.topics[0].topic_id = UNKNOWN_ID
        assert fetched(await client.ask(request, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_diverging_epoch_comes_instead_of_records(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a", b"b")
        partition = with_follower(node)
        partition.apply(partition_in_epoch(3))
        partition.follower_fetched(2, 2)
        await client.ask(produce_request("t", batch(b"c"), acks=1), 9)
        request = fetch_request("t", 2, max_wait_ms=60_000)
        request.topics[0].partitions[0].last_fetched_epoch = 1
        data = fetched(await client.ask(request, 12))
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
        assert offsets(data) == []


def partition_in_epoch(epoch: int) -> Any:
    from kcli.broker.metadata.metadata_image import PartitionRegistration

    return PartitionRegistration(
        replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=epoch, partition_epoch=epoch
    )


# --- waiting -------------------------------------------------------------------------------------


async def parked(node: Node) -> None:
    while not node.purgatory.parked:
        await trio.lowlevel.checkpoint()


async def test_nothing_new_comes_when_the_time_is_up(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        started = trio.current_time()
        data = fetched(await client.ask(fetch_request("t", max_wait_ms=40), 12))
        assert (data.error_code, data.high_watermark, offsets(data)) == (0, 0, [])
        assert 0.039 < trio.current_time() - started < PATIENCE_SECONDS
        assert node.purgatory.watched_keys == 0


async def test_a_waiting_fetch_collects_min_bytes(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as producer:
        node.create_topic("t", partitions=2)
        size = len(batch(b"v" * 100))
        request = fetch_request("t", max_wait_ms=60_000, min_bytes=3 * size)
        request.topics[0].partitions.append(
            FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=10_000)
        )
        await client.send(request, 12)
        await parked(node)
        await fill(producer, "t", b"v" * 100, index=0)
        await fill(producer, "t", b"v" * 100, index=1)
        await trio.testing.wait_all_tasks_blocked()
        assert node.purgatory.parked == 1
        await fill(producer, "t", b"v" * 100, index=0)
        rows = (await client.receive(1, 12))[1].responses[0].partitions
        assert [offsets(row) for row in rows] == [[0, 1], [0]]


async def test_a_roll_answers_a_waiting_fetch(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as producer:
        node.create_topic("t")
        await fill(producer, "t", b"a")
        await client.send(fetch_request("t", max_wait_ms=60_000, min_bytes=1_000_000), 12)
        await parked(node)
        node.replica_manager.partition("t", 0).log.roll(now_ms=START_MS)
        await fill(producer, "t", b"b")
        assert offsets(fetched((await client.receive(1, 12))[1])) == [0]


async def test_deleting_the_topic_answers_a_waiting_fetch(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        await client.send(fetch_request("t", max_wait_ms=60_000), 12)
        await parked(node)
        node.controller.delete_topics([topic.topic_id])
        data = fetched((await client.receive(1, 12))[1])
        assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_consumer_sees_the_high_watermark_only(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as producer:
        node.create_topic("t")
        partition = with_follower(node)
        await producer.ask(produce_request("t", batch(b"a"), acks=1), 9)
        data = fetched(await client.ask(fetch_request("t"), 12))
        assert (data.error_code, data.high_watermark, offsets(data)) == (0, 0, [])
        # Between the high watermark and the log end there is nothing, and no error.
        assert fetched(await client.ask(fetch_request("t", 1), 12)).error_code == 0
        await client.send(fetch_request("t", max_wait_ms=60_000), 12)
        await parked(node)
        follower = fetch_request("t", 1)
        follower.replica_id = 2
        # The follower itself learns of it one fetch later.
        assert fetched(await producer.ask(follower, 12)).high_watermark == 0
        assert offsets(fetched((await client.receive(1, 12))[1])) == [0]
        assert partition.in_sync.remotes[2].log_end_offset == 1


async def test_a_stranger_is_no_follower(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        request = fetch_request("t")
        request.replica_id = 9
        assert fetched(await client.ask(request, 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        request.topics[0].partitions[0].current_leader_epoch = 0
        assert fetched(await client.ask(request, 12)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# --- isolation -----------------------------------------------------------------------------------


async def test_read_committed_lists_aborted_transactions(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", b"a")
        data = fetched(await client.ask(fetch_request("t", isolation_level=1), 12))
        assert (offsets(data), data.last_stable_offset, data.aborted_transactions) == ([0], 1, [])
        data = fetched(await client.ask(fetch_request("t"), 12))
        assert data.aborted_transactions is None


async def test_an_unknown_level_fails_what_would_be_read(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t")
        await fill(client, "t", b"a")
        response = await client.ask(fetch_request("t", isolation_level=2), 12)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert fetched(response).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        response = await client.ask(fetch_request("missing", isolation_level=2), 12)
        assert response.error_code == ErrorCode.NONE
        assert fetched(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        request = fetch_request("t", isolation_level=-1)
        request.topics[0].topic_id = topic.topic_id
        response = await client.ask(request, 13)
        assert (response.error_code, response.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


# --- sessions ------------------------------------------------------------------------------------


async def test_a_session_answers_what_is_new(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        topic = node.create_topic("t", partitions=3)
        await fill(client, "t", b"a", index=1)

        def request(session: tuple[int, int], *wanted: tuple[int, int], forget: tuple[int, ...] = ()) -> Any:
            topics = [
                FetchTopic(
                    topic_id=topic.topic_id,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
                        for index, offset in wanted
                    ],
                )
            ]
            return FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                session_id=session[0],
                session_epoch=session[1],
                topics=topics if wanted else [],
                forgotten_topics_data=(
                    [ForgottenTopic(topic_id=topic.topic_id, partitions=list(forget))] if forget else []
                ),
            )

        response = await client.ask(request((0, 0), (0, 0), (1, 0), (2, 0)), 17)
        session_id = response.session_id
        assert session_id != 0
        assert [row.partition_index for row in response.responses[0].partitions] == [0, 1, 2]
        response = await client.ask(request((session_id, 1), (1, 1)), 17)
        assert (response.session_id, response.responses) == (session_id, [])
        await fill(client, "t", b"b", index=2)
        response = await client.ask(request((session_id, 2)), 17)
        assert [row.partition_index for row in response.responses[0].partitions] == [2]
        response = await client.ask(request((session_id, 3), forget=(0, 1, 2)), 17)
        assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
        response = await client.ask(request((session_id, 4)), 17)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert len(node.fetch_sessions) == 0


async def test_an_incremental_fetch_waits_for_news(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as producer:
        node.create_topic("t")
        request = fetch_request("t", session_epoch=0)
        session_id = (await client.ask(request, 12)).session_id
        await client.send(
            FetchRequest(max_wait_ms=60_000, min_bytes=1, session_id=session_id, session_epoch=1, topics=[]),
            12,
        )
        await parked(node)
        await fill(producer, "t", b"a")
        assert offsets(fetched((await client.receive(1, 12))[1])) == [0]
