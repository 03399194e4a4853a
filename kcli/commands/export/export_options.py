"""ExportChoices: the command line of `spark-export` in groups of options, and the export that it asks for.

An option is declared in its group, beside the methods that interpret it: `source_options` (where records come
from), `file_options` (what is written), `run_options` (what runs the tasks). A `UsageError` that needs no
look at brokers, directories or the target is raised before anything is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.export.file_options import (
    ColumnChoice,
    DamageChoice,
    HeadersAs,
    OutputChoice,
    field_format,
)
from kcli.commands.export.run_options import ActionChoice, EngineChoice, FollowChoice, Via, WriterName
from kcli.commands.export.source_options import ConnectionChoice, RangeChoice, SourceChoice
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.spark.export.options import ExportOptions, WriteOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source


class ExportChoices(NamedTuple):
    """All options; the order of the fields is that of `--help`."""

    to: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URI",
            help="Where the Parquet files go: a directory, or s3://, gs://, hdfs:// …",
            show_default=False,
        ),
    ] = None
    source: SourceChoice = SourceChoice()
    range: RangeChoice = RangeChoice()
    columns: ColumnChoice = ColumnChoice()
    output: OutputChoice = OutputChoice()
    damage: DamageChoice = DamageChoice()
    follow: FollowChoice = FollowChoice()
    engine: EngineChoice = EngineChoice()
    action: ActionChoice = ActionChoice()
    connection: ConnectionChoice = ConnectionChoice()

    def open_source(self) -> Source:
        """Return the source; it reads nothing yet."""
        return self.source.open(self.connection)

    def open_target(self) -> Target:
        from kcli.spark.export.target.object_target import open_target

        if not self.to:
            raise UsageError("missing option `--to`", hint="the directory, or the URI, of the Parquet files")
        return open_target(self.to)

    def export_options(self, *, slots: int = 1) -> ExportOptions:
        from kcli.spark.export.options import ExportOptions, Mode
        from kcli.spark.source.source import SplitLimits

        return ExportOptions(
            selection=self.source.selection(),
            rules=self.range.rules(
                self.columns.narrowing(), on_reset=self.damage.on_reset, follows=self.follow.follow
            ),
            write=self.write_options(),
            mode=Mode(self.output.mode),
            limits=SplitLimits(
                min_partitions=self.engine.min_partitions,
                max_records=self.engine.max_records_per_partition,
                task_slots=slots,
                target_file_bytes=self.output.target_file_bytes(),
                shares_files=not self.uses_spark_writer(),
            ),
        )

    def write_options(self) -> WriteOptions:
        from kcli.spark.export.options import WriteOptions
        from kcli.spark.split import OnBadValue, Reading

        columns = self.columns
        return WriteOptions(
            reading=Reading(
                columns=columns.names(),
                read_committed=self.range.read_committed,
                on_corrupt=self.damage.batches(),
                fail_on_data_loss=self.range.fail_on_data_loss,
            ),
            key=field_format(columns.key_as, columns.key_schema, "key"),
            value=field_format(columns.value_as, columns.value_schema, "value"),
            on_bad_value=OnBadValue(columns.on_bad_value),
            headers_as_map=columns.headers is HeadersAs.MAP,
            where=columns.where,
            select=columns.select,
            layout=self.output.layout(),
            parquet=self.output.parquet(),
        )

    def needs_spark_writer(self) -> bool:
        """Return whether only Spark SQL can do it."""
        return self.columns.needs_sql() or self.engine.via is Via.CONNECTOR

    def uses_spark_writer(self) -> bool:
        """Return whether Spark SQL writes the files."""
        return self.engine.writer is WriterName.SPARK or self.needs_spark_writer()

    def check(self) -> None:
        """Raise `UsageError` if options contradict each other."""
        self.source.check()
        if self.needs_spark_writer() and self.engine.writer is WriterName.ARROW:
            raise UsageError("`--select`, `--via connector` and this `--where` need `--writer spark`")
        if self.uses_spark_writer() and self.engine.is_local:
            raise UsageError(
                f"{self._sql_option()} needs `--engine spark`", hint="leave `--engine local` out"
            )
        if self.engine.via is Via.CONNECTOR and self.source.log_dir:
            raise UsageError("`--via connector` reads from brokers, not from `--log-dir`")
        self.engine.check()
        self.columns.check()
        self.follow.check()

    def _sql_option(self) -> str:
        """Return the option that only Spark SQL obeys."""
        if self.engine.writer is WriterName.SPARK:
            return "`--writer spark`"
        if self.columns.select is not None:
            return "`--select`"
        return "`--via connector`" if self.engine.via is Via.CONNECTOR else "this `--where`"
