"""What a user submits to a cluster: a topic read as a DataFrame, and exported, by kcli out of a zip.

    spark-submit --py-files kcli.zip spark_application.py BOOTSTRAP TOPIC TARGET

Prints an object of JSON: the rows, what the export said, and where executors found kcli.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

from pyspark.sql import SparkSession

import kcli.spark
from kcli.cli import main as run_kcli

TASKS = 4


def place(_: int) -> tuple[str, str]:
    """The executor that runs this, and where its kcli is."""
    import os
    import time

    import kcli

    time.sleep(0.3)  # so that one executor does not run them all
    return os.getcwd(), str(kcli.__file__)


def main(bootstrap: str, topic: str, target: str) -> None:
    """Read and export."""
    spark = SparkSession.builder.getOrCreate()
    kcli.spark.register(spark)
    frame = (
        spark.read.format("kcli")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("maxRecordsPerPartition", 100)
        .load()
    )
    rows = frame.select("partition", "offset", "value").collect()
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    said, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(errors):
        code = run_kcli(["spark-export", topic, "-b", bootstrap, "--to", target, "-o", "json"])
    places = spark.sparkContext.parallelize(range(TASKS), TASKS).map(place).collect()
    told = {
        "rows": [[row["partition"], row["offset"], bytes(row["value"]).decode()] for row in rows],
        "partitions": frame.rdd.getNumPartitions(),
        "code": code,
        "export": said.getvalue(),
        "errors": errors.getvalue(),
        "executors": sorted({executor for executor, _ in places}),
        "modules": sorted({module for _, module in places}),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
