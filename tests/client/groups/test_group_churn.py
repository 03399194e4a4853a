"""Members come and go in any order: no partition has two readers, and no record is read twice or missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.client.client import Client
from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.groups.rebalance_listener import RebalanceListener
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import fake_cluster
from tests.client.fetch.fetched_batches import batch
from tests.client.groups.fake_consumer_group import FakeConsumerGroup
from tests.client.groups.fake_group import FakeGroup

PARTITIONS = 5


class Ownership(RebalanceListener):
    """One member's partitions, compared with those of all others."""

    def __init__(self, name: int, owners: dict[TopicPartition, int]) -> None:
        self.name = name
        self.owners = owners

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            assert partition not in self.owners, f"{partition} is {self.owners[partition]}'s"
            self.owners[partition] = self.name

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            assert self.owners.pop(partition) == self.name


class Churn:
    """A group whose members are opened and closed by number."""

    def __init__(self, client: Client, config: ConsumerConfig, nursery: trio.Nursery) -> None:
        self.client = client
        self.config = config
        self.nursery = nursery
        self.owners: dict[TopicPartition, int] = {}
        self.seen: Counter[tuple[TopicPartition, int]] = Counter()
        self.scopes: dict[int, trio.CancelScope] = {}

    def toggle(self, name: int) -> None:
        """Start a member, or stop it at any moment."""
        scope = self.scopes.pop(name, None)
        if scope is not None:
            scope.cancel()
        else:
            self.scopes[name] = trio.CancelScope()
            self.nursery.start_soon(self.member, name, self.scopes[name])

    async def member(self, name: int, scope: trio.CancelScope) -> None:
        with scope:
            async with Consumer(self.client, self.config) as consumer:
                consumer.subscribe(["orders"], Ownership(name, self.owners))
                while True:
                    for part in await consumer.poll(3):
                        self.seen.update((part.partition, record.offset) for record in part.records)


def config_of(strategy: str) -> ConsumerConfig:
    """Return the configuration of a member, of the consumer protocol if `consumer`."""
    if strategy == "consumer":
        return ConsumerConfig(group_id="g", auto_offset_reset="earliest", group_protocol="consumer")
    return ConsumerConfig(group_id="g", auto_offset_reset="earliest", partition_assignment_strategy=strategy)


async def churn(strategy: str, actions: list[tuple[int, float]]) -> None:
    async with (
        fake_cluster(topics={"orders": PARTITIONS}) as (brokers, client),
        trio.open_nursery() as nursery,
    ):
        if strategy == "consumer":
            FakeConsumerGroup(brokers)
        else:
            FakeGroup(brokers)
        group = Churn(client, config_of(strategy), nursery)
        for name, seconds in actions:
            group.toggle(name)
            for partition in brokers.topics["orders"]:
                partition.batches.append(batch(partition.end_offset, [b"x"] * 2))
                partition.end_offset += 2
            await trio.sleep(seconds)
        if not group.scopes:
            group.toggle(0)
        await trio.sleep(30)
        assert {partition.partition for partition in group.owners} == set(range(PARTITIONS))
        assert set(group.owners.values()) <= set(group.scopes)
        for name in list(group.scopes):
            group.toggle(name)
    assert group.owners == {}
    assert set(group.seen.values()) == {1}
    assert len(group.seen) == PARTITIONS * 2 * len(actions)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "sticky", "consumer"])
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.05, 1.0, 4.0, 10.0])), min_size=1, max_size=8
    )
)
def test_members_come_and_go(strategy: str, actions: list[tuple[int, float]]) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(churn, strategy, actions, clock=clock)
