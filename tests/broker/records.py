"""Record batches and requests that carry them, for tests of the data plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from tests.broker.single_node import START_MS

if TYPE_CHECKING:
    from kcli.protocol.messages.fetch import FetchResponse, PartitionData
    from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
    from tests.broker.single_node import Client


def batch(*values: bytes, timestamp: int = START_MS, key: bytes | None = b"k", **options: Any) -> bytes:
    """Return one batch of magic 2 with these values."""
    builder = RecordBatchBuilder(**options)
    for value in values:
        builder.append(timestamp, key, value)
    return bytes(builder.build())


def produce_request(
    topic: str,
    records: bytes | None,
    *,
    index: int = 0,
    acks: int = -1,
    timeout_ms: int = 1000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Return a request that writes to one partition."""
    partition = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )


def produced(response: ProduceResponse) -> PartitionProduceResponse:
    """Return the one row of a response."""
    ((row,),) = [topic.partition_responses for topic in response.responses]
    return row


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    index: int = 0,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    **options: Any,
) -> FetchRequest:
    """Return a request that reads one partition."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
        **options,
    )


def fetched(response: FetchResponse) -> PartitionData:
    """Return the one row of a response."""
    ((row,),) = [topic.partitions for topic in response.responses]
    return row


def values(data: PartitionData) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of the records in a row."""
    return [
        (record.offset, None if record.value is None else bytes(record.value))
        for each in iter_batches(bytes(data.records or b""))
        for record in each.records()
    ]


async def fill(client: Client, topic: str, *contents: bytes, index: int = 0, **options: Any) -> None:
    """Produce records, each in a batch of its own."""
    for value in contents:
        response = await client.ask(produce_request(topic, batch(value, **options), index=index), 9)
        assert produced(response).error_code == 0


def offsets(data: Any) -> list[int]:
    """Return the offsets of the records that were fetched of a partition."""
    return [offset for offset, _ in values(data)]
