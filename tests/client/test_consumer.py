"""A consumer hands out every record once, in order, and its position passes over what it must not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from kcli.client.completed_fetch import BadFetch, end_of
from kcli.client.config import ClientConfig, ConsumerConfig, ProducerConfig
from kcli.client.consumer import ConcurrentUse, Consumer
from kcli.client.fetch_session import FetchSession, FetchTarget
from kcli.client.metadata import TopicPartition
from kcli.client.producer import Producer
from kcli.client.subscription import NotAssigned
from kcli.errors import KcliError
from kcli.protocol.compression import Codec
from kcli.protocol.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.message_set import MessageSetBuilder
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.record_batch import RecordBatchBuilder
from tests.client.fake_brokers import Disconnect, FakeBrokers, fake_cluster

ORDERS_0 = TopicPartition("orders", 0)
EARLIEST = ConsumerConfig(auto_offset_reset="earliest")


def batch(base_offset: int, values: Sequence[bytes], **fields: Any) -> bytes:
    builder = RecordBatchBuilder(base_offset=base_offset, **fields)
    for value in values:
        builder.append(1000, None, value)
    return bytes(builder.build())


def fill(brokers: FakeBrokers, *batches: bytes, end_offset: int, partition: int = 0) -> None:
    """Put batches into a partition's log as they are."""
    log = brokers.topics["orders"][partition]
    log.batches = list(batches)
    log.end_offset = end_offset


def fetched(data: bytes, *, code: int = 0, session_id: int = 0, **fields: Any) -> FetchResponse:
    """Return an answer about orders-0."""
    row = PartitionData(partition_index=0, error_code=code, high_watermark=99, records=data, **fields)
    topic = FetchableTopicResponse(topic_id=FakeBrokers.topic_id("orders"), topic="orders", partitions=[row])
    return FetchResponse(responses=[topic], session_id=session_id)


async def read_until(
    consumer: Consumer, partition: TopicPartition, end: int
) -> list[tuple[int, bytes | None]]:
    """Read up to a position, as a bounded read does."""
    records: list[tuple[int, bytes | None]] = []
    with trio.fail_after(60):
        while (consumer.position_nowait(partition) or 0) < end:
            for part in await consumer.poll():
                records += [(record.offset, record.value) for record in part.records]
    return records


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
            with pytest.raises(BadFetch, match="orders-0@1: the checksum does not match"):
                await consumer.poll()
        consumer.seek(ORDERS_0, 2)
        assert await read_until(consumer, ORDERS_0, 3) == [(2, b"c")]


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


async def _slowly(node_id: int, request: Any, version: int) -> None:
    await trio.sleep(1)


# --- positions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "expected"), [("earliest", 0), ("latest", 20), ("by_duration:PT1H", 20)]
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
        assert timestamp == {"earliest": -2, "latest": -1}.get(strategy, 10_000_000 - 3_600_000)


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


# --- errors of fetching ------------------------------------------------------------------------------------


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


# --- sessions and sizes ------------------------------------------------------------------------------------


def target(offset: int, topic_id: bytes = b"\x01" * 16) -> FetchTarget:
    return FetchTarget(topic_id, offset, 1000, 0)


def test_a_session_names_only_what_changed() -> None:
    session = FetchSession()
    a, b, c = (TopicPartition("t", index) for index in range(3))
    topics, forgotten = session.build({a: target(0), b: target(0)})
    assert (session.session_id, session.epoch) == (0, 0)
    assert [row.partition for row in topics[0].partitions] == [0, 1]
    assert forgotten == []
    session.answered(77)
    topics, forgotten = session.build({a: target(5), b: target(0), c: target(0)})
    assert (session.session_id, session.epoch) == (77, 1)
    assert [row.partition for row in topics[0].partitions] == [0, 2]
    session.answered(77)
    topics, forgotten = session.build({b: target(0), c: target(0)})
    assert topics == []
    assert [(row.topic, row.partitions) for row in forgotten] == [("t", [0])]


def test_a_topic_made_anew_is_forgotten_and_named_again() -> None:
    session = FetchSession()
    a = TopicPartition("t", 0)
    session.build({a: target(0)})
    session.answered(77)
    topics, forgotten = session.build({a: target(0, b"\x02" * 16)})
    assert [row.topic_id for row in topics] == [b"\x02" * 16]
    assert [row.topic_id for row in forgotten] == [b"\x01" * 16]


def test_session_epochs_wrap_to_1_and_a_reset_starts_over() -> None:
    session = FetchSession()
    session.answered(77)
    session.epoch = 2**31 - 1
    session.answered(77)
    assert session.epoch == 1
    session.answered(0)
    assert (session.session_id, session.epoch) == (0, 0)


async def test_incremental_fetches_go_on_in_their_session(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        fake_cluster(topics={"orders": 1}) as (brokers, client),
        Consumer(client, EARLIEST) as consumer,
    ):
        answers = [fetched(batch(number, [b"x"]), session_id=7) for number in range(3)]
        brokers.script(FetchRequest, *answers)
        consumer.assign([ORDERS_0])
        await read_until(consumer, ORDERS_0, 3)
        requests = brokers.received(FetchRequest)
        assert [(request.session_id, request.session_epoch) for request in requests[:3]] == [
            (0, 0),
            (7, 1),
            (7, 2),
        ]


def test_the_end_of_fetched_data_is_found_from_its_sizes() -> None:
    data = batch(5, [b"a", b"b"]) + bytes(RecordBatchBuilder(base_offset=7).build(last_offset=11))
    assert end_of(data, 5) == 12
    assert end_of(data + data[:30], 5) == 12
    assert end_of(data[:30], 5) == 5
    assert end_of(b"", 5) == 5
