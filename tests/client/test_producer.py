"""A producer delivers what it took, in order and once, and gives everything back when it cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio

from kcli.client.accumulator import Accumulator
from kcli.client.client import Client
from kcli.client.config import ClientConfig, ProducerConfig
from kcli.client.delivery import Delivery, DeliveryRun
from kcli.client.memory_budget import MemoryBudget
from kcli.client.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from kcli.client.producer import Producer, ProducerClosed
from kcli.client.sequences import Sequences
from kcli.errors import UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kcli.protocol.record_batch import RecordBatch
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster

TOPICS = {"orders": 1}


def produced(code: int, index: int = 0, **fields: Any) -> ProduceResponse:
    """Return an answer about one partition of `orders`."""
    row = PartitionProduceResponse(index=index, error_code=code, base_offset=-1, **fields)
    topic = TopicProduceResponse(
        name="orders", topic_id=FakeBrokers.topic_id("orders"), partition_responses=[row]
    )
    return ProduceResponse(responses=[topic])


def values(count: int, start: int = 0) -> list[bytes]:
    return [b"value-%d" % number for number in range(start, start + count)]


async def send_all(producer: Producer, records: list[bytes]) -> list[Delivery]:
    return [await producer.send("orders", value) for value in records]


async def batch_by_batch(producer: Producer, records: list[bytes]) -> list[Delivery]:
    """Send records each in a batch of its own, all on their way at the same time."""
    deliveries = []
    for value in records:
        deliveries.append(await producer.send("orders", value))
        await trio.sleep(0.01)
    return deliveries


async def test_records_arrive_in_order_with_their_offsets(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        deliveries = await send_all(producer, values(5000))
        results = [await delivery.wait() for delivery in deliveries]
        assert [result.offset for result in results] == list(range(5000))
        assert brokers.topics["orders"][0].values() == values(5000)
        assert producer.budget.available == producer.budget.total


async def send_in_runs(producer: Producer, records: list[bytes], **arguments: Any) -> list[DeliveryRun]:
    runs: list[DeliveryRun] = []
    position = 0
    while position < len(records):
        runs.append(await producer.send_values("orders", records, position, **arguments))
        position += runs[-1].count
    return runs


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


# --- errors and retries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "trouble",
    [
        Disconnect,
        produced(6),
        produced(19),
        produced(7),
        lambda node_id, request, version: _late_disconnect(),
    ],
    ids=["disconnect", "not leader", "not enough replicas", "timed out", "lost later"],
)
async def test_what_may_pass_is_sent_again(trouble: Any, autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        brokers.script(ProduceRequest, trouble, trouble)
        deliveries = await batch_by_batch(producer, values(4))
        assert [(await delivery.wait()).offset for delivery in deliveries] == [0, 1, 2, 3]
        assert brokers.topics["orders"][0].values() == values(4)


async def _late_disconnect() -> None:
    await trio.sleep(5)
    raise Disconnect


@pytest.mark.parametrize("in_flight", [1, 5])
async def test_a_lost_answer_neither_loses_duplicates_nor_reorders(
    in_flight: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ProducerConfig(max_in_flight_requests_per_connection=in_flight, linger_ms=0)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:

        def append_and_lose(node_id: int, request: ProduceRequest, version: int) -> Exception:
            brokers._ProduceRequest(node_id, request, version)
            return Disconnect()

        brokers.script(ProduceRequest, None, append_and_lose, None, None, append_and_lose)
        deliveries = await batch_by_batch(producer, values(20))
        for delivery in deliveries:
            await delivery.wait()
        assert brokers.topics["orders"][0].values() == values(20)


@pytest.mark.parametrize("position", [0, 1, 3])
async def test_a_batch_refused_for_good_lets_the_later_ones_through_in_order(
    position: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        brokers.script(ProduceRequest, *[None] * position, produced(87, error_message="bad record"))
        deliveries = await batch_by_batch(producer, values(8))
        await producer.flush()
        errors = [delivery.error for delivery in deliveries]
        assert [index for index, error in enumerate(errors) if error is not None] == [position]
        with pytest.raises(KafkaError, match="bad record"):
            deliveries[position].result()
        expected = [value for index, value in enumerate(values(8)) if index != position]
        assert brokers.topics["orders"][0].values() == expected
        epochs = [RecordBatch(data).producer_epoch for data in brokers.topics["orders"][0].batches]
        assert epochs == sorted(epochs)
        assert epochs[-1] == 1


async def test_named_records_get_their_own_text_and_the_others_a_common_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        errors = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
        brokers.script(ProduceRequest, produced(87, record_errors=errors))
        deliveries = await send_all(producer, values(3))
        await producer.flush()
        texts = [str(delivery.error) for delivery in deliveries]
        assert texts[1] == "no key"
        assert texts[0] == texts[2] != "no key"


async def test_a_batch_that_is_too_large_is_split_and_arrives_whole(
    autojump_clock: trio.testing.MockClock,
) -> None:
    def too_large(brokers: FakeBrokers) -> Any:
        def answer(node_id: int, request: ProduceRequest, version: int) -> Any:
            brokers.script(ProduceRequest, answer)
            sizes = [len(row.records or b"") for topic in request.topic_data for row in topic.partition_data]
            return produced(10) if max(sizes) > 10_000 else None

        return answer

    config = ProducerConfig(batch_size=100_000, linger_ms=50)
    called: list[int] = []
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        brokers.script(ProduceRequest, too_large(brokers))
        deliveries = await send_all(producer, values(20_000))
        deliveries[7].on_settled(lambda delivery: called.append(delivery.result().offset))
        await producer.flush()
        assert brokers.topics["orders"][0].values() == values(20_000)
        assert [delivery.result().offset for delivery in deliveries] == list(range(20_000))
        assert called == [7]
        assert producer.budget.available == producer.budget.total


async def test_a_run_in_a_batch_that_is_split_becomes_one_per_part(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ProducerConfig(batch_size=100_000, linger_ms=50)
    settled: list[DeliveryRun] = []
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        brokers.script(ProduceRequest, produced(10), produced(10))
        runs = await send_in_runs(producer, values(4000))
        runs[1].on_settled(settled.append)
        await producer.flush()
        offsets = [delivery.result().offset for run in settled for delivery in run]
        assert offsets == list(range(1, 4000))
        assert len(settled) > 1
        assert runs[1].is_delivered
        late: list[DeliveryRun] = []
        runs[1].on_settled(late.append)
        assert [run.count for run in late] == [run.count for run in settled]
        assert brokers.topics["orders"][0].values() == values(4000)


async def test_one_record_that_is_too_large_fails(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        brokers.script(ProduceRequest, produced(10))
        with pytest.raises(KafkaError) as raised:
            await (await producer.send("orders", b"x")).wait()
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_stopped_broker_fails_deliveries_within_a_second_of_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ProducerConfig(delivery_timeout_ms=10_000, request_timeout_ms=5_000, linger_ms=0)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        await (await producer.send("orders", b"first")).wait()
        brokers.down.add("broker-1")
        brokers.disconnect(1)
        start = trio.current_time()
        deliveries = await send_all(producer, values(3))
        for delivery in deliveries:
            with pytest.raises(KafkaError, match="not delivered within 10000 ms"):
                await delivery.wait()
        assert 10 <= trio.current_time() - start < 11
        assert producer.budget.available == producer.budget.total
        brokers.down.clear()
        assert (await (await producer.send("orders", b"again")).wait()).offset == 1


async def test_a_broker_away_for_ten_seconds_costs_nothing_but_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        await (await producer.send("orders", b"value-0")).wait()
        brokers.down.add("broker-1")
        brokers.disconnect(1)
        before = len(brokers.opened)
        deliveries = await batch_by_batch(producer, values(500, start=1))
        await trio.sleep(5)
        # Two connections, for metadata and for records, each tried about once a second.
        assert len(brokers.opened) - before < 40
        brokers.down.clear()
        for delivery in deliveries:
            await delivery.wait()
        assert brokers.topics["orders"][0].values() == values(501)


async def test_an_expired_batch_in_flight_leaves_a_gap_that_a_new_epoch_closes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ProducerConfig(delivery_timeout_ms=6_000, request_timeout_ms=5_000, linger_ms=0)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        await (await producer.send("orders", b"first")).wait()
        brokers.script(ProduceRequest, NoAnswer, NoAnswer)
        with pytest.raises(KafkaError, match="not delivered"):
            await (await producer.send("orders", b"lost")).wait()
        assert (await (await producer.send("orders", b"next")).wait()).offset == 1
        batches = [RecordBatch(data) for data in brokers.topics["orders"][0].batches]
        assert [(batch.producer_epoch, batch.base_sequence) for batch in batches] == [(0, 0), (1, 0)]


async def test_senders_blocked_on_memory_time_out_or_are_cancelled_and_leave_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ProducerConfig(buffer_memory=65_536, max_block_ms=3_000, delivery_timeout_ms=60_000)
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client, config) as producer:
        await (await producer.send("orders", b"first")).wait()
        brokers.script(ProduceRequest, *[_pause] * 9)
        outcomes: Counter[str] = Counter()

        async def sender(limit: float) -> None:
            with trio.move_on_after(limit) as scope:
                try:
                    await producer.send("orders", bytes(16_000))
                    outcomes["sent"] += 1
                except KafkaError as error:
                    outcomes[error.code.name] += 1
            if scope.cancelled_caught:
                outcomes["cancelled"] += 1

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(sender, 1 if number % 2 else 100)
        assert outcomes["sent"] == 4
        assert outcomes["cancelled"] + outcomes["REQUEST_TIMED_OUT"] == 16
        await producer.flush()
        assert producer.budget.available == producer.budget.total


async def _pause(node_id: int, request: Any, version: int) -> None:
    await trio.sleep(20)


async def test_acks_0_completes_without_an_offset(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics=TOPICS) as (brokers, client),
        Producer(client, ProducerConfig(acks="0")) as producer,
    ):
        delivery = await producer.send("orders", b"v")
        assert (await delivery.wait()).offset == -1
        await trio.testing.wait_all_tasks_blocked()
        assert brokers.topics["orders"][0].values() == [b"v"]
        assert brokers.received(InitProducerIdRequest) == []


async def test_an_answer_that_names_the_new_leader_is_followed_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(nodes=2, topics=TOPICS) as (brokers, client), Producer(client) as producer:
        await (await producer.send("orders", b"a")).wait()
        brokers.topics["orders"][0].leader = 2
        moved = produced(6, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1))
        brokers.script(ProduceRequest, moved)
        before = trio.current_time()
        await (await producer.send("orders", b"b")).wait()
        assert trio.current_time() - before < 0.05
        nodes = [entry.node_id for entry in brokers.requests if isinstance(entry.request, ProduceRequest)]
        assert nodes == [1, 1, 2]


async def test_a_fenced_producer_takes_nothing_more(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client), Producer(client) as producer:
        brokers.script(ProduceRequest, produced(90))
        with pytest.raises(KafkaError):
            await (await producer.send("orders", b"v")).wait()
        with pytest.raises(KafkaError) as raised:
            await producer.send("orders", b"w")
        assert raised.value.code is ErrorCode.PRODUCER_FENCED


async def test_the_producer_id_is_asked_until_given_and_refused_for_good(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fake_cluster(topics=TOPICS) as (brokers, client):
        refusals = [InitProducerIdResponse(error_code=code, producer_epoch=0) for code in (14, 15, 31)]
        async with Producer(client) as producer:
            brokers.script(InitProducerIdRequest, *refusals[:2])
            assert (await (await producer.send("orders", b"v")).wait()).offset == 0
        async with Producer(client) as producer:
            brokers.script(InitProducerIdRequest, refusals[2])
            with pytest.raises(KafkaError) as raised:
                await (await producer.send("orders", b"v")).wait()
            assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_brokers_without_topic_ids_are_spoken_to_by_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        brokers = FakeBrokers(nursery, topics=TOPICS)
        brokers.max_versions = {0: 9, 3: 8, 22: 1}
        client = Client([Node(-1, "broker-1", 9092)], ClientConfig(), nursery, brokers.open_stream)
        await client.start()
        async with Producer(client) as producer:
            await (await producer.send("orders", b"v")).wait()
        assert {entry.version for entry in brokers.requests if isinstance(entry.request, ProduceRequest)} == {
            9
        }
        nursery.cancel_scope.cancel()


# --- without a broker --------------------------------------------------------------------------------------


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


def one_node(partitions: int) -> ClusterMetadata:
    entries = {index: PartitionMetadata(index, leader=1) for index in range(partitions)}
    return ClusterMetadata(
        {1: Node(1, "one", 9092)}, topics={"orders": TopicMetadata("orders", partitions=entries)}
    )


def test_draining_takes_turns_over_a_hundred_partitions() -> None:
    cluster = one_node(100)
    accumulator = Accumulator(ProducerConfig(batch_size=100, linger_ms=0), MemoryBudget(10**9))
    for _ in range(3):
        for partition in range(100):
            accumulator.open_batch("orders", partition, 0.0, 0).append(0, None, bytes(50), ())
    served: list[int] = []
    while accumulator.ready(cluster, 1.0).nodes:
        served += [batch.partition.partition for batch in accumulator.drain(1, cluster, 300, 1.0)]
    for start in range(0, 300, 100):
        assert sorted(served[start : start + 100]) == list(range(100))


def test_one_batch_per_partition_and_the_first_whatever_its_size() -> None:
    cluster = one_node(2)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    for partition in (0, 0, 1):
        accumulator.open_batch("orders", partition, 0.0, 0).append(0, None, bytes(5000), ())
    assert len(accumulator.drain(1, cluster, 10, 1.0)) == 1
    assert len(accumulator.drain(1, cluster, 10**6, 1.0)) == 2


def test_a_batch_waits_its_linger_unless_something_wants_it_out() -> None:
    cluster = one_node(1)
    budget = MemoryBudget(100)
    accumulator = Accumulator(ProducerConfig(linger_ms=500), budget)
    accumulator.open_batch("orders", 0, 10.0, 0).append(0, None, b"v", ())
    check = accumulator.ready(cluster, 10.2)
    assert (check.nodes, check.next_check) == (set(), 10.5)
    assert accumulator.ready(cluster, 10.5).nodes == {1}
    accumulator.flushing = 1
    assert accumulator.ready(cluster, 10.2).nodes == {1}


def test_a_batch_sent_again_waits_its_backoff_unless_the_leader_is_new() -> None:
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    batch = accumulator.open_batch("orders", 0, 0.0, 0)
    batch.append(0, None, b"v", ())
    accumulator.flushing = 1
    batch.attempts, batch.retry_at, batch.leader_epoch = 1, 5.0, 3

    def at_epoch(epoch: int) -> ClusterMetadata:
        entry = PartitionMetadata(0, leader=1, leader_epoch=epoch)
        topic = TopicMetadata("orders", partitions={0: entry})
        return ClusterMetadata({1: Node(1, "one", 9092)}, topics={"orders": topic})

    assert accumulator.ready(at_epoch(3), 4.0).next_check == 5.0
    assert accumulator.ready(at_epoch(4), 4.0).nodes == {1}
    assert accumulator.ready(at_epoch(3), 5.0).nodes == {1}


def test_batches_come_back_in_the_order_of_their_first_draining() -> None:
    cluster = one_node(1)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    for number in range(4):
        accumulator.open_batch("orders", 0, 0.0, 0).append(0, None, b"%d" % number, ())
    drained = [accumulator.drain(1, cluster, 10**6, 1.0)[0] for _ in range(3)]
    for batch in (drained[1], drained[2], drained[0]):
        accumulator.put_back(batch)
    queue = list(accumulator.topics["orders"][0])
    assert queue[:3] == drained
    assert queue[3].drain_number == -1


def test_sequence_numbers_wrap_and_the_last_epoch_takes_a_new_producer_id() -> None:
    cluster = one_node(1)
    accumulator = Accumulator(ProducerConfig(linger_ms=0), MemoryBudget(10**9))
    sequences = Sequences()
    sequences.adopt(1000, 32767)
    accumulator.may_drain, accumulator.on_drain = sequences.may_drain, sequences.number

    def drain() -> Any:
        batch = accumulator.open_batch("orders", 0, 0.0, 0)
        batch.append(0, None, b"v", ())
        batch.append(0, None, b"w", ())
        return accumulator.drain(1, cluster, 10**6, 1.0)

    (first,) = drain()
    assert drain() == []  # the broker does not know the producer yet
    sequences.succeeded(first)
    sequences.came_back(first)
    (first,) = accumulator.drain(1, cluster, 10**6, 1.0)
    state = sequences._partitions[first.partition]
    state.next_sequence = 2**31 - 1
    (second,) = drain()
    assert (second.base_sequence, state.next_sequence) == (2**31 - 1, 1)
    for batch in (first, second):
        sequences.failed(batch)
        sequences.came_back(batch)
    assert sequences.last_epoch_is_used
    assert drain() == []
    sequences.adopt(2000, 0)
    (third,) = accumulator.drain(1, cluster, 10**6, 1.0)
    assert (third.producer_id, third.producer_epoch, third.base_sequence) == (2000, 0, 0)
