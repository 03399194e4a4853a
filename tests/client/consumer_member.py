"""A consumer as a member of the consumer protocol, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kcli.client.client import Client
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.protocol.topic_partition import TopicPartition
from tests.client.fake_brokers import FakeBrokers, fake_cluster
from tests.client.fake_consumer_group import FakeConsumerGroup
from tests.client.grouped_consumer import fill

ORDERS = [TopicPartition("orders", index) for index in range(4)]
CONFIG = ConsumerConfig(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
STATIC = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", group_instance_id="i1"
)
MANUAL = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False
)
Grouped = tuple[FakeBrokers, Client, FakeConsumerGroup]
Heartbeat = ConsumerGroupHeartbeatRequest


@asynccontextmanager
async def grouped(config: ClientConfig | None = None, **topics: int) -> AsyncIterator[Grouped]:
    """Brokers with topics of ten records a partition, a client, and the group's coordinator."""
    async with fake_cluster(config, topics=topics or {"orders": 4}) as (brokers, client):
        for name in brokers.topics:
            fill(brokers, name, 10)
        yield brokers, client, FakeConsumerGroup(brokers)


def committed(group: FakeConsumerGroup) -> dict[int, int]:
    return {index: offset for (_, index), offset in sorted(group.offsets().items())}


def refusal(code: int, why: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=why)


def epochs(brokers: FakeBrokers) -> list[int]:
    return [request.member_epoch for request in brokers.received(Heartbeat)]
