"""Printer: prints findings while a verification runs, and a summary at the end.

The forms are text, with the lines of Kafka's tool where it makes the same check, a table, and JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcli.commands.shared.formatting import counted
from kcli.commands.shared.output import (
    OutputFormat,
    Table,
    print_error,
    print_json,
    print_lines,
    print_tables,
)
from kcli.forensics.entries.damage import DamageKind
from kcli.forensics.verification.findings import Finding, FindingKind, Kind, Severity, advice_on, severity_of

if TYPE_CHECKING:
    from kcli.errors import KcliError
    from kcli.forensics.verification.findings import PartitionReport


_KAFKA_HEADS = {
    FindingKind.INDEX_MISMATCH: "Mismatches in :{}",
    FindingKind.TIME_INDEX_MISMATCH: "Found timestamp mismatch in :{}",
    FindingKind.TIME_INDEX_ORDER: "Found out of order timestamp in :{}",
    FindingKind.TIME_INDEX_NOT_FOUND: "The following indexed offsets are not found in :{}",
}
_KAFKA_LINES = {
    FindingKind.INDEX_MISMATCH: "  Index offset: {}, log offset: {}",
    FindingKind.TIME_INDEX_MISMATCH: "  Index timestamp: {}, log timestamp: {}",
    FindingKind.TIME_INDEX_ORDER: "  Index timestamp: {}, Previously indexed timestamp: {}",
    FindingKind.TIME_INDEX_NOT_FOUND: "Indexed offset: {}, found log offset: {}",
}
COLUMNS = ("severity", "kind", "file", "position", "offset", "message")


class Summary(NamedTuple):
    """The counts of what was checked and found; the last line of every form."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    unreadable: int = 0

    def line(self, good: str) -> str:
        """Return the summary as a sentence; `good` is the result if nothing is wrong."""
        nouns = ("partition", "segment", "batch", "byte")
        checked = ", ".join(map(counted, self[:4], nouns))
        texts = (
            (self.errors, counted(self.errors, "error")),
            (self.warnings, counted(self.warnings, "warning")),
            (self.unreadable, f"{self.unreadable:,} unreadable"),
            (self.infos, counted(self.infos, "note")),
        )
        found = [text for count, text in texts if count]
        if not (self.errors or self.warnings or self.unreadable):
            found.insert(0, good)
        return f"Checked {checked}: {', '.join(found)}"

    def plus(self, findings: Iterable[Finding]) -> Summary:
        counts = dict.fromkeys(Severity, 0)
        for finding in findings:
            counts[finding.severity] += 1
        return self._replace(
            errors=self.errors + counts[Severity.ERROR],
            warnings=self.warnings + counts[Severity.WARNING],
            infos=self.infos + counts[Severity.INFO],
        )


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings by file, in the order in which the files came, and by position in each."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.path, []).append(finding)
    return [
        finding
        for of_file in files.values()
        for finding in sorted(of_file, key=lambda each: -1 if each.position is None else each.position)
    ]


def text_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings in order as lines: those of Kafka's tool where it makes the same check."""
    pairs: dict[tuple[str, Kind], list[tuple[int, int]]] = {}
    for finding in findings:
        if finding.pair is not None and finding.kind in _KAFKA_HEADS:
            pairs.setdefault((finding.path, finding.kind), []).append(finding.pair)
    for finding in findings:
        path, kind = key = finding.path, finding.kind
        if finding.pair is None or kind not in _KAFKA_HEADS:
            yield _own_line(finding)
        elif key in pairs:
            yield _KAFKA_HEADS[kind].format(os.path.join(os.getcwd(), path))
            for pair in pairs.pop(key):
                yield _KAFKA_LINES[kind].format(*pair)


def _own_line(finding: Finding) -> str:
    where = "".join(
        f", {name} {value}"
        for name, value in (("position", finding.position), ("offset", finding.offset))
        if value is not None
    )
    return f"{finding.path}{where}: {finding.severity}: {finding.kind.value}: {finding.message}"


def table(findings: Sequence[Finding]) -> Table:
    rows = [
        (each.severity.value, each.kind.value, each.path, each.position, each.offset, each.message)
        for each in findings
    ]
    return Table(COLUMNS, rows)


def advice_lines(findings: Iterable[Finding]) -> Iterator[str]:
    kinds = dict.fromkeys(finding.kind for finding in findings if finding.severity is not Severity.INFO)
    for kind in kinds:
        yield f"{kind.value}: {advice_on(kind)}"


def document_of(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "message": finding.message,
    }


class Explanation(NamedTuple):
    """The meaning of a kind of finding, and the advice on it."""

    kind: str
    severity: str
    meaning: str
    advice: str


def explanations(found: Collection[Kind] | None = None) -> list[Explanation]:
    """Return the explanations of the kinds that were found, of all kinds if `found` is None."""
    kinds = (*DamageKind, *FindingKind) if found is None else found
    return [Explanation(kind.value, severity_of(kind).value, kind.meaning, advice_on(kind)) for kind in kinds]


class Printer:
    """Prints findings, only those about `files` if there are any. A table is printed at the end.

    With `explains`, the end also tells what each kind of finding means and what to do about it.
    """

    def __init__(self, output: OutputFormat, files: Collection[str], *, explains: bool = False) -> None:
        self._explains = explains
        self._kinds: dict[Kind, None] = {}
        self._output = output
        self._files = files
        self._kept: list[Finding] = []
        self._summary = Summary()
        self.failures: list[KcliError] = []
        """What could not be read; JSON leaves it to the end of the command."""
        self.without_segments: list[str] = []
        """The replicas without segments."""

    @property
    def has_seen_segments(self) -> bool:
        return bool(self._summary.segments)

    @property
    def has_problems(self) -> bool:
        return bool(self._summary.errors or self._summary.warnings)

    @property
    def has_failures(self) -> bool:
        return bool(self._summary.unreadable)

    def report(self, report: PartitionReport) -> None:
        summary = self._summary
        self._summary = summary._replace(
            partitions=summary.partitions + 1,
            segments=summary.segments + report.segments,
            batches=summary.batches + report.batches,
            bytes=summary.bytes + report.size_bytes,
        )
        # A single file of a replica can be verified without its log.
        if not (report.segments or report.failures or self._files):
            self.without_segments.append(report.directory)
        if self._output is OutputFormat.TEXT:
            for path in (*report.passed, *report.empty):
                if not self._files or path in self._files:
                    print_lines(
                        [f"{path} passed sanity check." if path in report.passed else f"{path} is empty."]
                    )
            print_lines(f"{path} written." for path in report.written)
        self.findings(report.findings)
        for failure in report.failures:
            self.failure(failure)

    def findings(self, found: Sequence[Finding]) -> None:
        found = in_order(each for each in found if not self._files or each.path in self._files)
        self._summary = self._summary.plus(found)
        self._kinds.update(dict.fromkeys(each.kind for each in found))
        match self._output:
            case OutputFormat.JSON:
                for finding in found:
                    print_json(document_of(finding), is_one_of_many=True)
            case OutputFormat.TEXT:
                print_lines(text_lines(found))
            case _:
                self._kept.extend(found)
        sys.stdout.flush()

    def failure(self, error: KcliError) -> None:
        self._summary = self._summary._replace(unreadable=self._summary.unreadable + 1)
        self.failures.append(error)
        if self._output is not OutputFormat.JSON:
            print_error(error)

    def finish(self) -> None:
        """Print the summary; before it the findings and the advice, if the form is a table."""
        explained = explanations(self._kinds) if self._explains else []
        if self._output is OutputFormat.JSON:
            print_explanations(self._output, explained)
            print_json(self._summary, is_one_of_many=True)
            return
        if self._kept:
            print_tables([table(self._kept)])
            print_lines(["", *(() if explained else advice_lines(self._kept))])
        if explained:
            print_explanations(self._output, explained)
        has_seen_nothing = bool(self.without_segments) and not self.has_seen_segments
        print_lines([self._summary.line("nothing to verify" if has_seen_nothing else "no problems")])


def print_explanations(output: OutputFormat, listed: Sequence[Explanation]) -> None:
    match output:
        case OutputFormat.JSON:
            for each in listed:
                print_json(each, is_one_of_many=True)
        case OutputFormat.TABLE:
            print_tables([Table(("kind", "severity", "meaning", "what to do"), listed)])
        case _:
            print_lines(
                f"{kind} ({severity}): {meaning}; {advice}" for kind, severity, meaning, advice in listed
            )
