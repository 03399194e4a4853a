"""A producer warns of what delays its records: once per subject, and when time runs out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kcli.client.config import ProducerConfig
from kcli.client.producer.producer import Producer
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import ProduceRequest
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster
from tests.client.producer.sending import TOPICS, produced, send_all, values

TOO_FEW = "NOT_ENOUGH_REPLICAS: replicas in sync: 1, needed: 2"
SHORT = ProducerConfig(delivery_timeout_ms=10_000, request_timeout_ms=5_000, linger_ms=0)


def too_few() -> Any:
    return produced(19, error_message=TOO_FEW.partition(": ")[2])


@asynccontextmanager
async def telling(
    config: ProducerConfig, *, nodes: int = 1, topics: Mapping[str, int] = TOPICS
) -> AsyncIterator[tuple[FakeBrokers, Producer, list[str]]]:
    """Brokers, a connected producer, and its warnings."""
    told: list[str] = []
    async with (
        fake_cluster(nodes=nodes, topics=topics) as (brokers, client),
        Producer(client, config, warn=told.append) as producer,
    ):
        yield brokers, producer, told


async def test_an_error_that_goes_on_is_told_once_and_named_at_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        brokers.script(ProduceRequest, *[too_few()] * 100)
        deliveries = await send_all(producer, values(2))
        await trio.sleep(5)
        assert told == [f"orders-0: still trying: {TOO_FEW}"]
        # Later records are not delivered for the same reason.
        deliveries.append(await producer.send("orders", b"later"))
        for delivery in deliveries:
            with pytest.raises(KafkaError) as raised:
                await delivery.wait()
            assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
            assert raised.value.message == f"not delivered within 10000 ms: {TOO_FEW}"
        assert len(brokers.received(ProduceRequest)) > 5
        assert len(told) == 1


async def test_a_short_one_is_not_told(autojump_clock: trio.testing.MockClock) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        brokers.script(ProduceRequest, too_few(), Disconnect)
        await (await producer.send("orders", b"v")).wait()
    assert told == []


async def test_one_after_a_long_linger_is_not_told(autojump_clock: trio.testing.MockClock) -> None:
    lingering = ProducerConfig(linger_ms=60_000)
    async with telling(lingering) as (brokers, producer, told):
        brokers.script(ProduceRequest, too_few())
        await (await producer.send("orders", b"v")).wait()
        assert trio.current_time() > 60
    assert told == []


async def test_another_error_is_told_too_and_the_last_is_named(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        # About once a second from the fifth on.
        both = [too_few(), produced(5)] * 50
        brokers.script(ProduceRequest, *both)
        with pytest.raises(KafkaError, match=r"within 10000 ms: (NOT_ENOUGH|LEADER_NOT)"):
            await (await producer.send("orders", b"v")).wait()
    assert sorted(told) == [
        "orders-0: still trying: LEADER_NOT_AVAILABLE: the partition has no leader at the moment",
        f"orders-0: still trying: {TOO_FEW}",
    ]


async def test_an_error_of_long_ago_is_not_to_blame(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, SHORT) as producer:
        brokers.script(ProduceRequest, too_few())
        await (await producer.send("orders", b"v")).wait()
        await trio.sleep(60)
        brokers.script(ProduceRequest, NoAnswer, NoAnswer)
        with pytest.raises(KafkaError) as raised:
            await (await producer.send("orders", b"w")).wait()
        assert "NOT_ENOUGH_REPLICAS" not in raised.value.message
        assert "REQUEST_TIMED_OUT" in raised.value.message


async def test_the_last_retry_names_its_error(autojump_clock: trio.testing.MockClock) -> None:
    config = ProducerConfig(retries=1)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        brokers.script(ProduceRequest, too_few(), too_few())
        with pytest.raises(KafkaError) as raised:
            await (await producer.send("orders", b"v")).wait()
        assert (raised.value.code.name, raised.value.message) == ("NOT_ENOUGH_REPLICAS", TOO_FEW)


async def test_a_broker_that_is_away_is_told_once_for_all_its_partitions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with telling(SHORT, nodes=2, topics={"orders": 4}) as (brokers, producer, told):
        for partition in range(4):
            await (await producer.send("orders", b"v", partition=partition)).wait()
        brokers.down.add("broker-2")
        brokers.disconnect(2)
        leaders = [partition.leader for partition in brokers.topics["orders"]]
        assert leaders.count(2) == 2
        deliveries = [await producer.send("orders", b"w", partition=partition) for partition in range(4)]
        for leader, delivery in zip(leaders, deliveries, strict=True):
            if leader == 2:
                with pytest.raises(KafkaError, match="not delivered within 10000 ms: NETWORK_EXCEPTION: "):
                    await delivery.wait()
            else:
                await delivery.wait()
    [line] = told
    assert line.startswith("broker 2: still trying: NETWORK_EXCEPTION: ")


async def test_a_cluster_that_is_away_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        await (await producer.send("orders", b"v")).wait()
        brokers.down.add("broker-1")
        brokers.disconnect(1)
        with pytest.raises(KafkaError, match="not delivered within 10000 ms: NETWORK_EXCEPTION: "):
            await (await producer.send("orders", b"w")).wait()
    assert told
    assert all(": still trying: NETWORK_EXCEPTION: " in line for line in told)
    assert len(set(told)) == len(told) <= 2


async def test_a_partition_without_a_leader_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        await (await producer.send("orders", b"v")).wait()
        brokers.topics["orders"][0].leader = -1
        brokers.script(ProduceRequest, produced(6))
        no_leader = "LEADER_NOT_AVAILABLE: the partition has no leader at the moment"
        with pytest.raises(KafkaError, match=f"not delivered within 10000 ms: {no_leader}"):
            await (await producer.send("orders", b"w")).wait()
    assert told == [f"orders-0: still trying: {no_leader}"]


async def test_a_producer_id_that_does_not_come_is_told(autojump_clock: trio.testing.MockClock) -> None:
    async with telling(SHORT) as (brokers, producer, told):
        refused = InitProducerIdResponse(error_code=14, producer_epoch=0)
        brokers.script(InitProducerIdRequest, *[refused] * 100)
        with pytest.raises(KafkaError, match="within 10000 ms: COORDINATOR_LOAD_IN_PROGRESS: "):
            await (await producer.send("orders", b"v")).wait()
    loading = "COORDINATOR_LOAD_IN_PROGRESS: the coordinator is still loading its state"
    assert told == [f"producer id: still trying: {loading}"]
