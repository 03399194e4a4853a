"""What `spark-export` prints of a target: its files, whether they are whole, what was made again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.amounts import size_text
from kcli.commands.output import Table
from kcli.commands.words import counted
from kcli.errors import ChecksFailed

if TYPE_CHECKING:
    from kcli.spark.job.listing import Listing
    from kcli.spark.job.repair import Repair
    from kcli.spark.job.verification import Verification


class Listed(NamedTuple):
    """The result of `--list`."""

    listing: Listing

    def lines(self) -> Iterator[str]:
        """Return the path of each file, as a program opens it."""
        root = self.listing.target.rstrip("/")
        for file in self.listing.files:
            yield f"{root}/{file.path}"

    def tables(self) -> Iterator[Table]:
        """Return the files with what is in them, and where the next export goes on."""
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
        """Return everything that is known of the target."""
        document = {"operation": "list", **asdict(self.listing)}
        for file in document["files"]:
            del file["temporary"]  # where it stood before the commit
        return document


class Verified(NamedTuple):
    """The result of `--verify`."""

    verification: Verification
    failures: Sequence[ChecksFailed]

    @classmethod
    def of(cls, verification: Verification) -> Verified:
        """Return what was found; problems make the exit code."""
        found = len(verification.problems)
        error = ChecksFailed(
            f"{counted(found, 'problem')} in {verification.target}",
            hint="`--mode overwrite` exports everything again; `--repair` helps when only the log is lost",
        )
        return cls(verification, (error,) if found else ())

    def lines(self) -> Iterator[str]:
        """Return a line for each problem, and one for all."""
        found = self.verification
        for problem in found.problems:
            yield f"{problem.path}: {problem.reason}"
        yield (
            f"checked {counted(found.files, 'file')}, {counted(found.rows, 'row')}, "
            f"{size_text(found.bytes)}: {counted(len(found.problems), 'problem')}"
        )

    def tables(self) -> Iterator[Table]:
        """Return the problems, below what was checked."""
        *_, total = self.lines()
        rows = [(problem.path, problem.reason) for problem in self.verification.problems]
        yield Table(("File", "Problem") if rows else (), rows, title=total)

    def document(self) -> object:
        """Return everything that was checked and found."""
        return {"operation": "verify", **asdict(self.verification)}


class Repaired(NamedTuple):
    """The result of `--repair`."""

    repair: Repair

    def lines(self) -> Iterator[str]:
        """Return what was made again."""
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
        """Return everything that was made again."""
        return {"operation": "repair", **asdict(self.repair)}
