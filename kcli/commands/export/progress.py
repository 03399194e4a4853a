"""Progress of an export or an import: a bar where stderr is a terminal, else a line every ten seconds.

exporting: 1,234,567 rows, 120.3 MB of 1.2 GB (10%), 45.1 MB/s, 24s left
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from kcli.commands.shared.formatting import size_text, time_text
from kcli.commands.shared.output import note
from kcli.escapes import escaped

if TYPE_CHECKING:
    from kcli.spark.export.log.receipt import Receipt

LINE_SECONDS = 10.0
SHOW_SECONDS = 0.1
"""A bar changes at most so often: the eye does not see more."""


class WorkProgress:
    """Counts progress, and shows it by a function.

    The engines of an export report to it, and so does an import.
    """

    def __init__(self, show: Callable[[WorkProgress], None], clock: Callable[[], float] = monotonic) -> None:
        self.rows = 0
        self.bytes = 0
        self.total_bytes = 0
        self.total_rows: int | None = None
        self.splits = 0
        self.splits_done = 0
        self._show = show
        self._clock = clock
        self._begun = self._shown = clock()
        self._advanced = [0, 0]
        self._finished = [0, 0]

    @property
    def seconds(self) -> float:
        return self._clock() - self._begun

    @property
    def done(self) -> float | None:
        """Return the fraction that is done, None while the total is unknown."""
        if self.total_rows is not None:
            return min(1.0, self.rows / self.total_rows) if self.total_rows else None
        return min(1.0, self.bytes / self.total_bytes) if self.total_bytes else None

    def planned(self, splits: int, total_bytes: int) -> None:
        self.splits += splits
        self.total_bytes += total_bytes
        self.show()

    def advanced(self, rows: int, read_bytes: int) -> None:
        self._advanced = [self._advanced[0] + rows, self._advanced[1] + read_bytes]
        self._update()

    def finished(self, receipt: Receipt) -> None:
        """Add a finished split; tasks on other machines report nothing earlier."""
        self.splits_done += 1
        counters = receipt.counters
        self._finished = [self._finished[0] + counters.rows, self._finished[1] + counters.bytes_read]
        self._update()

    def advance(self, rows: int, size_bytes: int) -> None:
        self.rows += rows
        self.bytes += size_bytes
        self._show_in_time()

    def note(self, text: str) -> None:
        note(text)

    def _update(self) -> None:
        self.rows, self.bytes = map(max, self._advanced, self._finished)
        self._show_in_time()

    def show(self) -> None:
        self._shown = self._clock()
        self._show(self)

    def _show_in_time(self) -> None:
        if self._clock() - self._shown >= SHOW_SECONDS:
            self.show()


@contextmanager
def work_progress(description: str, *, total_rows: int | None = None) -> Iterator[WorkProgress]:
    """Show progress on stderr during the block."""
    if sys.stderr.isatty():
        with bar(description, total_rows) as progress:
            yield progress
    else:
        progress = WorkProgress(TimedLines(description))
        progress.total_rows = total_rows
        yield progress


class TimedLines:
    """Prints a line every ten seconds."""

    def __init__(self, description: str) -> None:
        self._description = description
        self._due = LINE_SECONDS

    def __call__(self, progress: WorkProgress) -> None:
        seconds = progress.seconds
        if seconds >= self._due:
            self._due = seconds - seconds % LINE_SECONDS + LINE_SECONDS
            note(f"{self._description}: {progress_text(progress)}")


def progress_text(progress: WorkProgress) -> str:
    """Return rows, bytes, rate and time left."""
    seconds, done = progress.seconds, progress.done
    amount = f"{progress.rows:,} row{'' if progress.rows == 1 else 's'}"
    if progress.total_rows is not None:
        amount += f" of {progress.total_rows:,}"
    size = size_text(progress.bytes)
    if progress.total_bytes:
        size += f" of {size_text(max(progress.total_bytes, progress.bytes))}"
    if done is not None:
        size += f" ({int(done * 100)}%)"
    parts = [amount, size, f"{size_text(progress.bytes / max(seconds, 0.001))}/s"]
    if done:
        parts.append(f"{time_text(seconds / done - seconds)} left")
    return ", ".join(parts)


@contextmanager
def bar(description: str, total_rows: int | None) -> Iterator[WorkProgress]:
    """Show a bar, which disappears at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(escaped(description), total=None, text="planning")

        def show(progress: WorkProgress) -> None:
            total = None if progress.done is None else 1.0
            fields: dict[str, Any] = {"text": progress_text(progress)}
            bars.update(task, total=total, completed=progress.done or 0, **fields)

        progress = WorkProgress(show)
        progress.total_rows = total_rows
        yield progress
        progress.show()
        bars.refresh()
