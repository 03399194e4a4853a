"""Helpers: responses to a producer, and records that it sends one by one."""

from __future__ import annotations

from typing import Any

import trio

from kcli.client.producer.producer import Producer
from kcli.client.producer.producer_batch import Delivery, DeliveryRun
from kcli.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.client.fake_brokers import FakeBrokers

TOPICS = {"orders": 1}


def produced(code: int, index: int = 0, **fields: Any) -> ProduceResponse:
    """Return a response about one partition of `orders`."""
    row = PartitionProduceResponse(index=index, error_code=code, base_offset=-1, **fields)
    topic = TopicProduceResponse(
        name="orders", topic_id=FakeBrokers.topic_id("orders"), partition_responses=[row]
    )
    return ProduceResponse(responses=[topic])


def values(count: int, start: int = 0) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, start + count)]


async def send_all(producer: Producer, records: list[bytes]) -> list[Delivery]:
    return [await producer.send("orders", value) for value in records]


async def batch_by_batch(producer: Producer, records: list[bytes]) -> list[Delivery]:
    """Send records, each in its own batch, all at the same time."""
    deliveries = []
    for value in records:
        deliveries.append(await producer.send("orders", value))
        await trio.sleep(0.01)
    return deliveries


async def send_in_runs(producer: Producer, records: list[bytes], **arguments: Any) -> list[DeliveryRun]:
    runs: list[DeliveryRun] = []
    position = 0
    while position < len(records):
        runs.append(await producer.send_values("orders", records, position, **arguments))
        position += runs[-1].count
    return runs
