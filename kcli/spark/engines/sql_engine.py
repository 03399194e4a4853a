"""SqlEngine: runs a plan with Spark SQL between reading and writing, for `--select` and any `--where`.

    FrameSource or Spark's Kafka connector -> the user's filter and columns -> FrameSink

Nothing is shuffled: a task writes what it reads, so splits, receipts and the commit are those of the other
engines. The cost is that rows travel between Python and the JVM twice.

Spark's Kafka connector is used where its jar is on the class path. Client properties go to it unchanged;
offsets are passed as explicit JSON, so that it reads what was planned.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from kcli.errors import KcliError, UsageError
from kcli.spark.engines import frame_sink, frame_source
from kcli.spark.engines.frame_columns import (
    HIDDEN,
    OFFSET,
    SPLIT,
    TIME,
    condition_of,
    frame_schema,
    visible_columns,
    written_columns,
)
from kcli.spark.engines.session_job import SessionJob
from kcli.spark.engines.spark_engine import POLL_SECONDS, reason_of, worker_lost
from kcli.spark.engines.task_failure import left_failure
from kcli.spark.export.log.export_log import decoded
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.stop_request import signals_wait
from kcli.spark.export.target.layout import receipt_index, receipts_path
from kcli.spark.source.brokers.brokers_reader import BrokersReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kcli.spark.engines.session_log import SessionLog
    from kcli.spark.export.engine import Engine, Progress
    from kcli.spark.export.options import WriteOptions
    from kcli.spark.export.writing.split_task import SplitTask
    from kcli.spark.split import Split

PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

_OURS = ("client.id",)
"""Properties with a default in kcli's client, which the connector chooses itself."""


def package() -> str:
    """Return the connector's Maven coordinates for this PySpark."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def is_available(spark: SparkSession) -> bool:
    """Return whether the JVM of a session has the connector; False for Spark Connect, which does not tell."""
    from pyspark.sql import is_remote

    if is_remote():
        return False
    jvm: Any = spark.sparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(PROVIDER))


def check_available(spark: SparkSession) -> None:
    """Raise `KcliError` with the connector's coordinates unless it is there."""
    if not is_available(spark):
        raise KcliError(
            "Spark's Kafka connector is not there",
            hint=f"--conf spark.jars.packages={package()}, or leave `--via connector` out",
        )


def connector_can_read(task: SplitTask) -> bool:
    """Return whether the connector reads a task's rows as they are to be written."""
    options, plain = task.options, ("binary", "none")
    is_plain = options.key.name in plain and options.value.name in plain and not options.headers_as_map
    return isinstance(task.reader, BrokersReader) and is_plain


def check_connector_can_read(task: SplitTask) -> None:
    """Raise `KcliError` if the connector cannot read a task's rows."""
    if not connector_can_read(task):
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


class SqlEngine:
    """Runs tasks on a session, as many at once as `engine` would.

    With `via_connector` None, Spark's Kafka connector reads if it is there and can read the rows.
    """

    def __init__(
        self,
        spark: SparkSession,
        engine: Engine,
        log: SessionLog | None = None,
        *,
        via_connector: bool | None = False,
    ) -> None:
        self._spark = spark
        self._engine = engine
        self._log = log
        self._via_connector = via_connector

    @property
    def slots(self) -> int:
        return self._engine.slots

    def check(self, options: WriteOptions) -> None:
        """Raise `KcliError`, before anything is written, if Spark SQL refuses the filter or the columns."""
        schema = from_arrow_schema(frame_schema(options))
        with signals_wait(), _named_errors():
            if self._via_connector:
                check_available(self._spark)
            _written(self._spark.createDataFrame([], schema), options)

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        shared = [task for task in tasks if task.shares_files]
        if shared:  # of a plan whose tasks were to write, which a later run resumes
            self._engine.run(shared, on_done, progress)
            tasks = [task for task in tasks if not task.shares_files]
        if not tasks:
            return
        left_failure(tasks)
        with signals_wait():
            self._spark.dataSource.register(frame_sink.sink_of(tasks))
            with _named_errors():
                written = _written(self._rows(tasks), tasks[0].options)
            writer = written.write.format(frame_sink.NAME).mode("append")
            job = SessionJob(self._spark, writer.save)
        receipts = _Receipts(tasks, on_done)
        try:
            while job.is_running(POLL_SECONDS):
                receipts.look()
        except BaseException:
            # Ctrl-C: no task may write after this method returns.
            job.cancel()
            raise
        receipts.look()
        if job.error is not None:
            raise left_failure(tasks) or worker_lost(job.error, self._log) from job.error

    def close(self) -> None:
        """Do nothing: the caller owns the session."""

    def _rows(self, tasks: Sequence[SplitTask]) -> DataFrame:
        if self._reads_by_connector(tasks):
            return self._connector_rows(tasks)
        self._spark.dataSource.register(frame_source.source_of(tasks))
        return self._spark.read.format(frame_source.NAME).load()

    def _reads_by_connector(self, tasks: Sequence[SplitTask]) -> bool:
        if self._via_connector:
            check_available(self._spark)
            for task in tasks:
                check_connector_can_read(task)
        if self._via_connector is None:
            return is_available(self._spark) and all(map(connector_can_read, tasks))
        return self._via_connector

    def _connector_rows(self, tasks: Sequence[SplitTask]) -> DataFrame:
        options = tasks[0].options
        visible = [
            name
            for name in visible_columns(options)
            if not (name in ("key", "value") and getattr(options, name).name == "none")
        ]
        frames = [
            rows_of(self._spark, task, headers="headers" in visible).select(
                *visible,
                sql.lit(position).alias(SPLIT),
                sql.col("offset").alias(OFFSET),
                sql.unix_micros("timestamp").alias(TIME),
            )
            for position, task in enumerate(tasks)
        ]
        return reduce(lambda one, other: one.unionAll(other), frames)


class _Receipts:
    def __init__(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None]) -> None:
        self._task = tasks[0]
        self._waited_for = {task.index for task in tasks}
        self._on_done = on_done

    def look(self) -> None:
        target, plan = self._task.target, self._task.plan
        for entry in target.list(receipts_path(plan)):
            index = receipt_index(entry.path.rpartition("/")[2])
            data = target.read(entry.path) if index in self._waited_for else None
            if index is not None and data is not None:
                self._waited_for.discard(index)
                self._on_done(decoded(data, entry.path, Receipt.from_json))


def _written(rows: DataFrame, options: WriteOptions) -> DataFrame:
    """Return the rows to write, the hidden columns last."""
    condition = condition_of(options)
    if condition is not None:
        rows = rows.where(condition)
    if options.select is not None:
        rows = _selected(rows, options.select)
    names = written_columns(options, [name for name in rows.columns if name not in HIDDEN])
    if not names:
        raise UsageError("no column is left to write")
    return rows.select(*(_quoted(name) for name in names), *HIDDEN)


def _selected(rows: DataFrame, select: str) -> DataFrame:
    """Return the columns that SQL computes, followed by the hidden ones."""
    view = f"kcli_{uuid.uuid4().hex}"
    hidden = ", ".join(map(_quoted, HIDDEN))
    rows.createOrReplaceTempView(view)
    try:
        chosen = rows.sparkSession.sql(f"SELECT {select}, {hidden} FROM {view}")
    finally:
        rows.sparkSession.catalog.dropTempView(view)
    # A `*` includes the hidden ones: only the last three are the appended ones.
    names = chosen.columns
    kept = [index for index, name in enumerate(names[:-3]) if name not in HIDDEN]
    doubled = {name for name in names[:-3] if names[:-3].count(name) > 1} - set(HIDDEN)
    if doubled:
        raise UsageError(f"`--select` names a column twice: {', '.join(sorted(doubled))}")
    numbered = chosen.toDF(*(f"c{index}" for index in range(len(names))))
    last = len(names) - len(HIDDEN)
    return numbered.select(
        *(sql.col(f"c{index}").alias(names[index]) for index in kept),
        *(sql.col(f"c{last + index}").alias(name) for index, name in enumerate(HIDDEN)),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def _named_errors() -> Iterator[None]:
    """Raise Spark's complaint about the user's SQL as an error of one line."""
    try:
        yield
    except PySparkException as error:
        raise KcliError(
            f"Spark refuses it: {reason_of(error)}", hint="see `--where` and `--select`"
        ) from error
