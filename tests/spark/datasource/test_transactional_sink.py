"""Spark writes in transactions: a stream exactly once, killed or not, and a job as a whole or not at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kcli.spark.engines.session import OpenSession
from tests.spark.datasource.killed_sink import KilledDataSource
from tests.support.committed_rows import seen_records
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic

PARTITIONS = 3
KILLED_AFTER = (1, PARTITIONS)
"""How many tasks are committed when the process is killed; after all of them, before Spark knows."""


@pytest.fixture(scope="module")
def spark(spark_session: OpenSession) -> SparkSession:
    spark_session.spark.dataSource.register(KilledDataSource)
    return spark_session.spark


def rows(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.sql(
        f"select cast(id as string) value, cast(id % {PARTITIONS} as int) partition "
        f"from range({start}, {end}, 1, {PARTITIONS})"
    )


def write(frame: DataFrame, broker: KcliBroker, topic: str, **options: str) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
    frame.write.format("kcli").mode("append").options(**given).save()


def copy(
    spark: SparkSession, broker: KcliBroker, source: str, target: str, checkpoint: Path, **options: str
) -> list[Any]:
    """Copy what there is now in transactions; return the progress of the batches with rows."""
    brokers = {"kafka.bootstrap.servers": broker.bootstrap}
    frame = spark.readStream.format("kcli").options(**brokers, subscribe=source, startingOffsets="earliest")
    stream = frame.load().selectExpr("value", "partition").writeStream
    stream = stream.format("kcli-killed" if "killAfter" in options else "kcli")
    stream = stream.options(**brokers, topic=target, **{"kafka.transactional.id": target}, **options)
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    return [batch for batch in query.recentProgress if batch["numInputRows"]]


def seen(broker: KcliBroker, topic: str, isolation: str = "read_committed") -> Counter[int]:
    found = seen_records(broker.bootstrap, topic, PARTITIONS, isolation=isolation)
    return Counter(int(record.value or b"") for record in found)


def test_a_stream_writes_each_row_once_though_it_is_killed_amid_its_commits(
    spark: SparkSession, broker: KcliBroker, tmp_path: Path
) -> None:
    source, target = "exactly-once-from", "exactly-once"
    for topic in (source, target):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    for batch, killed_after in enumerate(KILLED_AFTER):
        write(rows(spark, batch * 30, batch * 30 + 30), broker, source)
        with pytest.raises(PySparkException):
            copy(spark, broker, source, target, tmp_path, killAfter=str(killed_after))
        # The transactions of the other tasks are still open.
        assert len(seen(broker, target)) == batch * 30 + killed_after * 10
        (progress,) = copy(spark, broker, source, target, tmp_path)
        assert (progress["batchId"], progress["numInputRows"]) == (batch, 30)
        assert seen(broker, target) == Counter(range(batch * 30 + 30))
    everything = seen(broker, target, "read_uncommitted")
    assert everything.total() > len(everything) == 60


def test_a_job_that_fails_leaves_no_row_and_the_next_one_all(spark: SparkSession, broker: KcliBroker) -> None:
    topic = "whole-jobs"
    create_topic(broker.bootstrap, topic, PARTITIONS, {"max.message.bytes": "1000"})
    whole = {"kafka.transactional.id": topic}
    frame = rows(spark, 0, 30)
    bad = frame.selectExpr("if(value = '25', repeat('x', 5000), value) value", "partition")
    with pytest.raises(PySparkException, match="KafkaError"):
        write(bad, broker, topic, **whole)
    assert seen(broker, topic) == Counter()
    assert seen(broker, topic, "read_uncommitted").total() > 0
    write(frame, broker, topic, **whole)
    assert seen(broker, topic) == Counter(range(30))
