"""A consumer in a group: topics and patterns that it subscribes to and drops."""

from __future__ import annotations

import re

import pytest
import trio

from kcli.client.config import ClientConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.subscription_state import SubscriptionConflict
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.topics import TopicPartition
from tests.client.groups.grouped_consumer import CONFIG, COOPERATIVE, ORDERS, Diary, fill, grouped, read


async def test_ways_to_subscribe_exclude_each_other(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        for attempt in (lambda: consumer.assign(ORDERS), lambda: consumer.subscribe(re.compile("o.*"))):
            with pytest.raises(SubscriptionConflict):
                attempt()
        await consumer.unsubscribe()
        consumer.assign(ORDERS)
        with pytest.raises(SubscriptionConflict):
            consumer.subscribe(["orders"])


async def test_a_group_needs_a_name(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client) as consumer:
        with pytest.raises(KafkaError, match="no group"):
            consumer.subscribe(["orders"])


async def test_another_subscription_joins_again(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1, bills=1, other=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, COOPERATIVE) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            await read(consumer, 1)
            consumer.subscribe(["orders", "other"])
            await read(consumer, 1)
            assert {partition.topic for partition in consumer.assignment} == {"orders", "other"}
            # Only the dropped topic is revoked, and only the new one is assigned.
            assert diary.events == ["+0,0", "-0", "+0"]
        assert [each.reason for each in brokers.received(JoinGroupRequest)][
            -1
        ] == "the subscription has changed"


async def test_a_pattern_follows_the_topics_there_are(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=5_000)
    async with grouped(config, log1=1, other=1, __consumer_offsets=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(re.compile("log.*|__.*"), diary)
            await read(consumer, 1)
            assert consumer.subscription == {"log1"}
            brokers.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            assert len(await read(consumer, 6)) == 6
            assert consumer.subscription == {"log1", "log2"}
            del brokers.topics["log1"]
            await read(consumer, 6)
            assert {partition.topic for partition in consumer.assignment} == {"log2"}
        assert diary.events == ["+0", "-0", "+0,0,1", "-0,0,1", "+0,1", "-0,1"]
        # Each change takes one join: the metadata was fresh.
        assert len(brokers.received(SyncGroupRequest)) == 3


async def test_added_partitions_and_late_topics_are_picked_up(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=5_000)
    async with grouped(config, orders=1) as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders", "late"])
        await read(consumer, 1)
        assert consumer.assignment == {ORDERS[0]}
        brokers.add_topic("late", 1)
        await read(consumer, 2)  # a missing topic is looked up again and again
        assert consumer.assignment == {ORDERS[0], TopicPartition("late", 0)}
        brokers.topics["orders"] += brokers.topics["orders"]
        await read(consumer, 6)
        assert consumer.assignment == {*ORDERS[:2], TopicPartition("late", 0)}
