"""What `spark-export` does: parse, open, run, and tell how it ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kcli.commands.export.export_options import EngineName
from kcli.commands.export.export_view import Exported, Failed, Planned, warnings_of
from kcli.commands.shared.options import OutputFormat
from kcli.commands.shared.output import note
from kcli.errors import Interrupted, KcliError, UsageError, install_hint

if TYPE_CHECKING:
    from kcli.commands.export.export_options import ActionChoice, ExportChoices
    from kcli.commands.shared.output import Result
    from kcli.spark.export.dry_run import DryRun
    from kcli.spark.export.options import ExportOptions
    from kcli.spark.export.target.target import Target
    from kcli.spark.source.source import Source


def perform(choices: ExportChoices, output: OutputFormat | None) -> Result:
    """Do what a command line says; with JSON a failure is a result too."""
    operation, action = chosen_action(choices.action)
    try:
        check_environment()
        with terminable():
            return action(choices)
    except KcliError as error:
        return failed(operation, error, output)
    except KeyboardInterrupt:
        interrupted = Interrupted(
            "interrupted: what is done is kept", hint="the same command goes on from here"
        )
        return failed(operation, interrupted, output)


def failed(operation: str, error: KcliError, output: OutputFormat | None) -> Result:
    """Raise an error, but with JSON return it with its kind."""
    if output is not OutputFormat.JSON or find_spec("pyarrow") is None:
        raise error
    from kcli.spark.export.failures import kind_of

    return Failed(operation, kind_of(error), (error,))


def chosen_action(choice: ActionChoice) -> tuple[str, Callable[[ExportChoices], Result]]:
    """Return what is to be done, and its name."""
    actions: dict[str, Callable[[ExportChoices], Result]] = {
        "dry-run": dry_run,
        "list": list_files,
        "verify": verify,
        "repair": repair,
    }
    given = [name for name, is_given in zip(actions, choice, strict=True) if is_given]
    if len(given) > 1:
        raise UsageError(f"`--{given[0]}` and `--{given[1]}` exclude each other")
    return (given[0], actions[given[0]]) if given else ("export", export)


def check_environment() -> None:
    """Refuse to begin without the libraries that every export needs."""
    missing = [name for name in ("pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise KcliError(f"`spark-export` needs {' and '.join(missing)}", hint=install_hint("spark"))


def export(choices: ExportChoices) -> Result:
    """Run an export, once or again and again."""
    from kcli.commands.export.export_engines import open_engine
    from kcli.commands.export.export_request import (
        check_combination,
        export_options,
        follow_options,
        open_source,
        uses_spark_writer,
    )
    from kcli.commands.export.progress import work_progress
    from kcli.spark.export.export_run import follow_export, run_export
    from kcli.spark.export.preparation import prepared

    check_combination(choices)
    options, follow = export_options(choices), follow_options(choices.follow)
    follows, target = choices.follow.follow, target_of(choices)
    with ExitStack() as stack:
        source = stack.enter_context(closing(open_source(choices.source)))
        options = prepared(source, target, options, may_be_nothing=follows)
        is_idle = not follows and is_nothing(planned(source, target, options, choices))
        by_sql = options.write if uses_spark_writer(choices) else None
        engine = stack.enter_context(open_engine(choices.engine, by_sql=by_sql, is_idle=is_idle))
        progress = stack.enter_context(work_progress("exporting"))
        if follows:
            summary = follow_export(source, target, options, engine, progress, follow=follow)
        else:
            summary = run_export(source, target, options, engine, progress)
    for line in warnings_of(summary):
        note(f"warning: {line}")
    return Exported(summary)


def planned(source: Source, target: Target, options: ExportOptions, choices: ExportChoices) -> DryRun | None:
    """Return what there is to do, None if it is not worth to know before: Spark takes seconds to start."""
    from kcli.spark.export.dry_run import plan_export

    if choices.engine.engine is EngineName.LOCAL:
        return None
    return plan_export(source, target, options)


def is_nothing(plan: DryRun | None) -> bool:
    """Tell whether there is no task in a plan."""
    return plan is not None and plan.resumes_plan is None and not plan.partitions


def dry_run(choices: ExportChoices) -> Result:
    """Show what an export would do."""
    from kcli.commands.export.export_engines import slots_of
    from kcli.commands.export.export_request import check_combination, export_options, open_source
    from kcli.spark.export.dry_run import plan_export
    from kcli.spark.export.preparation import prepared

    check_combination(choices)
    options = export_options(choices)
    target = target_of(choices)
    with closing(open_source(choices.source)) as source:
        options = prepared(source, target, options)
        plan = plan_export(source, target, options, slots=slots_of(choices.engine))
    for gap in plan.gaps:
        note(f"warning: {gap.topic}-{gap.partition}: offsets {gap.start} to {gap.end}: {gap.reason}")
    return Planned(plan)


def list_files(choices: ExportChoices) -> Result:
    """List the committed files."""
    from kcli.commands.export.export_view import Listed
    from kcli.spark.export.log.export_log import list_export

    return Listed(list_export(target_of(choices)))


def verify(choices: ExportChoices) -> Result:
    """Check the committed files."""
    from kcli.commands.export.export_view import Verified
    from kcli.spark.export.verification import verify_export

    found = verify_export(target_of(choices))
    for line in found.notes:
        note(f"note: {line}")
    return Verified.of(found)


def repair(choices: ExportChoices) -> Result:
    """Make the commit log again."""
    from kcli.commands.export.export_view import Repaired
    from kcli.spark.export.log.export_log import list_export
    from kcli.spark.export.repair import repair_export

    target = target_of(choices)
    repaired = repair_export(target)
    if repaired.commit is None:
        list_export(target)  # which refuses what is no export
    return Repaired(repaired)


def target_of(choices: ExportChoices) -> Target:
    """Return where the files are."""
    from kcli.spark.export.target.object_target import open_target

    if not choices.output.to:
        raise UsageError("missing option `--to`", hint="the directory, or the URI, of the Parquet files")
    return open_target(choices.output.to)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored, end the work as Ctrl-C does."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    ending = (signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
