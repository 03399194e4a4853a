"""The format `kcli` under Spark: written, read, filtered and streamed, from a broker and its directory."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcli.protocol.topics import TopicPartition
from kcli.spark import offsets_behind_latest, register
from kcli.spark.engines.session import OpenSession
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic
from tests.support.waiting import eventually

TOPIC = "orders"
ROWS = 3000
FOREVER = {"retention.ms": "-1"}
"""The rows are of 2023."""
ROW = """
    cast(id as string) key, if(id % 10 = 3, null, concat('value ', id)) value,
    if(id % 2 = 0, array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary)),
                         named_struct('key', 'none', 'value', cast(null as binary))), null) headers,
    cast(id % 3 as int) partition, timestamp_millis(1700000000000 + id) timestamp
"""
_names = itertools.count()


@pytest.fixture(scope="module")
def spark(spark_session: OpenSession) -> SparkSession:
    return spark_session.spark


@pytest.fixture(scope="module")
def orders(spark: SparkSession, broker: KcliBroker) -> KcliBroker:
    """A topic that the sink has written: three partitions of a thousand rows."""
    create_topic(broker.bootstrap, TOPIC, 3, FOREVER)
    # One task, so that timestamps ascend with offsets.
    write(spark.sql(f"select {ROW} from range(0, {ROWS}, 1, 1)"), broker, TOPIC)
    # Who reads its directory sees no more than the high watermarks that it has written down there.
    directory = LogDirsSource([str(broker.node_directory)])
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]
    whole = dict.fromkeys(partitions, ROWS // 3)
    eventually(lambda: directory.latest(partitions, read_committed=False) == whole, "the high watermarks")
    return broker


def write(frame: DataFrame, broker: KcliBroker, topic: str, **options: str) -> None:
    writer = frame.write.format("kcli").mode("append").options(**options).option("topic", topic)
    writer.option("kafka.bootstrap.servers", broker.bootstrap).save()


def read(spark: SparkSession, broker: KcliBroker, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, **options}
    return spark.read.format("kcli").options(**given).load()


def expected(number: int) -> dict[str, Any]:
    """The row that `ROW` makes of a number, as the source gives it; timestamps in milliseconds."""
    headers = [{"key": "n", "value": str(number).encode()}, {"key": "none", "value": None}]
    return {
        "key": str(number).encode(),
        "value": None if number % 10 == 3 else f"value {number}".encode(),
        "topic": TOPIC,
        "partition": number % 3,
        "timestampMs": 1_700_000_000_000 + number,
        "timestampType": 0,
        "headers": headers if number % 2 == 0 else None,
    }


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    chosen = frame.selectExpr("*", "unix_millis(timestamp) timestampMs").drop("timestamp")
    return [row.asDict(recursive=True) for row in chosen.toLocalIterator()]


@pytest.mark.parametrize("place", ["brokers", "log directories"])
def test_what_was_written_is_read_row_for_row(place: str, spark: SparkSession, orders: KcliBroker) -> None:
    options = {"subscribe": TOPIC, "includeHeaders": "true"}
    if place == "brokers":
        options["kafka.bootstrap.servers"] = orders.bootstrap
    else:
        options["logDirs"] = str(orders.node_directory)
    rows = rows_of(spark.read.format("kcli").options(**options).load())
    offsets = sorted((row["partition"], row.pop("offset")) for row in rows)
    assert offsets == [(partition, offset) for partition in range(3) for offset in range(1000)]
    assert sorted(rows, key=lambda row: int(row["key"])) == [expected(number) for number in range(ROWS)]


def test_other_clients_read_what_was_written(orders: KcliBroker) -> None:
    consumer = Consumer(
        {"bootstrap.servers": orders.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    try:
        seen = {}
        while len(seen) < ROWS:
            for message in consumer.consume(1000, 10):
                assert message.error() is None
                seen[int(message.key())] = (message.value(), message.partition(), message.timestamp()[1])
    finally:
        consumer.close()
    rows = (expected(number) for number in range(ROWS))
    assert seen == {int(row["key"]): (row["value"], row["partition"], row["timestampMs"]) for row in rows}


def test_the_format_is_found_without_being_registered(spark: SparkSession, orders: KcliBroker) -> None:
    assert read(spark.newSession(), orders, columns="offset").schema.simpleString() == "struct<offset:bigint>"


def test_registering_makes_the_format_known(spark: SparkSession, orders: KcliBroker) -> None:
    session = spark.newSession()
    register(session)
    assert read(session, orders, endingOffsets='{"orders":{"0":5,"1":0,"2":0}}').count() == 5


def test_only_wanted_columns_are_shipped(spark: SparkSession, orders: KcliBroker) -> None:
    frame = read(spark, orders, columns="offset,partition")
    assert frame.columns == ["offset", "partition"]
    assert frame.selectExpr("sum(offset)").first()[0] == 3 * sum(range(1000))


def test_a_partition_is_read_by_as_many_tasks_as_asked_for(spark: SparkSession, orders: KcliBroker) -> None:
    frame = read(spark, orders, columns="offset", maxRecordsPerPartition="250")
    assert frame.rdd.getNumPartitions() == 12
    assert frame.count() == ROWS


FILTERS = [
    ("partition = 1 and offset >= 10 and offset < 20", 10, 1),
    ("partition in (0, 2) and offset <= 99", 200, 2),
    ("topic = 'other'", 0, 1),
    ("partition <> 1 and timestamp >= timestamp_millis(1700000002700)", 200, 2),
    ("value is null and (offset < 5 or partition = 2) and offset < 500", 52, 6),
]


@pytest.mark.parametrize(("condition", "rows", "tasks"), FILTERS)
def test_filters_give_the_same_rows_and_less_to_read(
    condition: str, rows: int, tasks: int, spark: SparkSession, orders: KcliBroker
) -> None:
    """Four splits a partition, of which the filter leaves those it needs; none is one empty task."""
    options = {"maxRecordsPerPartition": "250", "columns": "topic,partition,offset,timestamp,value"}
    pushed = read(spark, orders, **options, pushdown="true").where(condition)
    assert pushed.rdd.getNumPartitions() == tasks
    assert len({(row.partition, row.offset) for row in pushed.collect()}) == rows


def test_an_empty_range_has_no_rows(spark: SparkSession, orders: KcliBroker) -> None:
    same = '{"orders":{"0":7,"1":7,"2":7}}'
    assert read(spark, orders, startingOffsets=same, endingOffsets=same).collect() == []


def test_explain_shows_no_password(spark: SparkSession, orders: KcliBroker) -> None:
    frame = read(spark, orders, **{"kafka.sasl.jaas.config": "hunter2"})
    assert "hunter2" not in frame._jdf.queryExecution().toString()
    assert frame.count() == ROWS


def test_an_error_names_the_option_and_the_way_out(spark: SparkSession, orders: KcliBroker) -> None:
    with pytest.raises(AnalysisException) as caught:
        read(spark, orders, **{"kafka.enable.auto.commit": "true"})
    first, second, *_ = str(caught.value).splitlines()
    assert first.endswith(": error: the option `kafka.enable.auto.commit` is not supported")
    assert second == "hint: no offsets are committed: a checkpoint keeps them"


def test_a_topic_that_is_missing_fails_as_with_sparks_own_source(
    spark: SparkSession, orders: KcliBroker
) -> None:
    with pytest.raises(PySparkException, match="no such topic: no-such") as caught:
        read(spark, orders, subscribe="orders,no-such", failOnDataLoss="false").count()
    assert "error: no such topic: no-such" in str(caught.value).splitlines()[0]


def test_lost_offsets_fail_the_query_unless_allowed(spark: SparkSession, orders: KcliBroker) -> None:
    beyond = '{"orders":{"0":2000,"1":0,"2":0}}'
    with pytest.raises(PySparkException, match="DataLoss: cannot read all of orders-0"):
        read(spark, orders, endingOffsets=beyond).count()
    assert read(spark, orders, endingOffsets=beyond, failOnDataLoss="false").count() == 1000


# --- the sink ----------------------------------------------------------------------------------------------


def test_a_write_must_append(spark: SparkSession, orders: KcliBroker) -> None:
    frame = spark.sql("select 'x' value")
    writer = frame.write.format("kcli").option("kafka.bootstrap.servers", orders.bootstrap)
    with pytest.raises(AnalysisException, match='Please use either the "Append"'):
        writer.option("topic", TOPIC).save()
    with pytest.raises(AnalysisException, match="a topic cannot be overwritten"):
        writer.option("topic", TOPIC).mode("overwrite").save()


def test_what_cannot_be_written_is_refused_before_a_task_runs(
    spark: SparkSession, orders: KcliBroker
) -> None:
    with pytest.raises(AnalysisException, match="the column `value` is missing"):
        write(spark.sql("select 'x' key"), orders, TOPIC)


def test_a_record_that_the_broker_refuses_fails_the_write(spark: SparkSession, orders: KcliBroker) -> None:
    create_topic(orders.bootstrap, "small", config={"max.message.bytes": "1000"})
    with pytest.raises(PySparkException, match="KafkaError"):
        write(spark.sql("select repeat('x', 5000) value from range(3)"), orders, "small")


# --- streams -----------------------------------------------------------------------------------------------


@pytest.fixture
def copied(orders: KcliBroker) -> str:
    """A topic of this test's own."""
    name = f"copy-{next(_names)}"
    create_topic(orders.bootstrap, name, 3, FOREVER)
    return name


def stream(
    spark: SparkSession, options: dict[str, str], broker: KcliBroker, topic: str, checkpoint: Path
) -> list[Any]:
    """Copy what there is now to a topic, and return the progress of each batch that had rows."""
    source = spark.readStream.format("kcli").options(startingOffsets="earliest", **options)
    sink = source.load().writeStream.format("kcli").option("topic", topic)
    sink = sink.option("kafka.bootstrap.servers", broker.bootstrap)
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    return [batch for batch in query.recentProgress if batch["numInputRows"]]


def rows_by_batch(batches: list[Any]) -> list[int]:
    return [batch["numInputRows"] for batch in batches]


def test_a_stream_copies_a_topic_in_limited_batches_and_goes_on_after_a_restart(
    spark: SparkSession, orders: KcliBroker, copied: str, tmp_path: Path
) -> None:
    growing = f"{copied}-from"
    create_topic(orders.bootstrap, growing, 3, FOREVER)
    write(spark.sql(f"select {ROW} from range(300)"), orders, growing)
    options = {"kafka.bootstrap.servers": orders.bootstrap, "subscribe": growing, "includeHeaders": "true"}
    options["maxOffsetsPerTrigger"] = "120"
    batches = stream(spark, options, orders, copied, tmp_path)
    assert rows_by_batch(batches) == [120, 120, 60]
    behind = [offsets_behind_latest(batch) for batch in batches]
    assert [float(one["avgOffsetsBehindLatest"]) for one in behind] == [60, 20, 0]
    assert behind[0]["minOffsetsBehindLatest"] == behind[0]["maxOffsetsBehindLatest"] == "60"
    write(spark.sql("select '300' key, 'one more' value, 1 partition"), orders, growing)
    assert rows_by_batch(stream(spark, options, orders, copied, tmp_path)) == [1]
    rows = rows_of(read(spark, orders, subscribe=copied, includeHeaders="true"))
    for row in rows:
        del row["offset"]
    *others, last = sorted(rows, key=lambda row: int(row["key"]))
    assert (last["value"], last["partition"]) == (b"one more", 1)
    assert others == [{**expected(number), "topic": copied} for number in range(300)]


def test_a_stream_reads_log_directories(
    spark: SparkSession, orders: KcliBroker, copied: str, tmp_path: Path
) -> None:
    options = {"logDirs": str(orders.node_directory), "subscribe": TOPIC}
    assert sum(rows_by_batch(stream(spark, options, orders, copied, tmp_path))) == ROWS
