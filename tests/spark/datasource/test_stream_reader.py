"""The reader of streams, without Spark: offsets, limits, waiting, and reading only what is there now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from kcli.protocol.topics import TopicPartition
from kcli.spark.datasource import stream_reader
from kcli.spark.datasource.reader_options import source_options
from kcli.spark.datasource.stream_reader import KcliStreamReader
from kcli.spark.source.data_loss import DataLoss
from tests.spark.export.fake_source import FakeSource

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Clock:
    """Time that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    """What every reader of these tests opens: a topic of two partitions."""
    source = FakeSource.of(250, 50)

    @contextmanager
    def opened(_options: object) -> Iterator[FakeSource]:
        yield source

    monkeypatch.setattr(stream_reader, "opened", opened)
    return source


def stream(clock: Clock | None = None, **options: str) -> KcliStreamReader:
    given = {"kafka.bootstrap.servers": "nowhere:9092", "subscribe": "orders", **options}
    return KcliStreamReader(source_options(given, streaming=True), clock=clock or Clock())


def at(first: int, second: int) -> dict[str, dict[str, int]]:
    return {"orders": {"0": first, "1": second}}


def spans(reader: KcliStreamReader, start: object, end: object) -> list[tuple[int, int, int]]:
    partitions = reader.partitions(start, end)  # type: ignore[arg-type]
    return sorted((one.value.partition, one.value.start, one.value.end) for one in partitions)


def test_a_stream_begins_at_the_end_unless_told_otherwise(orders: FakeSource) -> None:
    orders.begins[FIRST] = 20
    assert stream().initialOffset() == at(250, 50)
    assert stream(startingOffsets="earliest").initialOffset() == at(20, 0)
    chosen = stream(startingOffsets='{"orders":{"0":30,"1":-1}}').initialOffset()
    assert chosen == at(30, 50)
    assert json.loads(json.dumps(chosen)) == chosen


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "10"}, ReadMaxRows(10)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "10"}, ReadMaxRows(10)),
    ],
)
def test_the_limit_is_that_of_the_options(options: dict[str, str], limit: ReadLimit) -> None:
    assert stream(**options).getDefaultReadLimit() == limit


def test_a_batch_takes_its_share_of_each_partition(orders: FakeSource) -> None:
    reader = stream(maxOffsetsPerTrigger="30")
    assert reader.latestOffset(at(0, 0), ReadMaxRows(30)) == at(25, 5)
    assert reader.latestOffset(at(245, 50), ReadMaxRows(30)) == at(250, 50)
    assert reader.reportLatestOffset() == at(250, 50)


def test_all_that_is_available_overrides_the_limits_of_the_options(orders: FakeSource) -> None:
    reader = stream(maxOffsetsPerTrigger="30", minOffsetsPerTrigger="1")
    assert reader.latestOffset(at(0, 0), ReadAllAvailable()) == at(250, 50)
    waiting = stream(minOffsetsPerTrigger="1000")
    assert waiting.latestOffset(at(0, 0), ReadAllAvailable()) == at(250, 50)


def test_a_batch_waits_for_enough_records_but_not_for_ever(orders: FakeSource) -> None:
    clock = Clock()
    reader = stream(clock, minOffsetsPerTrigger="20", maxTriggerDelay="10s")
    # The first batch waits for nothing.
    assert reader.latestOffset(at(245, 50), ReadMinRows(20)) == at(250, 50)
    orders.grow(FIRST, 260)
    clock.now += 9.9
    assert reader.latestOffset(at(250, 50), ReadMinRows(20)) == at(250, 50)
    orders.grow(FIRST, 270)
    assert reader.latestOffset(at(250, 50), ReadMinRows(20)) == at(270, 50)
    orders.grow(FIRST, 271)
    clock.now += 9.9
    assert reader.latestOffset(at(270, 50), ReadMinRows(20)) == at(270, 50)
    clock.now += 0.1
    assert reader.latestOffset(at(270, 50), ReadMinRows(20)) == at(271, 50)


def test_enough_is_waited_for_under_an_upper_limit_too(orders: FakeSource) -> None:
    clock = Clock()
    reader = stream(clock, minOffsetsPerTrigger="20", maxOffsetsPerTrigger="40")
    assert reader.latestOffset(at(200, 50), ReadMaxRows(40)) == at(240, 50)
    assert reader.latestOffset(at(240, 50), ReadMaxRows(40)) == at(240, 50)
    orders.grow(FIRST, 1000)
    assert reader.latestOffset(at(240, 50), ReadMaxRows(40)) == at(280, 50)


def test_a_query_of_what_is_there_now_ends_where_it_was_when_it_began(orders: FakeSource) -> None:
    reader = stream(maxOffsetsPerTrigger="100", minOffsetsPerTrigger="90")
    reader.prepareForTriggerAvailableNow()
    begin, ends = at(0, 0), []
    while (end := reader.latestOffset(begin, reader.getDefaultReadLimit())) != begin:
        ends.append(end)
        begin = end
        orders.grow(FIRST, orders.ends[FIRST] + 100)
    assert ends[-1] == at(250, 50)
    assert len(ends) in (3, 4)


def test_a_partition_that_is_new_is_read_from_its_first_offset(orders: FakeSource) -> None:
    start = {"orders": {"0": 240}}
    reader = stream(maxOffsetsPerTrigger="1000")
    end = reader.latestOffset(start, ReadMaxRows(1000))
    assert end == at(250, 50)
    assert spans(reader, start, end) == [(0, 240, 250), (1, 0, 50)]
    assert reader.latestOffset(start, ReadMaxRows(6)) == at(241, 5)


def test_a_batch_is_cut_into_splits(orders: FakeSource) -> None:
    assert spans(stream(), at(40, 50), at(250, 50)) == [(0, 40, 140), (0, 140, 240), (0, 240, 250)]
    assert spans(stream(), at(250, 50), at(250, 50)) == []


def test_a_partition_that_went_back_or_away_is_data_loss_unless_allowed(orders: FakeSource) -> None:
    start = at(300, 50)
    end = stream().latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataLoss, match="it went back from offset 300 to 250"):
        stream().partitions(start, end)
    assert spans(stream(failOnDataLoss="false"), start, end) == []
    del orders.ends[SECOND]
    end = stream().latestOffset(at(0, 0), ReadAllAvailable())
    assert end == {"orders": {"0": 250}}
    with pytest.raises(DataLoss, match="no such partition: orders-1"):
        stream().partitions(at(0, 0), end)


def test_commit_and_stop_do_nothing_and_rows_need_no_state(orders: FakeSource) -> None:
    reader = stream(columns="offset")
    partition = reader.partitions(at(240, 50), at(250, 50))[0]
    reader.commit(at(250, 50))
    reader.stop()
    rows = [row["offset"] for batch in stream(columns="offset").read(partition) for row in batch.to_pylist()]
    assert rows == list(range(240, 250))
