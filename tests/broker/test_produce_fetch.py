"""Produce, Fetch, ListOffsets over a real socket to a real log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.record_batch import iter_batches
from kcli.protocol.record_batch_builder import RecordBatchBuilder
from tests.broker.node import START_MS, Client, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


def batch(*values: bytes, timestamp: int = START_MS, **options: object) -> bytes:
    builder = RecordBatchBuilder(**options)  # type: ignore[arg-type]
    for value in values:
        builder.append(timestamp, b"k", value)
    return bytes(builder.build())


def produce_request(topic: str, records: bytes, *, index: int = 0, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
        ],
    )


def fetch_request(topic: str, offset: int = 0, **options: int) -> FetchRequest:
    settings = {"max_wait_ms": 0, "min_bytes": 1, **options}
    return FetchRequest(
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
        ],
        **settings,
    )


async def test_what_was_produced_is_fetched(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        response = await client.ask(produce_request("t", batch(b"a", b"b")), 9)
        row = response.responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset, row.log_start_offset) == (0, 0, 0)
        response = await client.ask(produce_request("t", batch(b"c")), 9)
        assert response.responses[0].partition_responses[0].base_offset == 2
        response = await client.ask(fetch_request("t"), 12)
        data = response.responses[0].partitions[0]
        assert (data.error_code, data.high_watermark, data.last_stable_offset) == (0, 3, 3)
        records = [record for each in iter_batches(bytes(data.records)) for record in each.records()]
        assert [(record.offset, bytes(record.value)) for record in records] == [
            (0, b"a"),
            (1, b"b"),
            (2, b"c"),
        ]
        assert await offset_of(client, -1) == 3
        assert await offset_of(client, -2) == 0


async def offset_of(client: Client, timestamp: int) -> int:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
            )
        ],
    )
    response = await client.ask(request, 5)
    assert response.topics[0].partitions[0].error_code == 0
    return response.topics[0].partitions[0].offset
