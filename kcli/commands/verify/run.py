"""Runs `verify-index` with its options.

The processes that help are forked first: they begin while this process imports modules that only it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.output import OutputFormat, chosen_format, warn
from kcli.errors import ChecksFailed, KcliError, UsageError
from kcli.forensics.verification.targets import find_targets, nothing_in
from kcli.forensics.verification.verification_pool import VerificationPool, size_of

if TYPE_CHECKING:
    from kcli.commands.verify.printer import Printer
    from kcli.forensics.verification.targets import Targets


class VerifyOptions(NamedTuple):
    """The options of a command line."""

    paths: Sequence[str]
    topics: Collection[str] = ()
    partitions: Collection[int] = ()
    deep: bool = False
    indexes_only: bool = False
    sanity_only: bool = False
    rebuild: str | None = None
    interval_bytes: int = 4096
    compare: str | None = None
    jobs: int | None = None
    max_message_size: int | None = None
    explain: bool = False

    @property
    def is_verification(self) -> bool:
        """Whether logs are compared with the files beside them."""
        return not self.sanity_only and self.rebuild is None and self.compare is None

    def check(self) -> None:
        """Raise `UsageError` for options that exclude each other."""
        if self.sanity_only + (self.rebuild is not None) + (self.compare is not None) > 1:
            raise UsageError("`--index-sanity-check`, `--rebuild` and `--compare` exclude each other")
        has_details = self.deep or self.indexes_only or self.max_message_size is not None
        if has_details and not self.is_verification:
            options = "`--deep`, `--verify-index-only` and `--max-message-size`"
            raise UsageError(f"{options} are only for a verification")


def verify(wanted: VerifyOptions, output: OutputFormat | None) -> int:
    """Run the command, print the findings, and return the exit code. Raises `KcliError`."""
    wanted.check()
    targets = find_targets(wanted.paths, wanted.topics, wanted.partitions)
    form = chosen_format(output)
    sizes = {} if wanted.sanity_only else {replica: size_of(replica) for replica in targets.replicas}
    with VerificationPool(sizes, wanted.jobs) as pool:
        if wanted.is_verification:
            pool.begin(targets.replicas, wanted.deep)
        from kcli.commands.verify.printer import Printer

        printer = Printer(form, targets.files, explains=wanted.explain)
        do(wanted, targets, pool, printer, sum(sizes.values()))
    printer.finish()
    without_segments = printer.without_segments
    for directory in (
        *targets.directories_without_replicas,
        *(without_segments if printer.has_seen_segments else ()),
    ):
        warn(f"no segments in the directory: `{directory}`")
    if form is OutputFormat.JSON and printer.has_failures:
        problems = [ChecksFailed("problems were found")] if printer.has_problems else []
        raise ExceptionGroup("verify-index", [*printer.failures, *problems])
    if printer.has_problems or printer.has_failures:
        return ChecksFailed.exit_code if printer.has_problems else KcliError.exit_code
    if without_segments and not printer.has_seen_segments:
        where = wanted.paths[0] if len(wanted.paths) == 1 else without_segments[0]
        raise nothing_in(where, topics=wanted.topics, partitions=wanted.partitions)
    return 0


def do(
    wanted: VerifyOptions, targets: Targets, pool: VerificationPool, printer: Printer, total_bytes: int
) -> None:
    """Verify, rebuild or compare every replica and print the reports; there are `total_bytes` to read."""
    from kcli.commands.shared.progress import progress_bar

    if wanted.rebuild is not None or wanted.compare is not None:
        from kcli.commands.verify.plan import comparisons, rebuildings

        if wanted.compare is not None:
            what, tasks = "comparing", comparisons(targets, wanted.compare)
        else:
            what, tasks = "rebuilding", rebuildings(targets, wanted.rebuild or "", wanted.interval_bytes)
        with progress_bar(what, total_bytes or None) as advance:
            for report in pool.run(tasks, advance):
                printer.report(report)
        return
    from kcli.commands.verify.plan import VerificationPlan
    from kcli.forensics.verification.findings import VerificationOptions

    options = VerificationOptions(
        wanted.deep, wanted.indexes_only, wanted.sanity_only, max_message_size=wanted.max_message_size
    )
    plan = VerificationPlan(targets, options)
    with progress_bar("verifying", total_bytes or None) as advance:
        for report in pool.run(plan.tasks(printer), advance):
            printer.report(report)
            plan.note(report)
    plan.finish(printer)
