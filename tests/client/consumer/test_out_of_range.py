"""A position that is out of range: one line reports it and the new position."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.client.fake_brokers import FakeBrokers, fake_cluster
from tests.client.fetch.fetched_batches import EARLIEST, ORDERS_0, batch, fill
from tests.client.groups.consumer_member import grouped as modern_group
from tests.client.groups.grouped_consumer import committed, grouped, read


def from_three_to_ten(brokers: FakeBrokers) -> None:
    """Make a partition of ten records, of which three are deleted."""
    fill(brokers, batch(3, [b"x"] * 7), end_offset=10)
    brokers.topics["orders"][0].start_offset = 3


@asynccontextmanager
async def assigned(config: ConsumerConfig) -> AsyncIterator[tuple[FakeBrokers, Consumer, list[str]]]:
    """A consumer that reads that partition, without a group, and its warnings."""
    warnings: list[str] = []
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, config, warn=warnings.append) as consumer,
    ):
        from_three_to_ten(brokers)
        consumer.assign([ORDERS_0])
        yield brokers, consumer, warnings


def told(offset: int, code: int = 0) -> ListOffsetsResponse:
    row = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[row])])


@pytest.mark.parametrize(
    ("strategy", "sought", "expected"),
    [("latest", 1, 10), ("latest", 5000, 10), ("earliest", 1, 3), ("earliest", 11, 3)],
)
async def test_it_is_told_with_what_there_is(
    strategy: str, sought: int, expected: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ConsumerConfig(auto_offset_reset=strategy)
    async with assigned(config) as (_, consumer, warnings):
        consumer.seek(ORDERS_0, sought)
        await read(consumer, 5)
        assert warnings == [f"orders-0: offset {sought} is out of range (3 to 10), going on at {expected}"]


async def test_it_is_told_each_time(autojump_clock: trio.testing.MockClock) -> None:
    async with assigned(EARLIEST) as (_, consumer, warnings):
        for offset in (1, 2):
            consumer.seek(ORDERS_0, offset)
            await read(consumer, 5)
        assert warnings == [
            "orders-0: offset 1 is out of range (3 to 10), going on at 3",
            "orders-0: offset 2 is out of range (3 to 10), going on at 3",
        ]


async def test_to_begin_without_a_position_is_no_news(autojump_clock: trio.testing.MockClock) -> None:
    async with assigned(EARLIEST) as (_, consumer, warnings):
        assert len(await read(consumer, 5)) == 7
        consumer.seek_to_beginning()
        assert len(await read(consumer, 5)) == 7
        assert warnings == []


async def test_no_record_as_young_as_asked_for_is_still_told(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(auto_offset_reset="by_duration:PT1H")
    async with assigned(config) as (brokers, consumer, warnings):
        brokers.script(ListOffsetsRequest, None, None, told(-1))
        consumer.seek(ORDERS_0, 1)
        await read(consumer, 5)
        assert warnings == ["orders-0: offset 1 is out of range (3 to 10), going on at 10"]


async def test_a_range_that_cannot_be_found_out_holds_nothing_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with assigned(EARLIEST) as (brokers, consumer, warnings):
        brokers.script(ListOffsetsRequest, told(-1, code=29), told(-1, code=29))
        consumer.seek(ORDERS_0, 1)
        assert len(await read(consumer, 5)) == 7
        assert warnings == ["orders-0: offset 1 is out of range, going on at 3"]


async def test_who_seeks_meanwhile_goes_on_there(autojump_clock: trio.testing.MockClock) -> None:
    async def slowly(node_id: int, request: Any, version: int) -> None:
        await trio.sleep(5)

    async with assigned(EARLIEST) as (brokers, consumer, warnings):
        brokers.script(ListOffsetsRequest, slowly)
        consumer.seek(ORDERS_0, 1)
        assert await read(consumer, 1) == []
        consumer.seek(ORDERS_0, 8)
        assert await read(consumer, 20) == [(ORDERS_0, 8), (ORDERS_0, 9)]
        assert warnings == []


@pytest.mark.parametrize("strategy", ["latest", "earliest"])
async def test_what_a_group_committed_may_be_deleted(
    strategy: str, autojump_clock: trio.testing.MockClock
) -> None:
    warnings: list[str] = []
    config = ConsumerConfig(group_id="g", auto_offset_reset=strategy)
    async with grouped(orders=1) as (brokers, client, group):
        group.offsets["orders", 0] = 1
        from_three_to_ten(brokers)
        async with Consumer(client, config, warn=warnings.append) as consumer:
            consumer.subscribe(["orders"])
            records = await read(consumer, 10)
        position = {"latest": 10, "earliest": 3}[strategy]
        assert warnings == [f"orders-0: offset 1 is out of range (3 to 10), going on at {position}"]
        assert records == [(ORDERS_0, offset) for offset in range(position, 10)]
        assert committed(group) == {0: 10}


async def test_what_a_group_of_the_consumer_protocol_committed_may_be_deleted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ConsumerConfig(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
    warnings: list[str] = []
    async with modern_group(orders=1) as (brokers, client, _):
        async with Consumer(client, config) as consumer:
            consumer.subscribe(["orders"])
            assert len(await read(consumer, 5)) == 10
        fill(brokers, batch(13, [b"x"] * 7), end_offset=20)
        brokers.topics["orders"][0].start_offset = 13
        async with Consumer(client, config, warn=warnings.append) as consumer:
            consumer.subscribe(["orders"])
            assert len(await read(consumer, 5)) == 7
        assert warnings == ["orders-0: offset 10 is out of range (13 to 20), going on at 13"]
