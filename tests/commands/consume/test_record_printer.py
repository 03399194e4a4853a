"""RecordPrinter: where it ends if the first records are deleted. In virtual time."""

from __future__ import annotations

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.completed_fetch import FetchedRecords
from kcli.commands.consume.record_output import ByThread, RecordOutput
from kcli.commands.consume.record_printer import Limits, RecordPrinter
from kcli.protocol.records.record import Record
from kcli.protocol.topics import TopicPartition
from tests.client.fake_brokers import FakeBrokers, fake_cluster
from tests.client.fetch.fetched_batches import ORDERS_0, batch, fill

SECONDS = 3600.0
OTHER = TopicPartition("orders", 1)


def not_printed(fetched: FetchedRecords, record: Record) -> bytes:
    raise AssertionError(f"{fetched.partition}@{record.offset} is printed")


def printing(consumer: Consumer, limits: Limits) -> RecordPrinter:
    """Return a printer without records."""
    output = RecordOutput(ByThread())
    return RecordPrinter(consumer, not_printed, output=output, limits=limits, skip_errors=False)


def delete_before(brokers: FakeBrokers, offset: int, *, partition: int = 0) -> None:
    """Make a partition of ten records, of which those before an offset are deleted."""
    left = [batch(offset, [b"x"] * (10 - offset))] if offset < 10 else []
    fill(brokers, *left, end_offset=10, partition=partition)
    brokers.topics["orders"][partition].start_offset = offset


@pytest.mark.parametrize("max_messages", [None, 1])
@pytest.mark.parametrize(
    ("strategy", "first"),
    [("latest", 3), ("latest", 10), ("earliest", 10), ("by_duration:PT1H", 10)],
)
async def test_a_position_that_is_reset_to_the_end_ends_it(
    strategy: str, first: int, max_messages: int | None, autojump_clock: trio.testing.MockClock
) -> None:
    config = ConsumerConfig(auto_offset_reset=strategy)
    async with fake_cluster(topics={"orders": 1}) as (brokers, client), Consumer(client, config) as consumer:
        delete_before(brokers, first)
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 1)
        limits = Limits(max_messages, end_offsets={ORDERS_0: 10})
        printer = printing(consumer, limits)
        with trio.fail_after(SECONDS):
            await printer.run()
        assert printer.count == 0
        assert consumer.position_nowait(ORDERS_0) == 10


async def test_it_ends_when_the_last_partition_is_at_its_end(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 2}) as (brokers, client), Consumer(client) as consumer:
        for index in range(2):
            delete_before(brokers, 10, partition=index)
        consumer.assign([ORDERS_0, OTHER])
        consumer.seek(ORDERS_0, 10)
        consumer.seek(OTHER, 0)
        limits = Limits(end_offsets={ORDERS_0: 10, OTHER: 10})
        with trio.fail_after(SECONDS):
            await printing(consumer, limits).run()
        assert consumer.position_nowait(OTHER) == 10


async def test_silence_ends_it_however_often_it_looks(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client), Consumer(client) as consumer:
        delete_before(brokers, 10)
        consumer.assign([ORDERS_0])
        limits = Limits(timeout_ms=5000, end_offsets={ORDERS_0: 11})
        began = trio.current_time()
        with trio.fail_after(SECONDS):
            await printing(consumer, limits).run()
        assert trio.current_time() - began == pytest.approx(5, abs=1)
