"""Spark's own Kafka connector, where its jar is on the class path: another way for rows to come in.

Options go through unchanged; offsets are resolved before and passed as explicit JSON, so that what is read
is what was planned.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.cluster.brokers_reader import BrokersReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.job.options import WriteOptions
    from kcli.spark.job.task import SplitTask
    from kcli.spark.split import Split

PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

_OURS = ("client.id",)
"""Properties that our client has by default and the connector chooses itself."""


def package() -> str:
    """Return the connector's Maven coordinates for this PySpark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def is_available(spark: SparkSession) -> bool:
    """Return whether the JVM of a session has the connector; that of Spark Connect cannot be asked."""
    from pyspark.sql import is_remote

    if is_remote():
        return False
    jvm: Any = spark.sparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(PROVIDER))


def check_available(spark: SparkSession) -> None:
    """Raise `KcliError` that says where the connector is to be had, unless it is there."""
    if not is_available(spark):
        raise KcliError(
            "Spark's Kafka connector is not there",
            hint=f"--conf spark.jars.packages={package()}, or leave `--via connector` out",
        )


def suits(task: SplitTask) -> bool:
    """Return whether the connector gives a task's rows as they are to be written."""
    return isinstance(task.reader, BrokersReader) and _gives(task.options)


def check_suits(task: SplitTask) -> None:
    """Raise `KcliError` for what the connector cannot do."""
    if not suits(task):
        raise KcliError(
            "Spark's Kafka connector reads from brokers, keys and values as bytes and headers as an array",
            hint="decode with --select, or leave `--via connector` out",
        )


def rows_of(spark: SparkSession, task: SplitTask, *, headers: bool) -> DataFrame:
    """Return the rows of one split, in one partition."""
    reader = task.reader
    assert isinstance(reader, BrokersReader)
    access = reader.access
    options = connector_options(task.split, access.bootstrap, access.properties)
    if task.options.reading.read_committed:
        options["kafka.isolation.level"] = "read_committed"
    options["includeHeaders"] = str(headers).lower()
    return spark.read.format("kafka").options(**options).load()


def connector_options(split: Split, bootstrap: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the connector's options for exactly the offsets of a split."""
    number = str(split.partition)
    return {
        **{f"kafka.{name}": value for name, value in properties.items() if name not in _OURS},
        "kafka.bootstrap.servers": bootstrap,
        "assign": json.dumps({split.topic: [split.partition]}),
        "startingOffsets": json.dumps({split.topic: {number: split.start}}),
        "endingOffsets": json.dumps({split.topic: {number: split.end}}),
        "failOnDataLoss": "true",
    }


def _gives(options: WriteOptions) -> bool:
    plain = ("binary", "none")
    return options.key.name in plain and options.value.name in plain and not options.headers_as_map
