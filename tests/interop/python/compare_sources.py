"""Read topics with Spark's own Kafka source and with ours, and tell where they differ.

    python compare_sources.py JARS < CASES.jsonl

A case is {"name": …, "options": {…}}; the answer is a line of JSON with what each of the two formats gave:
its schema and its rows in the order of partitions and offsets, or its error.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import unix_micros

import kcli.spark

CORES = 2
QUERIES = 4


def rows_of(frame: DataFrame) -> list[list[object]]:
    """The rows as JSON has them, timestamps in microseconds, in the order of their offsets."""
    columns = [
        unix_micros(name).alias(name) if name == "timestamp" else frame[name] for name in frame.columns
    ]
    rows = frame.select(*columns).collect()
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["offset"]))
    return [[plain(cell) for cell in row] for row in rows]


def plain(cell: object) -> object:
    """A cell as JSON has it."""
    if isinstance(cell, bytes | bytearray):
        return cell.hex()
    if isinstance(cell, list):
        return [[header["key"], plain(header["value"])] for header in cell]
    return cell


def outcome(spark: SparkSession, name: str, options: dict[str, str]) -> dict[str, object]:
    """What one of the formats makes of the options."""
    try:
        frame = spark.read.format(name).options(**options).load()
        return {"schema": frame.schema.simpleString(), "rows": rows_of(frame)}
    except Exception as error:
        return {"error": str(error).strip().splitlines()[0]}


def main() -> None:
    jars = ",".join(str(path) for path in sorted(Path(sys.argv[1]).glob("*.jar")) if "slf4j" not in path.name)
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        .config("spark.sql.session.timeZone", "UTC")
        # Every query is another, and run once.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    kcli.spark.register(spark)

    def compared(line: str) -> str:
        case = json.loads(line)
        told = {name: outcome(spark, name, case["options"]) for name in ("kafka", "kcli")}
        return json.dumps({"name": case["name"], **told})

    # Queries mostly wait, for a broker or for one another's tasks.
    with ThreadPoolExecutor(QUERIES) as threads:
        for told in threads.map(compared, sys.stdin):
            print(told, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
