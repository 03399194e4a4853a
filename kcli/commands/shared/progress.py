"""Progress bars: on stderr, when that is a terminal that can move its cursor, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcli.escapes import escaped

Advance = Callable[[int], None]


@contextmanager
def progress_bar(description: str, total_bytes: int | None) -> Iterator[Advance]:
    """Give `advance(n)`, which adds `n` bytes to the bar. Without a total there is no bar."""
    if total_bytes is None or not _shows_bars():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    speed = (TransferSpeedColumn(), TimeRemainingColumn())
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), DownloadColumn(), *speed)
    # Output to the same terminal must come above the bar; redirected output must not go to the terminal.
    screen, shares = Console(stderr=True), sys.stdout.isatty()
    with Progress(*columns, console=screen, transient=True, redirect_stdout=shares) as bars:
        task = bars.add_task(escaped(description), total=total_bytes)
        yield lambda count: bars.advance(task, count)


@contextmanager
def time_bar(description: str, total_seconds: int) -> Iterator[Callable[[float], None]]:
    """Give a function that shows how many of `total_seconds` have passed."""
    if not _shows_bars():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress

    columns = ("{task.description}", BarColumn(), "{task.completed:.0f} of {task.total:.0f} s")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(description, total=total_seconds)
        yield lambda seconds: bars.update(task, completed=seconds)


def _shows_bars() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
