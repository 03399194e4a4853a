"""Printing what a verification finds while it runs, and its summary at the end."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kcli.commands.output import OutputFormat, Table, chosen_format, plain, print_error, print_tables
from kcli.commands.verify.findings_view import (
    Summary,
    advice_lines,
    explanations,
    in_order,
    json_line,
    table,
    text_lines,
)

if TYPE_CHECKING:
    from kcli.errors import KcliError
    from kcli.storage.verification.findings import Finding
    from kcli.storage.verification.partition_report import PartitionReport


class Printer:
    """Prints findings; those of `files` alone, if there are any. A table is printed at the end."""

    def __init__(self, output: OutputFormat, files: Collection[str]) -> None:
        self._output = output
        self._files = files
        self._kept: list[Finding] = []
        self._summary = Summary()
        self.without_segments: list[str] = []
        """The replicas in which there was nothing to verify."""

    @property
    def has_seen_segments(self) -> bool:
        """Whether there was anything to verify."""
        return bool(self._summary.segments)

    @property
    def has_problems(self) -> bool:
        """Whether there was an error or a warning."""
        return bool(self._summary.errors or self._summary.warnings)

    @property
    def has_failures(self) -> bool:
        """Whether something could not be read."""
        return bool(self._summary.unreadable)

    def report(self, report: PartitionReport) -> None:
        """Print the report on a replica."""
        summary = self._summary
        self._summary = summary._replace(
            partitions=summary.partitions + 1,
            segments=summary.segments + report.segments,
            batches=summary.batches + report.batches,
            bytes=summary.bytes + report.size_bytes,
        )
        # A single file of a replica is verified without its log, too.
        if not (report.segments or report.failures or self._files):
            self.without_segments.append(report.directory)
        if self._output is OutputFormat.TEXT:
            for path in (*report.passed, *report.empty):
                if not self._files or path in self._files:
                    print(f"{path} passed sanity check." if path in report.passed else f"{path} is empty.")
            for path in report.written:
                print(f"{path} written.")
        self.findings(report.findings)
        for failure in report.failures:
            self.failure(failure)

    def findings(self, found: Sequence[Finding]) -> None:
        """Print findings."""
        found = in_order(each for each in found if not self._files or each.path in self._files)
        self._summary = self._summary.plus(found)
        match self._output:
            case OutputFormat.JSON:
                for finding in found:
                    print(json_line(finding))
            case OutputFormat.TEXT:
                for line in text_lines(found):
                    print(line)
            case _:
                self._kept.extend(found)
        sys.stdout.flush()

    def failure(self, error: KcliError) -> None:
        """Print what could not be read."""
        self._summary = self._summary._replace(unreadable=self._summary.unreadable + 1)
        print_error(error)

    def finish(self) -> None:
        """Print the summary, in a table's case after all findings."""
        if self._output is OutputFormat.JSON:
            import json

            print(json.dumps(plain(self._summary)))
            return
        if self._kept:
            print_tables([table(self._kept)])
            print()
            for line in advice_lines(self._kept):
                print(line)
        is_vain = bool(self.without_segments) and not self.has_seen_segments
        print(self._summary.line("nothing to verify" if is_vain else "no problems"))


def print_explanations(output: OutputFormat | None) -> None:
    """Print what every kind of finding means."""
    listed = explanations()
    match chosen_format(output):
        case OutputFormat.JSON:
            import json

            for each in listed:
                print(json.dumps(plain(each)))
        case OutputFormat.TABLE:
            print_tables([Table(("kind", "severity", "meaning", "what to do"), listed)])
        case _:
            for kind, severity, meaning, advice in listed:
                print(f"{kind} ({severity}): {meaning}; {advice}")
