"""The format `kcli` of PySpark: topics from brokers or log directories, without a jar.

    spark.read.format("kcli").option("kafka.bootstrap.servers", …).option("subscribe", "orders").load()
    spark.readStream.format("kcli").option("logDirs", "/var/lib/kafka").option("subscribe", "orders").load()
    frame.write.format("kcli").mode("append").option("kafka.bootstrap.servers", …).option("topic", …).save()

Schema and options are those of Spark's own Kafka source; `kcli.spark.datasource.reader_options` lists them.
With the option `kafka.transactional.id` rows are written in transactions: the module
`kcli.spark.datasource.sink_transactions` says what is exactly once, and what is not.
Spark passes the options with names in lower case, creates this object in one process and pickles it to
others: it holds nothing but the options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSource

from kcli.errors import UsageError
from kcli.spark.datasource.batch_reader import KcliPushdownReader, KcliReader
from kcli.spark.datasource.pyspark_version import (
    can_limit_batches,
    can_push_filters,
    check_version,
)
from kcli.spark.datasource.reader_options import source_options
from kcli.spark.datasource.row_schema import spark_schema
from kcli.spark.datasource.sink import KcliSink, KcliStreamSink, sink_options
from kcli.spark.datasource.stream_reader import KcliStreamReader
from kcli.spark.python_worker import hinted
from kcli.spark.source.ranges.trigger_limits import TriggerLimits
from kcli.spark.split import OnCorrupt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kcli.spark.datasource.reader_options import SourceOptions

TASK_SLOTS = 16
"""How many tasks to plan for: the planning process does not know the number of cores."""


class KcliDataSource(DataSource):
    """The entry point of PySpark: makes readers and writers from options."""

    @classmethod
    def name(cls) -> str:
        return "kcli"

    def schema(self) -> StructType:
        """Return the columns; raise `UsageError` for options that neither a batch nor a stream accepts."""
        with hinted():
            options = self._options_of_either()
        return spark_schema(options.reading.columns)

    def reader(self, schema: StructType) -> KcliReader:
        with hinted():
            options = self._source_options(streaming=False)
            if options.pushdown:
                check_version("the option `pushdown`", can=can_push_filters, version="4.1")
            _check_schema(schema, options)
        return KcliPushdownReader(options) if options.pushdown else KcliReader(options)

    def streamReader(self, schema: StructType) -> KcliStreamReader:
        with hinted():
            options = self._source_options(streaming=True)
            if options.triggers != TriggerLimits():
                what = "the options `minOffsetsPerTrigger`, `maxOffsetsPerTrigger` and `maxTriggerDelay`"
                check_version(what, can=can_limit_batches, version="4.2")
            _check_schema(schema, options)
        return KcliStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> KcliSink:
        with hinted():
            check_version("writing to a topic", can=can_limit_batches, version="4.2")
            if overwrite:
                raise UsageError("a topic cannot be overwritten", hint='use mode("append")')
            return KcliSink(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KcliStreamSink:
        """Return the sink of a stream; in mode `complete` every result is appended."""
        with hinted():
            check_version("writing a stream to a topic", can=can_limit_batches, version="4.2")
            return KcliStreamSink(sink_options(self.options), schema)

    def _options_of_either(self) -> SourceOptions:
        try:
            return self._source_options(streaming=False)
        except UsageError as refused:
            try:
                return self._source_options(streaming=True)
            except UsageError:
                raise refused from None

    def _source_options(self, *, streaming: bool) -> SourceOptions:
        options = source_options(dict(self.options), streaming=streaming)
        if options.reading.on_corrupt is OnCorrupt.DEAD_LETTER:
            raise UsageError(
                "a DataFrame has no place for dead letters", hint="set `onCorrupt` to fail or skip"
            )
        return replace(options, limits=replace(options.limits, task_slots=TASK_SLOTS))


def _check_schema(schema: StructType, options: SourceOptions) -> None:
    if schema != spark_schema(options.reading.columns):
        raise UsageError(
            "the schema of this source is fixed",
            hint="choose columns with the option `columns`, and convert them with DataFrame operations",
        )


def register_format(session: SparkSession) -> None:
    """Register the format, unless Spark 4.0 has found it by itself: later ones replace it."""
    try:
        session.dataSource.register(KcliDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
