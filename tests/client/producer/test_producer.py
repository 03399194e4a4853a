"""A producer delivers its records in order and once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.config import ProducerConfig
from kcli.client.producer.producer import Producer, ProducerClosed
from kcli.client.producer.producer_batch import Delivery, DeliveryRun
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.records.batch import RecordBatch
from tests.client.fake_brokers import fake_cluster
from tests.client.producer.sending import TOPICS, send_all, send_in_runs, values


async def test_records_arrive_in_order_with_their_offsets(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        deliveries = await send_all(producer, values(5000))
        results = [await delivery.wait() for delivery in deliveries]
        assert [result.offset for result in results] == list(range(5000))
        assert brokers.topics["orders"][0].values() == values(5000)
        assert producer.budget.available == producer.budget.total


@pytest.mark.parametrize("codec", ["none", "lz4"])
async def test_values_in_runs_arrive_as_one_by_one(
    codec: str, autojump_clock: trio.testing.MockClock
) -> None:
    config = ProducerConfig(compression_type=codec, linger_ms=5)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        runs = await send_in_runs(producer, values(5000))
        assert len(runs) < 50
        settled: list[DeliveryRun] = []
        for run in runs:
            run.on_settled(settled.append)
        await producer.flush()
        assert settled == runs
        assert all(run.is_delivered for run in runs)
        assert [delivery.result().offset for run in runs for delivery in run] == list(range(5000))
        assert brokers.topics["orders"][0].values() == values(5000)
        assert producer.budget.available == producer.budget.total


async def test_values_in_runs_spread_over_the_partitions(autojump_clock: trio.testing.MockClock) -> None:
    config = ProducerConfig(linger_ms=5, batch_size=1000)
    async with fake_cluster(topics={"orders": 3}) as (brokers, client), Producer(client, config) as producer:
        await send_in_runs(producer, values(3000))
        await producer.flush()
        counts = [len(partition.values()) for partition in brokers.topics["orders"]]
        assert sum(counts) == 3000
        assert min(counts) > 0
        await send_in_runs(producer, values(10), partition=2)
        await producer.flush()
        assert len(brokers.topics["orders"][2].values()) == counts[2] + 10


@pytest.mark.parametrize("partitions", [2, 3, 4, 5])
@pytest.mark.parametrize("memory", [100_000, 2_000], ids=["memory enough", "memory for two batches"])
async def test_values_in_runs_go_round_the_partitions(
    partitions: int, memory: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ProducerConfig(linger_ms=5, batch_size=1000, buffer_memory=memory, partitioner="roundrobin")
    topics = {"orders": partitions}
    async with fake_cluster(topics=topics) as (brokers, client), Producer(client, config) as producer:
        await send_in_runs(producer, values(600))
        await producer.flush()
        found = sorted((partition.values() for partition in brokers.topics["orders"]), key=min)
    assert sorted(map(len, found)) == sorted(
        len(values(600)[start::partitions]) for start in range(partitions)
    )


async def test_a_value_that_is_too_large_stands_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        records = [b"a", b"b", bytes(1_048_576), b"c"]
        first = await producer.send_values("orders", records)
        second = await producer.send_values("orders", records, first.count)
        assert (first.count, second.count) == (1, 1)
        with pytest.raises(KafkaError) as raised:
            await producer.send_values("orders", records, 2)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        await producer.send_values("orders", records, 3)
        await producer.flush()
        assert brokers.topics["orders"][0].values() == [b"a", b"b", b"c"]
        await producer.close()
        with pytest.raises(ProducerClosed):
            await producer.send_values("orders", records)


async def test_leaving_the_block_delivers_everything(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client):
        async with Producer(client, ProducerConfig(linger_ms=60_000)) as producer:
            await send_all(producer, values(10))
        assert brokers.topics["orders"][0].values() == values(10)
        with pytest.raises(ProducerClosed):
            producer.send_nowait("orders", b"late")


async def test_leaving_the_block_by_an_exception_fails_what_is_left(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics=TOPICS) as (_, client):
        deliveries: list[Delivery] = []
        producer = Producer(client, ProducerConfig(linger_ms=60_000))

        async def fail_inside() -> None:
            async with producer:
                deliveries.extend(await send_all(producer, values(3)))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_inside()
        with pytest.raises(KafkaError, match="the producer was closed"):
            deliveries[0].result()
        assert producer.budget.available == producer.budget.total


async def test_a_hundred_concurrent_sends_make_one_metadata_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        before = len(brokers.received(MetadataRequest))
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(producer.send, "orders", b"%d" % number)
        assert len(brokers.received(MetadataRequest)) - before == 1


async def test_concurrent_senders_fill_their_batches(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:

        async def many(task: int) -> None:
            for number in range(40):
                await producer.send("orders", b"%d-%d-" % (task, number) + bytes(200))

        async with trio.open_nursery() as nursery:
            for task in range(50):
                nursery.start_soon(many, task)
        await producer.flush()
        sizes = [len(data) for data in brokers.topics["orders"][0].batches]
        assert all(size > 15_500 for size in sizes[:-1])
        assert len(brokers.topics["orders"][0].values()) == 2000


async def test_senders_that_waited_together_share_one_batch(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(producer.send, "orders", b"%d" % number)
        await producer.flush()
        assert [RecordBatch(data).count for data in brokers.topics["orders"][0].batches] == [50]
        assert producer.budget.available == producer.budget.total


async def test_an_explicit_partition_a_key_a_timestamp_and_headers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics={"orders": 3}) as (brokers, client), Producer(client) as producer:
        delivery = await producer.send(
            "orders", b"v", b"k", partition=2, timestamp=1234, headers=[("h", b"x"), ("n", None)]
        )
        where = await delivery.wait()
        assert (where.partition, where.offset, where.timestamp) == (2, 0, 1234)
        (record,) = RecordBatch(brokers.topics["orders"][2].batches[0]).records()
        assert (record.key, record.timestamp, list(record.headers)) == (
            b"k",
            1234,
            [("h", b"x"), ("n", None)],
        )
        for partition in (3, -1):
            with pytest.raises(KafkaError, match=f"no partition {partition}, it has 3"):
                await producer.send("orders", b"v", partition=partition)


async def test_an_unknown_topic_fails_after_max_block_and_names_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster() as (_, client), Producer(client, ProducerConfig(max_block_ms=2000)) as producer:
        start = trio.current_time()
        with pytest.raises(KafkaError, match="metadata of topic nope"):
            await producer.send("nope", b"v")
        assert trio.current_time() - start == pytest.approx(2)


async def test_a_record_larger_than_the_limit_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (_, client), Producer(client) as producer:
        with pytest.raises(KafkaError) as raised:
            await producer.send("orders", bytes(1_048_576))
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
        await (await producer.send("orders", bytes(1_048_000))).wait()


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": "1", "enable_idempotence": True},
        {"retries": 0, "enable_idempotence": True},
        {"max_in_flight_requests_per_connection": 6},
        {"delivery_timeout_ms": 30_000},
    ],
)
def test_conflicting_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ProducerConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, True), ({"acks": "1"}, False), ({"acks": "0"}, False), ({"retries": 0}, False)],
)
def test_idempotence_gives_way_to_other_settings(settings: dict[str, Any], expected: bool) -> None:
    assert ProducerConfig(**settings).is_idempotent is expected
