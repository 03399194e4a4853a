"""A consumer hands out every record once, in order, and its position skips hidden records."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.completed_fetch import BadFetch
from kcli.client.producer.producer import Producer
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.messages.fetch import AbortedTransaction, FetchRequest
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import fake_cluster
from tests.client.fetch.fetched_batches import EARLIEST, ORDERS_0, batch, fetched, fill, read_until


async def test_everything_is_read_once_and_in_order(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig()
    async with fake_cluster(config, nodes=2, topics={"orders": 5}) as (_, client):
        async with Producer(client, ProducerConfig(batch_size=2000)) as producer:
            for number in range(3000):
                await producer.send("orders", b"%d" % number, b"%d" % (number % 37))
        partitions = [TopicPartition("orders", index) for index in range(5)]
        async with Consumer(client, EARLIEST) as consumer:
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            seen: list[int] = []
            while any((consumer.position_nowait(one) or 0) < end for one, end in ends.items()):
                for part in await consumer.poll(7):
                    offsets = [record.offset for record in part.records]
                    assert offsets == sorted(offsets)
                    seen += [int(record.value or b"") for record in part.records]
            assert sorted(seen) == list(range(3000))
            for residue in range(37):
                mine = [number for number in seen if number % 37 == residue]
                assert mine == sorted(mine)


async def test_max_records_is_exact_and_reading_goes_on_behind_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(brokers, batch(0, [b"%d" % number for number in range(20)]), end_offset=20)
        consumer.assign([ORDERS_0])
        (first,) = await consumer.poll(7)
        (second,) = await consumer.poll(7)
        assert [record.offset for record in first.records + second.records] == list(range(14))
        assert await consumer.position(ORDERS_0) == 14


async def test_a_poll_without_news_ends_with_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (_, client), Consumer(client) as consumer:
        consumer.assign([ORDERS_0])
        start = trio.current_time()
        assert await consumer.poll(timeout_ms=3000) == []
        assert trio.current_time() - start == pytest.approx(3)


async def test_the_position_passes_compaction_gaps(autojump_clock: trio.testing.MockClock) -> None:
    holed = RecordBatchBuilder(base_offset=10)
    holed.append(0, None, b"ten")
    holed.append(0, None, b"twelve", offset=12)
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        fill(
            brokers,
            batch(0, [b"zero"]),
            bytes(holed.build(last_offset=15)),
            bytes(RecordBatchBuilder(base_offset=20).build(last_offset=29)),
            end_offset=30,
        )
        consumer.assign([ORDERS_0])
        assert await read_until(consumer, ORDERS_0, 30) == [(0, b"zero"), (10, b"ten"), (12, b"twelve")]
        assert await consumer.position(ORDERS_0) == 30


async def test_a_batch_may_begin_before_the_position(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client), Consumer(client) as consumer:
        fill(brokers, batch(0, [b"%d" % number for number in range(10)]), end_offset=10)
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 6)
        assert [offset for offset, _ in await read_until(consumer, ORDERS_0, 10)] == [6, 7, 8, 9]


def transaction_log() -> tuple[bytes, list[AbortedTransaction]]:
    """Return a log with one committed, one aborted and one plain producer; the aborted one writes twice."""
    mine: dict[str, Any] = {"is_transactional": True, "producer_epoch": 0, "base_sequence": 0}

    def end(kind: ControlRecordType, producer_id: int, offset: int) -> bytes:
        marker = EndTxnMarker(kind, 0)
        return bytes(
            end_txn_batch(marker, timestamp=0, producer_id=producer_id, producer_epoch=0, base_offset=offset)
        )

    parts = [
        batch(0, [b"kept-0"], producer_id=1, **mine),
        batch(1, [b"lost-1", b"lost-2"], producer_id=2, **mine),
        batch(3, [b"plain-3"]),
        end(ControlRecordType.ABORT, 2, 4),
        batch(5, [b"kept-5"], producer_id=2, **mine),
        end(ControlRecordType.COMMIT, 1, 6),
        end(ControlRecordType.COMMIT, 2, 7),
    ]
    return b"".join(parts), [AbortedTransaction(producer_id=2, first_offset=1)]


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [
        ("read_committed", [b"kept-0", b"plain-3", b"kept-5"]),
        ("read_uncommitted", [b"kept-0", b"lost-1", b"lost-2", b"plain-3", b"kept-5"]),
    ],
)
async def test_aborted_records_are_withheld_under_read_committed_and_control_records_always(
    isolation: str, expected: list[bytes], autojump_clock: trio.testing.MockClock
) -> None:
    config = ConsumerConfig(auto_offset_reset="earliest", isolation_level=isolation)
    async with fake_cluster(topics={"orders": 1}) as (brokers, client), Consumer(client, config) as consumer:
        data, aborted = transaction_log()
        brokers.topics["orders"][0].end_offset = 8
        brokers.script(FetchRequest, fetched(data, aborted_transactions=aborted))
        consumer.assign([ORDERS_0])
        assert [value for _, value in await read_until(consumer, ORDERS_0, 8)] == expected
        assert brokers.received(FetchRequest)[0].isolation_level == (isolation == "read_committed")


async def test_old_message_sets_are_read(autojump_clock: trio.testing.MockClock) -> None:
    old = MessageSetBuilder(magic=1, codec=Codec.GZIP, base_offset=0)
    for number in range(5):
        old.append(1000 + number, b"k", b"%d" % number)
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        brokers.topics["orders"][0].end_offset = 5
        brokers.script(FetchRequest, fetched(bytes(old.build())))
        consumer.assign([ORDERS_0])
        assert await read_until(consumer, ORDERS_0, 5) == [(number, b"%d" % number) for number in range(5)]


async def test_a_torn_tail_is_fetched_again(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        first, second = batch(0, [b"a"]), batch(1, [b"b"])
        fill(brokers, first, second, end_offset=2)
        brokers.script(FetchRequest, fetched(first + second[:-3]))
        consumer.assign([ORDERS_0])
        assert await read_until(consumer, ORDERS_0, 2) == [(0, b"a"), (1, b"b")]


async def test_damage_is_raised_with_its_place_until_sought_beyond(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        damaged = bytearray(batch(1, [b"b"]))
        damaged[-2] ^= 0xFF
        fill(brokers, batch(0, [b"a"]), bytes(damaged), batch(2, [b"c"]), end_offset=3)
        consumer.assign([ORDERS_0])
        (part,) = await consumer.poll()
        assert [record.offset for record in part.records] == [0]
        for _ in range(2):
            with pytest.raises(BadFetch, match="orders-0@1: the checksum does not match") as raised:
                await consumer.poll()
            assert raised.value.hint is not None
            assert raised.value.hint.startswith(
                "`-X check.crcs=false` reads on all the same, `kcli verify-index`"
            )
        consumer.seek(ORDERS_0, 2)
        assert await read_until(consumer, ORDERS_0, 3) == [(2, b"c")]


async def test_a_wrong_checksum_is_read_on_without_checks(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST.changed(check_crcs=False)) as consumer,
    ):
        damaged = bytearray(batch(1, [b"b"]))
        damaged[-2] ^= 0x03
        fill(brokers, batch(0, [b"a"]), bytes(damaged), batch(2, [b"c"]), end_offset=3)
        consumer.assign([ORDERS_0])
        assert await read_until(consumer, ORDERS_0, 3) == [(0, b"a"), (1, b"a"), (2, b"c")]


async def test_bytes_without_a_whole_batch_are_an_error(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        brokers.topics["orders"][0].end_offset = 1
        brokers.script(FetchRequest, fetched(batch(0, [b"a"])[:-1]))
        consumer.assign([ORDERS_0])
        with pytest.raises(BadFetch, match="no whole record batch at orders-0@0"):
            await consumer.poll()
