"""Tables of figures, and the gates that they must pass."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gate:
    """A figure and its limit: an upper one, unless `at_least`."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side of its limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def text(self) -> str:
        """Return one line."""
        sign = "at least" if self.at_least else "at most"
        verdict = "holds" if self.holds else "MISSED"
        return f"{verdict}: {self.what}: {figure(self.value)}, {sign} {figure(self.limit)}"


@dataclass(slots=True)
class Table:
    """A title, rows under a head, gates, and what must be known to read them."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, label: str, *cells: float | str) -> None:
        """Add a row; numbers are rounded to three digits."""
        self.rows.append((label, *(cell if isinstance(cell, str) else figure(cell) for cell in cells)))

    @property
    def holds(self) -> bool:
        """Whether every gate holds."""
        return all(gate.holds for gate in self.gates)

    def text(self) -> str:
        """Return the table as lines, the machine's state in its first."""
        load = os.getloadavg()[0]
        lines = [f"## {self.title} ({os.cpu_count()} cores, load {load:.1f})"]
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        for row in (self.head, *self.rows):
            first, *others = zip(row, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
            lines.append("  ".join(cells).rstrip())
        lines += [gate.text() for gate in self.gates]
        lines += self.notes
        return "\n".join(lines) + "\n"


def figure(value: float) -> str:
    """Return a number with about three significant digits."""
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= limit:
            return f"{value:.{digits}f}"
    return f"{value:.3f}"


def ratio(value: float, base: float) -> float:
    """Return how many times `base` the value is; not a number without a base."""
    return value / base if base else float("nan")
