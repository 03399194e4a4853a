"""A member of the consumer protocol: topics, patterns and expressions that it subscribes to."""

from __future__ import annotations

import re

import pytest
import trio

from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.subscription_state import SubscriptionConflict, SubscriptionPattern
from kcli.client.network.connection import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.schema.declaration import message_info
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import fake_cluster
from tests.client.groups.consumer_member import CONFIG, Heartbeat, grouped
from tests.client.groups.fake_consumer_group import FakeConsumerGroup
from tests.client.groups.grouped_consumer import ORDERS, Diary, fill, read


async def test_another_subscription_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1, bills=1, other=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            await read(consumer, 1)
            consumer.subscribe(["orders", "other"])
            await read(consumer, 1)
            assert {partition.topic for partition in consumer.assignment} == {"orders", "other"}
            # Only the dropped topic is revoked, and only the new one is assigned.
            assert diary.events == ["+0,0", "-0", "+", "+0"]
        names = [request.subscribed_topic_names for request in brokers.received(Heartbeat)]
        assert [each for each in names if each] == [["bills", "orders"], ["orders", "other"]]


async def test_a_pattern_is_matched_here(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=3_000)
    async with grouped(config, log1=1, other=1, __consumer_offsets=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(re.compile("log.*|__.*"), diary)
            await read(consumer, 1)
            assert consumer.subscription == {"log1"}
            group.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            assert len(await read(consumer, 4)) == 6
            assert consumer.subscription == {"log1", "log2"}
            group.delete_topic("log1")
            await read(consumer, 10)
            assert {partition.topic for partition in consumer.assignment} == {"log2"}
        assert diary.events == ["+0", "+0,1", "-0", "+", "-0,1"]


async def test_an_expression_is_matched_by_the_broker(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=100_000)
    async with grouped(config, log1=1, other=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(SubscriptionPattern("log[0-9]"), diary)
            assert len(await read(consumer, 1)) == 10
            assert consumer.subscription == {"log1"}
            group.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            # Long before the metadata is old: unknown topics are looked up.
            assert len(await read(consumer, 8)) == 6
            assert consumer.subscription == {"log1", "log2"}
        assert diary.events == ["+0", "+0,1", "-0,0,1"]
        told = [request.subscribed_topic_regex for request in brokers.received(Heartbeat)]
        assert [each for each in told if each] == ["log[0-9]"]


async def test_an_expression_needs_a_broker_that_knows_it(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client):
        FakeConsumerGroup(brokers)
        brokers.max_versions[message_info(Heartbeat).key] = 0
        async with Consumer(client, CONFIG) as consumer:
            brokers.disconnect(1)
            consumer.subscribe(SubscriptionPattern("log.*"))
            with pytest.raises(UnsupportedVersion, match="needed is 1"):
                await consumer.poll()


async def test_an_expression_that_is_none_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(SubscriptionPattern("log("))
        with pytest.raises(KafkaError) as caught:
            await consumer.poll()
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_ways_to_subscribe_exclude_each_other(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(SubscriptionPattern("o.*"))
        for attempt in (
            lambda: consumer.assign(ORDERS),
            lambda: consumer.subscribe(["orders"]),
            lambda: consumer.subscribe(re.compile("o.*")),
        ):
            with pytest.raises(SubscriptionConflict):
                attempt()
        await consumer.unsubscribe()
        consumer.assign(ORDERS)
        classic = ConsumerConfig(group_id="g")
        async with Consumer(client, classic) as other:
            with pytest.raises(KcliError, match="members of the consumer protocol"):
                other.subscribe(SubscriptionPattern("o.*"))


async def test_added_partitions_and_late_topics_are_picked_up(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1) as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders", "late"])
        await read(consumer, 1)
        assert consumer.assignment == {ORDERS[0]}
        group.add_topic("late", 1)
        await read(consumer, 6)
        assert consumer.assignment == {ORDERS[0], TopicPartition("late", 0)}
        brokers.topics["orders"] += brokers.topics["orders"]
        group.topics(orders=2)
        await read(consumer, 6)
        assert consumer.assignment == {*ORDERS[:2], TopicPartition("late", 0)}


async def test_a_topic_created_anew_is_read_from_its_beginning(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped(orders=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            assert len(await read(consumer, 1)) == 10
            group.delete_topic("orders")
            group.add_topic("orders", 1)
            fill(brokers, "orders", 3)
            assert [offset for _, offset in await read(consumer, 8)] == [0, 1, 2]
        assert diary.events[:4] == ["+0", "-0", "+", "+0"]
