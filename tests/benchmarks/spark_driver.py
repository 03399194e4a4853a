"""One warm Spark session that exports a topic in whichever way a line of its input says.

    python -m tests.benchmarks.spark_driver MASTER JARS [only-schedules]

A line is {"way": …, "topic": …, "log_dir": …, "bootstrap": …, "target": …}; the answer is the seconds that it
took, or with the way `base` how much memory a worker has that did nothing but load its libraries. A session
that only schedules is as `kcli spark-export` opens one for its own writer; any other has Spark's defaults.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.spark.engines.session import OpenSession, SessionSettings, open_session

if TYPE_CHECKING:
    from kcli.spark.export.engine import Engine
    from kcli.spark.source.source import Source

COMPRESSION = "zstd"
LEVEL = 1
"""The codec and level of an export, for everybody."""

ONLY_SCHEDULES = "only-schedules"


class Driver:
    """The session, and what runs exports on it or beside it."""

    def __init__(self, session: OpenSession) -> None:
        from kcli.spark.engines.local_engine import LocalEngine

        self._session = session
        arrow = session.engine()
        self._engines: dict[str, Engine] = {
            "directory": arrow,
            "broker": arrow,
            "spark writer": session.sql_engine(via_connector=False),
            "local engine": LocalEngine(arrow.slots),
        }

    def answer(self, request: dict[str, str]) -> float:
        """Do what a line says."""
        if request["way"] == "base":
            return self._base_bytes()
        begun = time.perf_counter()
        if request["way"] == "connector":
            self._by_connector(request)
        else:
            self._export(request)
        return time.perf_counter() - begun

    def close(self) -> None:
        """End the processes of the local engine."""
        self._engines["local engine"].close()

    def _export(self, request: dict[str, str]) -> None:
        from kcli.spark.export.engine import NoProgress
        from kcli.spark.export.export_run import run_export
        from kcli.spark.export.options import ExportOptions
        from kcli.spark.export.target.local_target import LocalTarget
        from kcli.spark.source.ranges.selection import Subscribe

        source = _source(request)
        try:
            options = ExportOptions(selection=Subscribe((request["topic"],)))
            engine = self._engines[request["way"]]
            run_export(source, LocalTarget(request["target"]), options, engine, NoProgress())
        finally:
            source.close()

    def _by_connector(self, request: dict[str, str]) -> None:
        rows = (
            self._session.spark.read.format("kafka")
            .option("kafka.bootstrap.servers", request["bootstrap"])
            .option("subscribe", request["topic"])
            .load()
        )
        written = rows.write.option("compression", COMPRESSION)
        written.option("parquet.compression.codec.zstd.level", LEVEL).parquet(request["target"])

    def _base_bytes(self) -> float:
        context = self._session.context
        assert context is not None
        return float(max(context.parallelize(range(8), 8).map(loaded_bytes).collect()))


def _source(request: dict[str, str]) -> Source:
    from kcli.spark.source.brokers.brokers_source import BrokersSource
    from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource

    if request["way"] == "broker":
        return BrokersSource(request["bootstrap"], {"client.id": "kcli-spark-export"})
    return LogDirsSource([request["log_dir"]])


def loaded_bytes(_: int) -> int:
    """Load what tasks need, and return the resident memory of this process."""
    import pyarrow.parquet  # noqa: F401

    import kcli.spark.export.writing.task  # noqa: F401
    from kcli.spark.decode.decoders import decoder_named

    decoder_named("")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def main() -> None:
    """Answer line by line."""
    master, jars, *only_schedules = sys.argv[1:]
    settings = SessionSettings(
        master=master, conf={"spark.jars": jars}, is_brief=only_schedules == [ONLY_SCHEDULES]
    )
    with open_session(settings) as session:
        driver = Driver(session)
        print("ready", flush=True)
        for line in sys.stdin:
            print(driver.answer(json.loads(line)), flush=True)
        driver.close()


if __name__ == "__main__":
    main()
