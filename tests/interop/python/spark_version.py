"""Reads a topic and exports it with whatever PySpark is installed.

`python -m tests.interop.python.spark_version`, for the versions that the tests do not run with; it fails if a
row is missing, or twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from kcli.cli import main
from kcli.spark import register
from kcli.spark.engines.session import SessionSettings, open_session
from tests.support.kcli_broker import KcliBroker

RECORDS = 30


def run(directory: Path) -> None:
    (directory / "broker").mkdir()
    broker = KcliBroker(directory / "broker").start()
    try:
        kcli = [sys.executable, "-m", "kcli"]
        place = ["-b", broker.bootstrap]
        subprocess.run([*kcli, "topics", "create", "orders", "--partitions", "3", *place], check=True)
        values = "".join(f"value {number}\n" for number in range(RECORDS))
        subprocess.run([*kcli, "produce", "orders", *place], input=values, text=True, check=True)
        expected = [f"value {number}".encode() for number in range(RECORDS)]
        conf = {"spark.sql.shuffle.partitions": "2"}
        with open_session(SessionSettings(master="local[2, 4]", conf=conf, is_brief=True)) as session:
            spark = session.spark
            register(spark)
            options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "orders"}
            rows = spark.read.format("kcli").options(**options).load().collect()
            assert sorted(row.value for row in rows) == sorted(expected), rows
            target = directory / "lake"
            assert main(["spark-export", "orders", *place, "--to", str(target)]) == 0
            exported = spark.read.parquet(str(target)).collect()
            assert sorted(row.value for row in exported) == sorted(expected), exported
    finally:
        broker.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        run(Path(temporary))
    print(json.dumps({"pyspark": pyspark.__version__, "python": sys.version.split()[0]}))
