"""Helpers: members of both protocols that take turns in one group."""

from __future__ import annotations

from typing import Any

from tests.broker.coordinator.virtual_classic_consumer import ClassicConsumer
from tests.broker.coordinator.virtual_consumers import Consumer, Partitions, VirtualConsumers, short


def classics(world: VirtualConsumers, count: int, **fields: Any) -> list[ClassicConsumer]:
    """Return classic consumers that share the topic."""
    consumers: list[ClassicConsumer] = []
    for number in range(count):
        instance = f"{fields['instance']}{number}" if "instance" in fields else None
        consumers.append(ClassicConsumer(world, ("t",), instance))
        turns(consumers)
    return consumers


def turns(consumers: list[Any], rounds: int = 8) -> None:
    for _ in range(rounds):
        for consumer in consumers:
            if isinstance(consumer, Consumer):
                consumer.beat()
            else:
                consumer.turn()


def shares(*consumers: Consumer | ClassicConsumer) -> list[str]:
    """Return the partitions of each; each partition must be there exactly once."""
    has: Partitions = set()
    for consumer in consumers:
        assert has.isdisjoint(consumer.owned)
        has |= consumer.owned
    assert has == {("t", index) for index in range(4)}
    return [short(consumer.owned) for consumer in consumers]


def kind(world: VirtualConsumers) -> str:
    (listed,) = world.shard.list_groups()
    return f"{listed.group_type} {listed.group_state}"


def mixed(world: VirtualConsumers, count: int = 2) -> tuple[list[ClassicConsumer], Consumer]:
    """Return classic members and one of the consumer protocol that share a topic."""
    consumers = classics(world, count)
    modern = Consumer(world, "a", {})
    turns([modern, *consumers])
    assert kind(world) == "consumer Stable"
    return consumers, modern
