"""How the findings of a verification look: text, with the lines of Kafka's tool, a table, or JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kcli.commands.output import Table
from kcli.commands.words import counted
from kcli.storage.damage import DamageKind
from kcli.storage.verification.finding_kinds import FindingKind, Kind, Severity, advice_on, severity_of
from kcli.storage.verification.findings import Finding

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
    """What was checked, and how many findings there were; the last line of every form."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    bytes: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    unreadable: int = 0

    def line(self, good: str) -> str:
        """Return it as a sentence; `good` says what it comes to where nothing is wrong."""
        checked = ", ".join(
            (
                counted(self.partitions, "partition"),
                counted(self.segments, "segment"),
                counted(self.batches, "batch"),
                counted(self.bytes, "byte"),
            )
        )
        found = [
            text
            for count, text in (
                (self.errors, counted(self.errors, "error")),
                (self.warnings, counted(self.warnings, "warning")),
                (self.unreadable, f"{self.unreadable:,} unreadable"),
                (self.infos, counted(self.infos, "note")),
            )
            if count
        ]
        if not (self.errors or self.warnings or self.unreadable):
            found.insert(0, good)
        return f"Checked {checked}: {', '.join(found)}"

    def plus(self, findings: Iterable[Finding]) -> Summary:
        """Return it with findings counted."""
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
    """Return findings as a table."""
    rows = [
        (
            finding.severity.value,
            finding.kind.value,
            finding.path,
            finding.position,
            finding.offset,
            finding.message,
        )
        for finding in findings
    ]
    return Table(COLUMNS, rows)


def advice_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield what to do about each kind among findings that are problems."""
    kinds = dict.fromkeys(finding.kind for finding in findings if finding.severity is not Severity.INFO)
    for kind in kinds:
        yield f"{kind.value}: {advice_on(kind)}"


def json_line(finding: Finding) -> str:
    """Return a finding as a JSON object."""
    import json

    return json.dumps(
        {
            "file": finding.path,
            "position": finding.position,
            "offset": finding.offset,
            "kind": finding.kind.value,
            "severity": finding.severity.value,
            "message": finding.message,
        },
        ensure_ascii=False,
    )


class Explanation(NamedTuple):
    """What a kind of finding means, and what to do about it."""

    kind: str
    severity: str
    meaning: str
    advice: str


def explanations() -> list[Explanation]:
    """Return every kind of finding with what it means and what to do about it."""
    kinds: tuple[Kind, ...] = (*DamageKind, *FindingKind)
    return [Explanation(kind.value, severity_of(kind).value, kind.meaning, advice_on(kind)) for kind in kinds]
