"""Columns that are printed as their rows come, however many there are.

The first rows decide how wide the columns are; a longer cell later only moves its own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from kcli.commands.dump.view import Layout

if TYPE_CHECKING:
    from kcli.commands.dump.stdout import DumpOutput

MEASURED_ROWS = 100
WIDEST_COLUMN = 40
GAP = "  "
CONTROL_CHARACTERS = {number: f"\\x{number:02x}" for number in (*range(32), 127)}
MOST_SECONDS = 1024


class StreamedColumns:
    """Columns of cells; numbers are aligned to the right. With a `layout` they are those of rows before."""

    def __init__(self, output: DumpOutput, names: Sequence[str], layout: Layout | None = None) -> None:
        self.names = names
        self.layout = layout
        self._output = output
        self._first_rows: list[Sequence[object]] = []

    def add(self, cells: Sequence[object]) -> None:
        """Print a row, or keep it until there are enough to tell how wide the columns must be."""
        if self.layout is not None:
            self._print(cells, self.layout.widths)
            return
        self._first_rows.append(cells)
        if len(self._first_rows) == MEASURED_ROWS:
            self.flush()

    def flush(self) -> None:
        """Print the rows that were kept, below the head."""
        if self.layout is not None:
            return
        rows = self._first_rows
        widths = [
            min(max(len(name), *(len(str(row[number])) for row in rows)), WIDEST_COLUMN)
            for number, name in enumerate(self.names)
        ]
        numbers = [all(type(row[number]) is int for row in rows) for number in range(len(self.names))]
        self.begin(Layout(self.names, widths, numbers))
        for row in rows:
            self._print(row, widths)
        self._first_rows = []

    def begin(self, layout: Layout) -> None:
        """Print the head of columns that look like this."""
        self.layout = layout
        names = [
            name.rjust(width) if is_number else name.ljust(width)
            for name, width, is_number in zip(*layout, strict=True)
        ]
        self._output.line(GAP.join(names).rstrip())
        self._output.line(GAP.join("─" * width for width in layout.widths))

    def _print(self, cells: Sequence[object], widths: Sequence[int]) -> None:
        shown = [
            str(item).rjust(width) if type(item) is int else str(item).ljust(width)
            for item, width in zip(cells, widths, strict=True)
        ]
        self._output.line(GAP.join(shown).rstrip())


def moment(timestamp: int) -> str:
    """Return a time in UTC; what no calendar has is the number."""
    if timestamp < 0:
        return "-"
    second = _second_text(timestamp // 1000)
    return str(timestamp) if second is None else f"{second}.{timestamp % 1000:03}"


@lru_cache(MOST_SECONDS)
def _second_text(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return None


def contents(text: str | None) -> str:
    """Return a key or value on one line; null is a dash."""
    if text is None:
        return "-"
    return text if text.isprintable() else text.translate(CONTROL_CHARACTERS)
