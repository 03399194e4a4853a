"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId, DescribeProducers, DescribeLogDirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kcli.protocol.messages.describe_cluster import DescribeClusterRequest
from kcli.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kcli.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.handlers.produce.test_produce import with_follower
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import START_MS, Client, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


async def fill(client: Client, topic: str, *timestamps: int, **options: Any) -> None:
    for timestamp in timestamps:
        records = batch(b"v", timestamp=timestamp, **options)
        assert produced(await client.ask(produce_request(topic, records, acks=1), 9)).error_code == 0


# --- ListOffsets ---------------------------------------------------------------------------------


def list_offsets_request(timestamp: int, *, topic: str = "t", index: int = 0, **options: int) -> Any:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    partition.max_num_offsets = options.pop("max_num_offsets", 1)
    partition.current_leader_epoch = options.pop("epoch", -1)
    return ListOffsetsRequest(
        **{"replica_id": -1, **options}, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )


async def found(client: Client, request: Any, version: int) -> Any:
    ((row,),) = [topic.partitions for topic in (await client.ask(request, version)).topics]
    return row


@pytest.mark.parametrize(
    ("timestamp", "version", "expected"),
    [
        (-1, 1, (-1, 4)),
        (-2, 1, (-1, 0)),
        (-1, 11, (-1, 4)),
        (-4, 8, (-1, 0)),
        (-3, 7, (START_MS + 30, 2)),
        (-5, 9, (-1, -1)),
        (-6, 11, (-1, -1)),
        (0, 1, (START_MS, 0)),
        (START_MS + 1, 1, (START_MS + 10, 1)),
        (START_MS + 11, 1, (START_MS + 30, 2)),
        (START_MS + 30, 11, (START_MS + 30, 2)),
        (START_MS + 31, 1, (-1, -1)),
    ],
)
async def test_a_timestamp_finds_its_offset(
    timestamp: int, version: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", START_MS, START_MS + 10, START_MS + 30, START_MS + 20)
        row = await found(client, list_offsets_request(timestamp), version)
        assert (row.error_code, row.timestamp, row.offset) == (0, *expected)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
async def test_a_special_timestamp_needs_its_version(timestamp: int, version: int, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        row = await found(client, list_offsets_request(timestamp), version)
        assert (row.error_code, row.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


async def test_errors_of_list_offsets(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        row = await found(client, list_offsets_request(-1, topic="no"), 5)
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        row = await found(client, list_offsets_request(-1, epoch=7), 5)
        assert row.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        request = list_offsets_request(-1)
        request.topics[0].partitions *= 2
        response = await client.ask(request, 5)
        assert [row.error_code for row in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST]


async def test_list_offsets_refuses_what_apache_kafka_refuses(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        row = await found(client, list_offsets_request(-1, isolation_level=2), 5)
        assert (row.error_code, row.offset) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        # The timestamp is looked at before the partition.
        row = await found(client, list_offsets_request(-7, topic="no", epoch=7), 5)
        assert row.error_code == ErrorCode.UNSUPPORTED_VERSION
        request = list_offsets_request(-1)
        request.topics *= 2
        response = await client.ask(request, 5)
        rows = [row.error_code for topic in response.topics for row in topic.partitions]
        assert rows == [ErrorCode.INVALID_REQUEST]


async def test_consumers_and_replicas_see_different_ends(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", START_MS)
        with_follower(node)
        await fill(client, "t", START_MS + 5)
        assert (await found(client, list_offsets_request(-1), 5)).offset == 1
        for replica_id in (2, -2, -3):
            assert (await found(client, list_offsets_request(-1, replica_id=replica_id), 5)).offset == 2
        assert (await found(client, list_offsets_request(START_MS + 1), 5)).offset == -1
        assert (await found(client, list_offsets_request(START_MS + 1, replica_id=2), 5)).offset == 1


async def test_version_0_answers_with_segments(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        log = node.replica_manager.partition("t", 0).log
        for _ in range(3):
            await fill(client, "t", START_MS)
            log.roll(now_ms=START_MS)
        await fill(client, "t", START_MS)
        for timestamp, count, expected in [
            (-1, 1, [4]),
            (-1, 10, [4, 3, 2, 1, 0]),
            (-2, 10, [0]),
            (-1, 0, []),
        ]:
            row = await found(client, list_offsets_request(timestamp, max_num_offsets=count), 0)
            assert (row.error_code, row.old_style_offsets) == (0, expected)


# --- OffsetForLeaderEpoch ------------------------------------------------------------------------


async def test_the_end_of_an_epoch(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", START_MS, START_MS)

        async def end(
            epoch: int, current: int = -1, topic: str = "t", version: int = 4
        ) -> tuple[int, int, int]:
            wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
            request = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
            )
            row = (await client.ask(request, version)).topics[0].partitions[0]
            return row.error_code, row.leader_epoch, row.end_offset

        assert await end(0) == (0, 0, 2)
        assert await end(0, version=0) == (0, -1, 2)
        assert await end(1) == (0, -1, -1)
        assert await end(0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert await end(0, topic="no") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


# --- DeleteRecords -------------------------------------------------------------------------------


async def test_the_last_offset_of_a_partition_named_twice_counts(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", *[START_MS] * 4)
        topics = [
            DeleteRecordsTopic(
                name="t",
                partitions=[DeleteRecordsPartition(partition_index=0, offset=offset) for offset in offsets],
            )
            for offsets in ([-1, 9], [2])
        ]
        response = await client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        rows = [(row.error_code, row.low_watermark) for each in response.topics for row in each.partitions]
        assert rows == [(0, 2)]


async def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        node.create_topic("compacted", cleanup_policy="compact")
        await fill(client, "t", *[START_MS] * 4)

        async def delete(offset: int, topic: str = "t") -> tuple[int, int]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
                    )
                ],
                timeout_ms=1000,
            )
            row = (await client.ask(request, 2)).topics[0].partitions[0]
            return row.error_code, row.low_watermark

        assert await delete(2) == (0, 2)
        assert await delete(1) == (0, 2)
        assert await delete(5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(-2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(0, "no") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete(0, "compacted") == (ErrorCode.POLICY_VIOLATION, -1)
        # A topic of neither policy is not only compacted.
        node.create_topic("kept", cleanup_policy="")
        assert await delete(0, "kept") == (ErrorCode.NONE, 0)
        data = fetched(await client.ask(fetch_request("t", 2), 12))
        assert (data.log_start_offset, [offset for offset, _ in values(data)]) == (2, [2, 3])
        assert (
            fetched(await client.ask(fetch_request("t", 1), 12)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        )
        assert await delete(-1) == (0, 4)


# --- producers -----------------------------------------------------------------------------------


async def test_every_producer_gets_its_own_id(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        answers = [await client.ask(request, version % 6) for version in range(1100)]
        assert {answer.error_code for answer in answers} == {0}
        assert [answer.producer_id for answer in answers] == list(range(1100))
        assert node.image.next_producer_id == 2000


async def test_producers_of_a_partition_are_described(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await fill(client, "t", START_MS, producer_id=7, producer_epoch=3, base_sequence=0)
        request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 9])])
        rows = (await client.ask(request, 0)).topics[0].partitions
        assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        (producer,) = rows[0].active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 0)
        assert (producer.last_timestamp, producer.current_txn_start_offset) == (START_MS, -1)


async def test_errors_of_describe_producers(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        asked = [TopicRequest(name=name, partition_indexes=[0, 7]) for name in ("t", "no", "not legal")]
        asked.append(TopicRequest(name="t", partition_indexes=[0]))
        topics = (await client.ask(DescribeProducersRequest(topics=asked), 0)).topics
        assert [[row.error_code for row in topic.partitions] for topic in topics] == [
            [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
            [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2,
            [0],
        ]
        assert [bool(topic.partitions[-1].error_message) for topic in topics] == [False, True, True, False]


# --- directories and the cluster -----------------------------------------------------------------


async def test_log_directories_are_described(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", partitions=2)
        node.create_topic("u")
        await fill(client, "t", START_MS)
        size = node.replica_manager.partition("t", 0).log.size_bytes

        async def described(topics: Any) -> Any:
            (result,) = (await client.ask(DescribeLogDirsRequest(topics=topics), 4)).results
            assert (result.error_code, result.log_dir) == (0, str(tmp_path))
            assert result.total_bytes >= result.usable_bytes > 0
            return [
                (topic.name, [(p.partition_index, p.partition_size, p.offset_lag) for p in topic.partitions])
                for topic in result.topics
            ]

        assert await described(None) == [("t", [(0, size, 0), (1, 0, 0)]), ("u", [(0, 0, 0)])]
        assert await described([DescribableLogDirTopic(topic="t", partitions=[1])]) == [("t", [(1, 0, 0)])]
        assert await described([]) == []


async def test_the_cluster_is_described(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await client.ask(request, 2)
        assert (response.error_code, response.controller_id) == (0, 1)
        assert response.cluster_id == node.cluster_id
        assert response.cluster_authorized_operations == 8096
        assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", node.port)]
        for endpoint_type, error in [(2, 0), (3, 115)]:
            request.endpoint_type = endpoint_type
            assert (await client.ask(request, 1)).error_code == error


@pytest.mark.parametrize(("producer_id", "epoch", "error"), [(5, 3, 0), (5, -1, 42), (-1, 3, 42)])
async def test_a_producer_id_goes_with_an_epoch(
    producer_id: int, epoch: int, error: int, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=1,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        assert (await client.ask(request, 5)).error_code == error
