"""A producer retries retriable errors, keeps the order, and fails what it cannot deliver."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio

from kcli.client.client import Client
from kcli.client.config import ClientConfig, ProducerConfig
from kcli.client.network.metadata import Node
from kcli.client.producer.producer import Producer
from kcli.client.producer.producer_batch import DeliveryRun
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import BatchIndexAndErrorMessage, LeaderIdAndEpoch, ProduceRequest
from kcli.protocol.records.batch import RecordBatch
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster
from tests.client.producer.sending import TOPICS, batch_by_batch, produced, send_all, send_in_runs, values


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
        client = Client(
            [Node(-1, "broker-1", 9092)], ClientConfig(), nursery=nursery, open_stream=brokers.open_stream
        )
        await client.start()
        async with Producer(client) as producer:
            await (await producer.send("orders", b"v")).wait()
        assert {entry.version for entry in brokers.requests if isinstance(entry.request, ProduceRequest)} == {
            9
        }
        nursery.cancel_scope.cancel()
