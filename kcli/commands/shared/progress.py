"""Progress bars: on stderr, when that is a terminal that can move its cursor, and nowhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kcli.escapes import escaped

if TYPE_CHECKING:
    from rich.progress import Progress

Advance = Callable[[int], None]
ShowPart = Callable[[str, int, int], None]

SHORT_SECONDS = 0.5
"""Parts of shorter work are not shown."""
STEP_SECONDS = 0.1


@contextmanager
def progress_bar(description: str, total_bytes: int | None) -> Iterator[Advance]:
    """Give `advance(n)`, which adds `n` bytes to the bar. Without a total there is no bar."""
    if total_bytes is None or not _shows_bars():
        yield lambda _: None
        return
    with _byte_bars() as bars:
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


@contextmanager
def part_bar(*, clock: Callable[[], float] = time.monotonic) -> Iterator[ShowPart | None]:
    """Give `show(part, done, total)`, bytes of the part of the work under way; None if no bar can be shown.

    The bar begins after `SHORT_SECONDS`, and anew with each part. A total of 0 is not known yet.
    """
    if not _shows_bars():
        yield None
        return
    due = clock() + SHORT_SECONDS
    with ExitStack() as stack:
        bars: Progress | None = None
        shown = ""

        def show(part: str, done: int, total: int) -> None:
            nonlocal bars, due, shown
            if clock() < due:
                return
            due = clock() + STEP_SECONDS
            if bars is None:
                bars = stack.enter_context(_byte_bars())
            if part != shown:
                shown = part
                for task in bars.task_ids:
                    bars.remove_task(task)
                bars.add_task(escaped(part), total=total or None, completed=done)
            bars.update(bars.task_ids[0], completed=done, total=total or None)

        yield show


def _byte_bars() -> Progress:
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
    return Progress(*columns, console=screen, transient=True, redirect_stdout=shares)


def _shows_bars() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
