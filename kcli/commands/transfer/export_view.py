"""What `spark-export` prints: the summary of an export, and the plan of one that is only tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.amounts import duration_text, size_text
from kcli.commands.output import Table
from kcli.commands.words import counted
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.spark.job.dry_run import DryRun
    from kcli.spark.job.summary import Gap, Summary


class Exported(NamedTuple):
    """The result of an export."""

    summary: Summary
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a line for each partition, and one for all."""
        summary = self.summary
        for part in summary.partitions:
            yield (
                f"{part.topic}-{part.partition}: offsets {part.start} to {part.end}, "
                f"{counted(part.rows, 'row')}, {counted(part.files, 'file')}"
            )
        yield self.total()

    def total(self) -> str:
        """Return what was done in one line."""
        summary = self.summary
        if not summary.committed_plans:
            return f"nothing new for {summary.target}"
        rows, seconds = summary.counters.rows, summary.seconds
        rate = f", {rows / seconds:,.0f} rows/s" if rows >= 1000 and seconds >= 0.1 else ""
        return (
            f"{counted(rows, 'row')} to {summary.target}: {counted(summary.files, 'file')}, "
            f"{size_text(summary.bytes_written)} written, {size_text(summary.counters.bytes_read)} read, "
            f"{duration_text(seconds)}{rate}"
        )

    def tables(self) -> Iterator[Table]:
        """Return the partitions, below what was done in all."""
        rows = [
            (part.topic, part.partition, part.start, part.end, part.rows, part.files)
            for part in self.summary.partitions
        ]
        columns = ("Topic", "Partition", "Start", "End", "Rows", "Files") if rows else ()
        yield Table(columns, rows, title=self.total())

    def document(self) -> object:
        """Return everything that is known of the export."""
        return {"operation": "export", **asdict(self.summary)}


def warnings_of(summary: Summary) -> Iterator[str]:
    """Yield what of the records is not in the files, and where it is."""
    for gap in summary.gaps:
        yield _missing(gap)
    counters, letters = summary.counters, f"{summary.target}/_kcli/dead-letter"
    if counters.corrupt_batches:
        kept = f", kept in {letters}/batches" if counters.dead_letter_batches else ""
        what = counted(counters.corrupt_batches, "damaged place")
        yield f"{what} left out, {size_text(counters.corrupt_bytes)}{kept}"
    if counters.bad_values:
        kept = f"kept in {letters}/values" if counters.dead_letter_rows else "null now"
        yield f"{counted(counters.bad_values, 'key or value', 'keys and values')} not decoded, {kept}"


def _missing(gap: Gap) -> str:
    """Return what is missing, the first and the last offset as in errors."""
    name = gap.topic if gap.partition < 0 else f"{gap.topic}-{gap.partition}"
    if gap.start >= gap.end:  # all of it
        return f"{name}: {gap.reason}"
    last = gap.end - 1
    what = f"offset {last} is" if gap.start == last else f"offsets {gap.start} to {last} are"
    return f"{name}: {what} not there: {gap.reason}"


class Planned(NamedTuple):
    """The result of `--dry-run`."""

    plan: DryRun

    def lines(self) -> Iterator[str]:
        """Return a line for each partition, and one for all."""
        plan = self.plan
        for part in plan.partitions:
            yield (
                f"{part.topic}-{part.partition}: offsets {part.start} to {part.end}, "
                f"at most {counted(part.records, 'row')}, {size_text(part.size_bytes)}, "
                f"{counted(part.splits, 'task')}"
            )
        yield self.total()

    def total(self) -> str:
        """Return what would be done in one line."""
        plan = self.plan
        rows = sum(part.records for part in plan.partitions)
        size = sum(part.size_bytes for part in plan.partitions)
        first = "" if plan.resumes_plan is None else f"after finishing plan {plan.resumes_plan}, "
        if not rows:
            return f"dry run: {first}nothing new for {plan.target}"
        return (
            f"dry run: {first}at most {counted(rows, 'row')} to {plan.target}: "
            f"{size_text(size)} to read, about {counted(plan.files, 'file')}"
        )

    def tables(self) -> Iterator[Table]:
        """Return the partitions, below what would be done in all."""
        rows = [
            (part.topic, part.partition, part.start, part.end, part.records, part.size_bytes, part.splits)
            for part in self.plan.partitions
        ]
        columns = ("Topic", "Partition", "Start", "End", "Rows at most", "Bytes", "Tasks")
        yield Table(columns if rows else (), rows, title=self.total())

    def document(self) -> object:
        """Return everything that is known of the plan."""
        return {"operation": "dry-run", **asdict(self.plan)}


class Failed(NamedTuple):
    """The result of an export that did not come to its end, in JSON."""

    operation: str
    kind: str
    failures: Sequence[KcliError]

    def lines(self) -> Sequence[str]:
        """Return no line: the error says it."""
        return ()

    def document(self) -> object:
        """Return the kind of the failure and its words."""
        (error,) = self.failures
        failure = {"kind": self.kind, "error": error.message, "hint": error.hint}
        return {"operation": self.operation, "failure": failure}
