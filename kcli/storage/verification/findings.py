"""Finding: one thing that a verification has to say, and the bounded collection of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kcli.storage.verification.finding_kinds import FindingKind, Severity, severity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.damage import Damage
    from kcli.storage.verification.finding_kinds import Kind

MOST_OF_A_KIND = 1000
"""How many findings of a kind are kept for one file."""


class Finding(NamedTuple):
    """What was found in a file, at a position in bytes and an offset, where there are such.

    `pair` are the two numbers that Kafka's own tool would name: the file's and the log's, or its previous.
    """

    path: str
    kind: Kind
    message: str
    position: int | None = None
    offset: int | None = None
    pair: tuple[int, int] | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return severity_of(self.kind)


def of_damage(path: str, damage: Damage) -> Finding:
    """Return what is wrong in a log file as a finding."""
    message = damage.message if damage.is_harmless else f"{damage.message}; {damage.what_follows}"
    return Finding(path, damage.kind, message, damage.position, damage.offset)


class Findings:
    """Findings in the order they came, no more than `MOST_OF_A_KIND` of a kind and file."""

    __slots__ = ("_counts", "_kept")

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, Kind]] = Counter()

    def add(self, finding: Finding) -> None:
        """Take a finding, or just count it."""
        key = finding.path, finding.kind
        self._counts[key] += 1
        if self._counts[key] <= MOST_OF_A_KIND:
            self._kept.append(finding)

    def __iter__(self) -> Iterator[Finding]:
        """Yield them, and of each kind with too many how many are left out."""
        yield from self._kept
        for (path, kind), count in self._counts.items():
            if count > MOST_OF_A_KIND:
                message = f"{count - MOST_OF_A_KIND} more of {kind.value} are not listed"
                yield Finding(path, FindingKind.MORE_FINDINGS, message)
