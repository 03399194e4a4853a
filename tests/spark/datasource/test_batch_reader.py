"""The reader of batches, without Spark: what it plans, what travels, and what filters leave to read."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import LongType, StructField, StructType

from kcli.errors import UsageError
from kcli.spark.datasource import batch_reader
from kcli.spark.datasource.batch_reader import (
    KcliPushdownReader,
    KcliReader,
    SplitPartition,
    pushed_conditions,
)
from kcli.spark.datasource.data_source import KcliDataSource
from kcli.spark.datasource.row_schema import spark_schema
from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.filters.where import Comparison
from kcli.spark.filters.where import In as InConjunct
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.split import COLUMNS
from tests.spark.export.fake_source import FakeSource

SERVERS = "kafka.bootstrap.servers"
DEFAULTS = {SERVERS: "nowhere:9092", "subscribe": "orders"}


def data_source(**options: str) -> KcliDataSource:
    """A data source as Spark makes it; dots in names of options are written as two underlines."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    return KcliDataSource(CaseInsensitiveDict({**DEFAULTS, **given}))


def reader(**options: str) -> KcliReader:
    source = data_source(**options)
    return source.reader(schema=source.schema())


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> FakeSource:
    """What every reader of these tests opens: a topic of two partitions."""
    source = FakeSource.of(250, 30)

    @contextmanager
    def opened(_options: object) -> Iterator[FakeSource]:
        yield source
        source.close()

    monkeypatch.setattr(batch_reader, "opened", opened)
    return source


def spans(partitions: list[InputPartition]) -> list[tuple[int, int, int]]:
    return sorted((one.value.partition, one.value.start, one.value.end) for one in partitions)


def test_every_split_is_a_partition_and_nothing_stays_open(orders: FakeSource) -> None:
    assert spans(reader().partitions()) == [(0, 0, 100), (0, 100, 200), (0, 200, 250), (1, 0, 30)]
    assert orders.is_closed


def test_planning_again_gives_the_same(orders: FakeSource) -> None:
    one = reader()
    assert spans(one.partitions()) == spans(one.partitions())


def test_offsets_of_the_options_bound_what_is_planned(orders: FakeSource) -> None:
    options = {
        SERVERS: "nowhere:9092",
        "assign": '{"orders":[0]}',
        "startingOffsets": '{"orders":{"0":40}}',
        "endingOffsets": '{"orders":{"0":60}}',
    }
    chosen = KcliDataSource(CaseInsensitiveDict(options)).reader(schema=spark_schema(COLUMNS[:-1]))
    assert spans(chosen.partitions()) == [(0, 40, 60)]


def test_rows_come_from_a_reader_that_travelled_before_it_planned(orders: FakeSource) -> None:
    planner = reader(includeHeaders="true")
    in_worker = pickle.loads(pickle.dumps(planner))
    rows = []
    for partition in planner.partitions():
        batches = in_worker.read(pickle.loads(pickle.dumps(partition)))
        assert isinstance(batches, Iterator)
        for batch in batches:
            assert batch.schema.equals(arrow_schema(COLUMNS), check_metadata=True)
            rows += batch.to_pylist()
    assert len(rows) == 280
    assert {row["value"] for row in rows if row["partition"] == 1} == {
        f"value {offset}".encode() for offset in range(30)
    }


def test_the_partition_that_spark_makes_up_for_no_partitions_has_no_rows(orders: FakeSource) -> None:
    assert list(reader().read(InputPartition(None))) == []


def test_a_partition_shows_no_password(orders: FakeSource) -> None:
    partition = reader(kafka__sasl_jaas_config="hunter2").partitions()[0]
    assert isinstance(partition, SplitPartition)
    assert "orders" in repr(partition)
    assert "reader" not in repr(partition)


def test_an_error_and_its_hint_are_the_first_lines_of_a_traceback(orders: FakeSource) -> None:
    wrong = KcliDataSource(CaseInsensitiveDict({**DEFAULTS, "subscribe": "orders,gone"})).reader(
        schema=spark_schema(COLUMNS[:-1])
    )
    with pytest.raises(DataLoss, match="no such topic: gone") as caught:
        wrong.partitions()
    said = "".join(traceback.TracebackException.from_exception(caught.value).format())
    assert said.startswith(f"error: no such topic: gone\nhint: {caught.value.hint}\n\n")


# --- schemas -----------------------------------------------------------------------------------------------


def test_columns_are_those_of_sparks_own_source() -> None:
    assert data_source(includeHeaders="true").schema().simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert data_source().schema().names == list(COLUMNS[:-1])
    assert data_source(columns="offset,value").schema().names == ["offset", "value"]


def test_a_schema_of_the_users_own_is_refused() -> None:
    schema = StructType([StructField("offset", LongType())])
    with pytest.raises(UsageError, match="the schema of this source is fixed"):
        data_source().reader(schema=schema)
    with pytest.raises(UsageError, match="the schema of this source is fixed"):
        data_source().streamReader(schema=schema)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka__auto__offset__reset": "earliest"}, "`kafka.auto.offset.reset` is not supported"),
        ({"subscribePattern": "o.*"}, "more than one of the options"),
        ({"onCorrupt": "dead-letter"}, "a DataFrame has no place for dead letters"),
        ({"startingOffsets": "latest", "endingOffsets": "earliest"}, "a batch cannot start at latest"),
    ],
)
def test_what_neither_a_batch_nor_a_stream_takes_is_refused_at_once(
    options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        data_source(**options).schema()


def test_what_only_one_of_them_takes_is_refused_by_the_other() -> None:
    at_latest, ended = data_source(startingOffsets="latest"), data_source(endingOffsets="latest")
    assert at_latest.schema() == ended.schema() == spark_schema(COLUMNS[:-1])
    with pytest.raises(UsageError, match="a batch cannot start at latest"):
        at_latest.reader(schema=at_latest.schema())
    with pytest.raises(UsageError, match="`endingOffsets` is not valid for a stream"):
        ended.streamReader(schema=ended.schema())


# --- filters -----------------------------------------------------------------------------------------------

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "condition"),
    [
        (EqualTo(("partition",), 1), Comparison(("partition",), "=", 1)),
        (EqualNullSafe(("topic",), "t"), Comparison(("topic",), "=", "t")),
        (GreaterThan(("offset",), 5), Comparison(("offset",), ">", 5)),
        (GreaterThanOrEqual(("timestamp",), NOON), Comparison(("timestamp",), ">=", NOON)),
        (LessThan(("offset",), 5), Comparison(("offset",), "<", 5)),
        (LessThanOrEqual(("offset",), 5), Comparison(("offset",), "<=", 5)),
        (In(("partition",), (1, None, 2)), InConjunct(("partition",), (1, 2))),
        (Not(EqualTo(("partition",), 1)), Comparison(("partition",), "!=", 1)),
        (Not(LessThan(("offset",), 5)), Comparison(("offset",), ">=", 5)),
        (Not(In(("topic",), ("t",))), InConjunct(("topic",), ("t",), negated=True)),
        (Not(Not(GreaterThan(("offset",), 5))), Comparison(("offset",), ">", 5)),
        (IsNotNull(("offset",)), None),
        (EqualNullSafe(("offset",), None), None),
        (Not(IsNotNull(("offset",))), None),
        (StringStartsWith(("topic",), "t"), None),
    ],
)
def test_filters_are_read_as_conjuncts(pushed: object, condition: object) -> None:
    found = list(pushed_conditions([pushed]))  # type: ignore[list-item]
    assert found == ([] if condition is None else [condition])


def test_a_filter_narrows_what_is_planned_and_is_left_to_spark_all_the_same(orders: FakeSource) -> None:
    narrow = reader(pushdown="true")
    filters = [EqualTo(("partition",), 0), GreaterThanOrEqual(("offset",), 120), LessThan(("offset",), 130)]
    assert list(narrow.pushFilters(filters)) == filters
    assert spans(narrow.partitions()) == [(0, 120, 130)]
    assert spans(pickle.loads(pickle.dumps(narrow)).partitions()) == [(0, 120, 130)]


def test_only_a_reader_that_was_asked_for_it_has_push_down() -> None:
    assert type(reader()).pushFilters is DataSourceReader.pushFilters
    assert type(reader(pushdown="true")) is KcliPushdownReader
