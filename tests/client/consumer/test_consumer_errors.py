"""Errors of fetches: retriable ones are retried, the others are raised."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import Disconnect, FakeBrokers, fake_cluster
from tests.client.fetch.fetched_batches import EARLIEST, ORDERS_0, batch, fetched, fill, read_until


@pytest.mark.parametrize(
    "trouble",
    [Disconnect, fetched(b"", code=6), fetched(b"", code=3), fetched(b"", code=75), fetched(b"", code=-1),
     FetchResponse(error_code=70, responses=[]), FetchResponse(error_code=71, responses=[])],
    ids=["disconnect", "not leader", "unknown", "newer epoch", "unknown error", "no session", "bad epoch"],
)  # fmt: skip
async def test_what_may_pass_is_fetched_again(trouble: Any, autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        brokers.script(FetchRequest, trouble, trouble)
        consumer.assign([ORDERS_0])
        assert len(await read_until(consumer, ORDERS_0, 10)) == 10


async def test_a_refusal_is_raised(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        brokers.script(FetchRequest, fetched(b"", code=29))
        consumer.assign([ORDERS_0])
        with pytest.raises(KafkaError, match="cannot read orders-0@0") as raised:
            await consumer.poll()
        assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_an_unknown_topic_is_raised(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster() as (_, client), Consumer(client, EARLIEST) as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(KafkaError, match="orders-0: "):
            await consumer.poll()


async def test_a_reset_that_fails_backs_off_while_nobody_polls(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (brokers, client), Consumer(client, EARLIEST) as consumer:
        consumer.assign([ORDERS_0])
        await trio.sleep(2)
        # 0.1 + 0.2 + 0.4 + 0.8 seconds apart, and as often for the snapshot.
        assert len(brokers.received(MetadataRequest)) < 20
        brokers.add_topic("orders", 1)
        fill(brokers, batch(0, [b"x"]), end_offset=1)
        with pytest.raises(KafkaError, match="orders-0: "):
            await consumer.poll()
        assert await read_until(consumer, ORDERS_0, 1) == [(0, b"x")]


async def test_the_strategy_none_keeps_no_other_partition_waiting(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ConsumerConfig(auto_offset_reset="none")
    async with fake_cluster(topics={"orders": 2}) as (_, client), Consumer(client, config) as consumer:
        consumer.assign([ORDERS_0, TopicPartition("orders", 1)])
        consumer.seek_to_beginning(ORDERS_0)
        with pytest.raises(KcliError, match="no valid offset to read from: orders-1"):
            await consumer.poll()
        assert await consumer.position(ORDERS_0) == 0


async def test_a_new_leader_named_in_the_answer_is_asked_next(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(nodes=2, topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"x"] * 10), end_offset=10)
        moved = fetched(b"", code=6, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
        brokers.script(FetchRequest, moved)
        consumer.assign([ORDERS_0])
        assert len(await read_until(consumer, ORDERS_0, 10)) == 10
        nodes = [entry.node_id for entry in brokers.requests if isinstance(entry.request, FetchRequest)]
        assert nodes[:2] == [1, 2]


async def test_busy_partitions_do_not_wait_for_idle_ones(autojump_clock: trio.testing.MockClock) -> None:
    idle = TopicPartition("orders", 1)
    async with (
        fake_cluster(topics={"orders": 2}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        batches = [batch(index * 10, [bytes(100)] * 10) for index in range(200)]
        fill(brokers, *batches, end_offset=2000)

        def one_batch(name: str, row: Any) -> PartitionData:
            data = FakeBrokers.partition_data(brokers, name, row)
            data.records = data.records[: len(batches[0])] if data.records else data.records
            return data

        brokers.partition_data = one_batch  # type: ignore[method-assign]
        consumer.assign([ORDERS_0, idle])
        start = trio.current_time()
        assert len(await read_until(consumer, ORDERS_0, 2000)) == 2000
        assert trio.current_time() - start < 2
