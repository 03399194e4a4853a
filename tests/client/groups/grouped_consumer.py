"""Helpers: a consumer in a group of the classic protocol, and checks for members of any protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import trio

from kcli.client.client import Client
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.rebalance_listener import RebalanceListener
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import FakeBrokers, fake_cluster
from tests.client.fetch.fetched_batches import batch
from tests.client.groups.fake_group import FakeGroup

ORDERS = [TopicPartition("orders", index) for index in range(4)]
CONFIG = ConsumerConfig(group_id="g", auto_offset_reset="earliest")
COOPERATIVE = ConsumerConfig(
    group_id="g", auto_offset_reset="earliest", partition_assignment_strategy="cooperative-sticky"
)
Coordinator = TypeVar("Coordinator")


@asynccontextmanager
async def grouped_by(
    coordinator: Callable[[FakeBrokers], Coordinator], config: ClientConfig | None = None, **topics: int
) -> AsyncIterator[tuple[FakeBrokers, Client, Coordinator]]:
    """Brokers with topics of ten records a partition, a client, and the group's coordinator."""
    async with fake_cluster(config, topics=topics or {"orders": 4}) as (brokers, client):
        for name in brokers.topics:
            fill(brokers, name, 10)
        yield brokers, client, coordinator(brokers)


grouped = partial(grouped_by, FakeGroup)


def fill(brokers: FakeBrokers, topic: str, count: int) -> None:
    """Append records to every partition of a topic."""
    for partition in brokers.topics[topic]:
        partition.batches.append(batch(partition.end_offset, [b"x"] * count))
        partition.end_offset += count


class Diary(RebalanceListener):
    """The listener calls of one member, in order: `+0,1` assigned, `-0,1` revoked, `!0,1` lost."""

    def __init__(self, *, during: Callable[[str], Any] | None = None) -> None:
        self.events: list[str] = []
        self._during = during

    async def _note(self, mark: str, partitions: Sequence[TopicPartition]) -> None:
        event = mark + ",".join(str(each.partition) for each in partitions)
        self.events.append(event)
        if self._during is not None:
            await self._during(event)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("+", partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("-", partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("!", partitions)


async def read(consumer: Consumer, seconds: float) -> list[tuple[TopicPartition, int]]:
    """Poll for a time; return the records."""
    records: list[tuple[TopicPartition, int]] = []
    with trio.move_on_after(seconds):
        while True:
            for part in await consumer.poll():
                records += [(part.partition, record.offset) for record in part.records]
    return records


def by_index(offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {index: offset for (_, index), offset in sorted(offsets.items())}


def committed(group: FakeGroup) -> dict[int, int]:
    return by_index(group.offsets)
