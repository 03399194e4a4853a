"""`kcli verify-index`: whether the files of log directories agree with each other, on files that nobody runs.

Every file is only read. A broker may be running on the directories: what it is still writing is no finding.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.commands.output import OutputFormat
from kcli.commands.runner import command
from kcli.errors import ChecksFailed, KcliError, MissingArgument, UsageError

if TYPE_CHECKING:
    from kcli.commands.verify_report import Printer
    from kcli.commands.verify_targets import Targets
    from kcli.storage.verification.options import VerificationOptions

app = typer.Typer(rich_markup_mode=None)

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH...",
        help="Directories of partitions, log directories of brokers, or single files of them",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic of a log directory (repeatable)"),
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="NUMBER", help="Only this partition of each topic (repeatable)"),
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Look at each record: decompression, counts, offsets, timestamps"),
]
IndexSanityCheck = Annotated[
    bool,
    typer.Option(
        "--index-sanity-check",
        help="Only judge indexes as a starting broker does: by size and last entry, without the log",
    ),
]
VerifyIndexOnly = Annotated[
    bool,
    typer.Option("--verify-index-only", help="Only tell of indexes, not of logs and other files"),
]
Rebuild = Annotated[
    Path | None,
    typer.Option(
        "--rebuild",
        metavar="OUT_DIR",
        help="Write fresh indexes to this directory, which must be new or empty, one directory a partition",
        show_default=False,
    ),
]
IndexIntervalBytes = Annotated[
    int,
    typer.Option(
        "--index-interval-bytes", metavar="BYTES", min=0, help="Bytes between entries of fresh indexes"
    ),
]
Compare = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="OTHER_DIR",
        help="Compare with another replica of the partition, or with those of another log directory",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        min=1,
        help="Partitions to verify at a time, each in a process: by default as many as processors",
        show_default=False,
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="List all kinds of findings, what they mean and what to do, and end"),
]


@command(app, "verify-index", example="kcli verify-index /var/lib/kafka/data/orders-0")
async def verify_index(
    paths: Paths = None,
    topics: Topics = None,
    partitions: Partitions = None,
    deep: Deep = False,
    index_sanity_check: IndexSanityCheck = False,
    verify_index_only: VerifyIndexOnly = False,
    rebuild: Rebuild = None,
    index_interval_bytes: IndexIntervalBytes = 4096,
    compare: Compare = None,
    jobs: Jobs = None,
    explain: Explain = False,
    output: OutputFormat | None = None,
) -> None:
    """Check indexes, logs, snapshots and checkpoints of partitions against each other.

    Reads every segment once, and only reads. Exit code 0: no problems; 3: problems were found;
    1: something could not be read. Findings of severity `info` are no problems.
    """
    from kcli.commands.verify_modes import compare_replicas, rebuild_indexes
    from kcli.commands.verify_report import print_explanations, printer_for
    from kcli.commands.verify_targets import find_targets
    from kcli.storage.verification.options import VerificationOptions

    if explain:
        print_explanations(output)
        return
    if not paths:
        raise MissingArgument("PATH...")
    check_modes(index_sanity_check, rebuild is not None, compare is not None, deep or verify_index_only)
    options = VerificationOptions(deep, verify_index_only, index_sanity_check)
    targets = find_targets(paths, frozenset(topics or ()), frozenset(partitions or ()))
    printer = printer_for(output, targets.files)
    if rebuild is not None:
        rebuild_indexes(targets, str(rebuild), index_interval_bytes, printer)
    elif compare is not None:
        compare_replicas(targets, str(compare), printer)
    else:
        run(targets, options, jobs, printer)
    end(printer)


def check_modes(sanity: bool, rebuild: bool, compare: bool, has_details: bool) -> None:
    """Raise `UsageError` for options that do not go together."""
    if sanity + rebuild + compare > 1:
        raise UsageError("`--index-sanity-check`, `--rebuild` and `--compare` exclude each other")
    if has_details and (sanity or rebuild or compare):
        raise UsageError("`--deep` and `--verify-index-only` are for a verification alone")


def end(printer: Printer) -> None:
    """Print the summary; end by `typer.Exit` unless nothing was found."""
    printer.finish()
    if printer.has_problems:
        raise typer.Exit(ChecksFailed.exit_code)
    if printer.has_failures:
        raise typer.Exit(KcliError.exit_code)


def run(targets: Targets, options: VerificationOptions, jobs: int | None, printer: Printer) -> None:
    """Verify all targets, and print what is found."""
    from kcli.commands.progress import progress_bar
    from kcli.commands.verify_plan import VerificationPlan
    from kcli.commands.verify_processes import WORTH_A_PROCESS_BYTES, size_of, verify_all

    plan = VerificationPlan(targets, options)
    tasks = plan.tasks(printer)
    total = 0 if options.sanity_only else sum(size_of(task.directory) for task in tasks)
    if jobs is None:
        jobs = (os.cpu_count() or 1) if total > WORTH_A_PROCESS_BYTES else 1
    with progress_bar("verifying", total or None) as advance:
        for report in verify_all(tasks, jobs, advance):
            printer.report(report)
            plan.note(report)
    plan.finish(printer)
