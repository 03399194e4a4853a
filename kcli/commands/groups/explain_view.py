"""What `describe --explain` shows: each group in one line, and below it what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcli.commands.groups.findings import Finding
from kcli.commands.groups.head import GroupHead
from kcli.commands.output import Table
from kcli.errors import KcliError


class ExplainedGroup(NamedTuple):
    """A group, its lag, and the findings, problems first."""

    head: GroupHead
    total_lag: int | None
    findings: Sequence[Finding]

    def title(self) -> str:
        """Return the group in one line."""
        lag = "" if self.total_lag is None else f"  lag {self.total_lag}"
        return self.head.title() + lag

    def document(self) -> object:
        """Return the group's fields and the findings."""
        return {**self.head._asdict(), "total_lag": self.total_lag, "findings": self.findings}


class ExplainView(NamedTuple):
    """The result of `describe --explain`."""

    groups: Sequence[ExplainedGroup]
    failures: Sequence[KcliError] = ()

    def lines(self) -> Iterator[str]:
        """Return a line for each group, and lines for each finding."""
        for index, group in enumerate(self.groups):
            if index:
                yield ""
            yield group.title()
            for finding in group.findings:
                yield f"  {finding.level}: {finding.message}"
                if finding.hint:
                    yield f"    hint: {finding.hint}"

    def tables(self) -> Iterator[Table]:
        """Return a table for each group."""
        for group in self.groups:
            rows = [(finding.level.value, finding.message, finding.hint) for finding in group.findings]
            yield Table(("Level", "Finding", "Hint"), rows, group.title())
