"""Which DataFrames can be written, and the records of their rows: as by Spark's own Kafka sink."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kcli.errors import KcliError, UsageError
from kcli.spark.datasource.row_schema import HEADERS
from kcli.spark.datasource.sink import SinkColumns, SinkRecord, sink_options
from kcli.spark.decode.arrow_columns import HEADERS as ARROW_HEADERS

SERVERS = {"kafka.bootstrap.servers": "somewhere:9092"}
NOON = datetime(2026, 5, 1, 12, 0, 0, 1500, UTC)
NOON_MS = 1_777_636_800_001


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def records(batch: dict[str, pa.Array], kinds: StructType, topic: str | None = None) -> list[SinkRecord]:
    return list(SinkColumns.of(kinds, topic).records(pa.RecordBatch.from_pydict(batch)))


def test_every_column_finds_its_place() -> None:
    headers = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None]
    found = records(
        {
            "extra": pa.array([1, 2]),
            "timestamp": pa.array([NOON, None], pa.timestamp("us", tz="UTC")),
            "partition": pa.array([3, None], pa.int32()),
            "headers": pa.array(headers, ARROW_HEADERS),
            "topic": pa.array(["t", "u"]),
            "key": pa.array([b"\xff", None], pa.binary()),
            "value": pa.array(["schön", None]),
        },
        schema(
            extra=LongType(), timestamp=TimestampType(), partition=IntegerType(), headers=HEADERS,
            topic=StringType(), key=BinaryType(), value=StringType(),
        ),
    )  # fmt: skip
    assert found == [
        SinkRecord("t", b"\xff", "schön".encode(), (("a", b"1"), ("a", None)), 3, NOON_MS),
        SinkRecord("u", None, None, (), None, None),
    ]


def test_a_value_is_enough_where_an_option_names_the_topic() -> None:
    found = records({"value": pa.array([b"x"], pa.large_binary())}, schema(value=BinaryType()), "t")
    assert found == [SinkRecord("t", None, b"x", (), None, None)]


def test_the_option_goes_before_the_column_whatever_is_in_it() -> None:
    found = records(
        {"topic": pa.array([7]), "value": pa.array(["x"])}, schema(topic=LongType(), value=StringType()), "t"
    )
    assert found[0].topic == "t"


def test_seconds_are_timestamps_too() -> None:
    found = records(
        {"value": pa.array(["x"]), "timestamp": pa.array([1.5])},
        schema(value=StringType(), timestamp=DoubleType()),
        "t",
    )
    assert found[0].timestamp_ms == 1500


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (schema(value=StringType()), "no topic to write to: there is no column `topic`"),
        (schema(topic=StringType()), "the column `value` is missing"),
        (schema(topic=LongType(), value=StringType()), "the column `topic` cannot be bigint"),
        (schema(topic=StringType(), value=LongType()), "the column `value` cannot be bigint"),
        (schema(topic=StringType(), value=StringType(), key=IntegerType()), "the column `key` cannot be int"),
        (
            schema(topic=StringType(), value=StringType(), partition=LongType()),
            "the column `partition` cannot be bigint",
        ),
        (
            schema(topic=StringType(), value=StringType(), headers=ArrayType(StringType())),
            "the column `headers` cannot be array<string>",
        ),
        (
            schema(topic=StringType(), value=StringType(), timestamp=LongType()),
            "the column `timestamp` cannot be bigint",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(kinds: StructType, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        SinkColumns.of(kinds, None)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"topic": pa.array([None], pa.string())}, "a row has no topic"),
        (
            {"timestamp": pa.array([-1000], pa.timestamp("us", tz="UTC"))},
            "a row has a timestamp before 1970: -1 ms",
        ),
        (
            {"headers": pa.array([[{"key": None, "value": b""}]], ARROW_HEADERS)},
            "a row has a header without a key",
        ),
    ],
)
def test_a_row_that_is_no_record_is_an_error(column: dict[str, pa.Array], message: str) -> None:
    kinds = schema(topic=StringType(), value=StringType(), timestamp=TimestampType(), headers=HEADERS)
    row = {
        "topic": pa.array(["t"]),
        "value": pa.array(["x"]),
        "timestamp": pa.array([None], pa.timestamp("us", tz="UTC")),
        "headers": pa.array([None], ARROW_HEADERS),
    }
    with pytest.raises(KcliError) as caught:
        records({**row, **column}, kinds)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t"}, "the option `kafka.bootstrap.servers` is needed for writing"),
        ({**SERVERS, "kafka.key.serializer": "x"}, "the option `kafka.key.serializer` is not supported"),
        ({**SERVERS, "Kafka.Value.Serializer": "x"}, "the option `kafka.value.serializer` is not supported"),
        (
            {**SERVERS, "kafka.transactional.id": "x", "kafka.acks": "1"},
            "a `transactional.id` needs `acks` all, `retries` above 0 and `enable.idempotence` true",
        ),
        ({**SERVERS, "kafka.acks": "2"}, "invalid value for `acks`: 2"),
    ],
)
def test_options_are_refused_as_by_sparks_own_sink(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        sink_options(options)
    assert caught.value.message == message


def test_options_are_properties_of_our_producer() -> None:
    options = sink_options({**SERVERS, "TOPIC": " t ", "kafka.compression.type": "zstd", "other": "x"})
    assert options.bootstrap == "somewhere:9092"
    assert options.topic == "t"
    assert options.properties == {"compression.type": "zstd"}
    assert "zstd" not in repr(options)
