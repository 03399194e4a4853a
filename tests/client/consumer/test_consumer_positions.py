"""Positions of a consumer: resets, seeks, pauses, and cancelled polls."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import ConcurrentUse, Consumer
from kcli.client.fetch.subscription_state import NotAssigned
from kcli.errors import KcliError
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import fake_cluster
from tests.client.fetch.fetched_batches import EARLIEST, ORDERS_0, batch, fill, read_until


async def _slowly(node_id: int, request: Any, version: int) -> None:
    await trio.sleep(1)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("earliest", 0), ("latest", 20), ("by_duration:PT1H", 20), ("by_duration:P99999999999999D", 20)],
)
async def test_without_a_position_the_reset_strategy_decides(
    strategy: str, expected: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ConsumerConfig(auto_offset_reset=strategy)
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, config, wall_ms=lambda: 10_000_000) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 20), end_offset=20)
        consumer.assign([ORDERS_0])
        assert await consumer.position(ORDERS_0) == expected
        (request,) = brokers.received(ListOffsetsRequest)
        timestamp = request.topics[0].partitions[0].timestamp
        hour_ago = 10_000_000 - 3_600_000
        assert timestamp == {"earliest": -2, "latest": -1, "by_duration:PT1H": hour_ago}.get(strategy, 0)


async def test_the_strategy_none_raises(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(auto_offset_reset="none")
    async with fake_cluster(topics={"orders": 1}) as (brokers, client), Consumer(client, config) as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(KcliError, match="no valid offset to read from: orders-0"):
            await consumer.poll()
        fill(brokers, batch(0, [b"x"]), end_offset=1)
        consumer.seek(ORDERS_0, 50)
        with pytest.raises(KafkaError, match="offset 50 is out of range for orders-0"):
            await consumer.poll()


async def test_an_offset_out_of_range_falls_back_to_the_strategy(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"]), end_offset=1)
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 50)
        (part,) = await consumer.poll()
        assert part.records[0].offset == 0


async def test_a_seek_wins_over_a_reset_under_way(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        brokers.script(ListOffsetsRequest, _slowly)
        consumer.assign([ORDERS_0])
        await trio.sleep(0.5)
        consumer.seek(ORDERS_0, 4)
        assert [offset for offset, _ in await read_until(consumer, ORDERS_0, 10)] == [4, 5, 6, 7, 8, 9]


async def test_an_answer_from_before_a_seek_is_dropped(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        brokers.script(FetchRequest, _slowly)
        consumer.assign([ORDERS_0])
        await trio.sleep(0.5)
        consumer.seek(ORDERS_0, 8)
        assert [offset for offset, _ in await read_until(consumer, ORDERS_0, 10)] == [8, 9]


async def test_a_reset_while_a_fetch_is_about_to_leave_wins(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        consumer.assign([ORDERS_0])
        assert len(await read_until(consumer, ORDERS_0, 10)) == 10
        brokers.open_seconds = 1.0
        brokers.disconnect(1)
        await trio.sleep(0.5)
        brokers.script(ListOffsetsRequest, _slowly)
        consumer.seek_to_end(ORDERS_0)
        assert await consumer.position(ORDERS_0) == 10
        offsets = [
            row.fetch_offset
            for request in brokers.received(FetchRequest)
            for topic in request.topics
            for row in topic.partitions
        ]
        assert -1 not in offsets


async def test_a_seek_while_a_fetch_is_about_to_leave_is_fetched_from(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        consumer.assign([ORDERS_0])
        brokers.open_seconds = 1.0
        assert await consumer.position(ORDERS_0) == 0
        await trio.sleep(0.5)
        consumer.seek(ORDERS_0, 5)
        (part,) = await consumer.poll(timeout_ms=3000)
        assert part.records[0].offset == 5


async def test_pausing_loses_and_repeats_nothing(autojump_clock: trio.testing.MockClock) -> None:
    other = TopicPartition("orders", 1)
    async with (
        fake_cluster(topics={"orders": 2}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        for index in range(2):
            fill(brokers, batch(0, [b"x"] * 10), batch(10, [b"y"] * 10), end_offset=20, partition=index)
        consumer.assign([ORDERS_0, other])
        seen: dict[TopicPartition, list[int]] = {ORDERS_0: [], other: []}
        for turn in range(30):
            if turn == 2:
                consumer.pause(ORDERS_0)
                assert consumer.paused == {ORDERS_0}
            if turn == 20:
                consumer.resume(ORDERS_0)
            for part in await consumer.poll(3, timeout_ms=50):
                assert not (part.partition == ORDERS_0 and 2 <= turn < 20)
                seen[part.partition] += [record.offset for record in part.records]
        assert seen == {ORDERS_0: list(range(20)), other: list(range(20))}


async def test_what_is_not_assigned_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (_, client), Consumer(client) as consumer:
        with pytest.raises(NotAssigned, match="orders-0 is not assigned"):
            consumer.seek(ORDERS_0, 1)
        consumer.assign([ORDERS_0])
        with pytest.raises(ValueError, match="-1"):
            consumer.seek(ORDERS_0, -1)


async def test_two_tasks_may_not_poll(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (_, client), Consumer(client) as consumer:
        consumer.assign([ORDERS_0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(consumer.poll)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConcurrentUse):
                await consumer.poll()
            nursery.cancel_scope.cancel()


async def test_a_cancelled_poll_loses_no_record(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 50), end_offset=50)
        consumer.assign([ORDERS_0])
        seen: list[int] = []
        with trio.fail_after(30):
            while len(seen) < 50:
                with trio.CancelScope() as scope:
                    if len(seen) % 2:
                        scope.cancel()
                    for part in await consumer.poll(1):
                        seen += [record.offset for record in part.records]
                if scope.cancelled_caught:
                    seen += [record.offset for part in await consumer.poll(1) for record in part.records]
        assert seen == list(range(50))
