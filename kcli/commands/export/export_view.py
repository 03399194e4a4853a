"""What `spark-export` prints: the summary or plan of an export, and the state of a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import counted, duration_text, size_text
from kcli.commands.shared.output import Table
from kcli.errors import ChecksFailed, KcliError

if TYPE_CHECKING:
    from kcli.spark.export.dry_run import DryRun
    from kcli.spark.export.log.commit import Gap, Summary
    from kcli.spark.export.log.export_log import Listing
    from kcli.spark.export.repair import Repair
    from kcli.spark.export.verification import Verification


class Exported(NamedTuple):
    summary: Summary
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        for part in self.summary.partitions:
            yield (
                f"{part.topic}-{part.partition}: offsets {part.start} to {part.end}, "
                f"{counted(part.rows, 'row')}, {counted(part.files, 'file')}"
            )
        yield self.total()

    def total(self) -> str:
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
        rows = [
            (part.topic, part.partition, part.start, part.end, part.rows, part.files)
            for part in self.summary.partitions
        ]
        columns = ("Topic", "Partition", "Start", "End", "Rows", "Files") if rows else ()
        yield Table(columns, rows, title=self.total())

    def document(self) -> object:
        return {"operation": "export", **asdict(self.summary)}


def warnings_of(summary: Summary) -> Iterator[str]:
    """Yield a warning for each kind of record that is not in the files."""
    for gap in summary.gaps:
        yield _missing(gap)
    for reset in summary.resets:
        rows = "were removed" if reset.kept_in is None else f"are in {reset.kept_in}"
        yield f"{reset.topic}-{reset.partition} was made again or truncated: its earlier rows {rows}"
    counters, letters = summary.counters, f"{summary.state}/dead-letter"
    if counters.corrupt_batches:
        kept = f", kept in {letters}/batches" if counters.dead_letter_batches else ""
        what = counted(counters.corrupt_batches, "damaged place")
        yield f"{what} left out, {size_text(counters.corrupt_bytes)}{kept}"
    if counters.bad_values:
        kept = f"kept in {letters}/values" if counters.dead_letter_rows else "null now"
        yield f"{counted(counters.bad_values, 'key or value', 'keys and values')} not decoded, {kept}"


def _missing(gap: Gap) -> str:
    name = gap.topic if gap.partition < 0 else f"{gap.topic}-{gap.partition}"
    if gap.start >= gap.end:  # all of it
        return f"{name}: {gap.reason}"
    last = gap.end - 1
    what = f"offset {last} is" if gap.start == last else f"offsets {gap.start} to {last} are"
    return f"{name}: {what} not there: {gap.reason}"


class Planned(NamedTuple):
    plan: DryRun

    def lines(self) -> Iterator[str]:
        for part in self.plan.partitions:
            yield (
                f"{part.topic}-{part.partition}: offsets {part.start} to {part.end}, "
                f"at most {counted(part.records, 'row')}, {size_text(part.size_bytes)}, "
                f"{counted(part.splits, 'task')}"
            )
        yield self.total()

    def total(self) -> str:
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
        rows = [
            (part.topic, part.partition, part.start, part.end, part.records, part.size_bytes, part.splits)
            for part in self.plan.partitions
        ]
        columns = ("Topic", "Partition", "Start", "End", "Rows at most", "Bytes", "Tasks")
        yield Table(columns if rows else (), rows, title=self.total())

    def document(self) -> object:
        return {"operation": "dry-run", **asdict(self.plan)}


class Failed(NamedTuple):
    """The result of an export that failed, in JSON."""

    operation: str
    kind: str
    failures: Sequence[KcliError]

    def lines(self) -> Sequence[str]:
        """Return nothing: the error is printed."""
        return ()

    def document(self) -> object:
        (error,) = self.failures
        failure = {"kind": self.kind, "error": error.message, "hint": error.hint}
        return {"operation": self.operation, "failure": failure}


class Listed(NamedTuple):
    listing: Listing

    def lines(self) -> Iterator[str]:
        """Return the path of each file, as a program opens it."""
        for file in self.listing.files:
            yield f"{self.listing.target.rstrip('/')}/{file.path}"

    def tables(self) -> Iterator[Table]:
        files = self.listing.files
        yield Table(
            ("File", "Rows", "Bytes", "First offset", "Last offset"),
            [(file.path, file.rows, file.size_bytes, file.first_offset, file.last_offset) for file in files],
        )
        yield Table(
            ("Topic", "Partition", "Next offset"),
            [
                (topic, partition, offset)
                for topic, offsets in sorted(self.listing.next_offsets.items())
                for partition, offset in sorted(offsets.items())
            ],
        )

    def document(self) -> object:
        document = {"operation": "list", **asdict(self.listing)}
        for file in document["files"]:
            del file["temporary"]  # its path before the commit
            del file["copy_of"]
        return document


class Verified(NamedTuple):
    verification: Verification
    failures: Sequence[ChecksFailed]

    @classmethod
    def of(cls, verification: Verification) -> Verified:
        """Return the failures, which decide the exit code."""
        found = len(verification.problems)
        error = ChecksFailed(
            f"{counted(found, 'problem')} in {verification.target}",
            hint="`--mode overwrite` exports everything again; `--repair` helps when only the log is lost",
        )
        return cls(verification, (error,) if found else ())

    def lines(self) -> Iterator[str]:
        found = self.verification
        for problem in found.problems:
            yield f"{problem.path}: {problem.reason}"
        yield (
            f"checked {counted(found.files, 'file')}, {counted(found.rows, 'row')}, "
            f"{size_text(found.bytes)}: {counted(len(found.problems), 'problem')}"
        )

    def tables(self) -> Iterator[Table]:
        *_, total = self.lines()
        rows = [(problem.path, problem.reason) for problem in self.verification.problems]
        yield Table(("File", "Problem") if rows else (), rows, title=total)

    def document(self) -> object:
        return {"operation": "verify", **asdict(self.verification)}


class Repaired(NamedTuple):
    repair: Repair

    def lines(self) -> Iterator[str]:
        repair = self.repair
        for path in repair.removed:
            yield f"set aside {path}"
        if repair.commit is None:
            end = ": the next export is the first" if repair.begins_afresh else ""
            yield f"nothing {'is left' if end else 'to repair'} in {repair.target}{end}"
        else:
            yield (
                f"made commit {repair.commit} of {counted(repair.files, 'file')} with "
                f"{counted(repair.rows, 'row')} in {repair.target}"
            )

    def document(self) -> object:
        return {"operation": "repair", **asdict(self.repair)}
