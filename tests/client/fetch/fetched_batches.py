"""Helpers: batches in the logs of fake brokers, fetch responses, and a consumer for a bounded read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import FakeBrokers

ORDERS_0 = TopicPartition("orders", 0)
EARLIEST = ConsumerConfig(auto_offset_reset="earliest")


def batch(base_offset: int, values: Sequence[bytes], **fields: Any) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset, **fields)
    for value in values:
        builder.append(1000, None, value)
    return bytes(builder.build())


def fill(brokers: FakeBrokers, *batches: bytes, end_offset: int, partition: int = 0) -> None:
    """Put batches into a partition's log unchanged."""
    log = brokers.topics["orders"][partition]
    log.batches = list(batches)
    log.end_offset = end_offset


def fetched(data: bytes, *, code: int = 0, session_id: int = 0, **fields: Any) -> FetchResponse:
    """Return a response about orders-0."""
    row = PartitionData(partition_index=0, error_code=code, high_watermark=99, records=data, **fields)
    topic = FetchableTopicResponse(topic_id=FakeBrokers.topic_id("orders"), topic="orders", partitions=[row])
    return FetchResponse(responses=[topic], session_id=session_id)


async def read_until(
    consumer: Consumer, partition: TopicPartition, end: int
) -> list[tuple[int, bytes | None]]:
    """Read up to a position, as a bounded read does."""
    records: list[tuple[int, bytes | None]] = []
    with trio.fail_after(60):
        while (consumer.position_nowait(partition) or 0) < end:
            for part in await consumer.poll():
                records += [(record.offset, record.value) for record in part.records]
    return records
