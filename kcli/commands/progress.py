"""Progress bars: on stderr, when that is a terminal, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress_bar(description: str, total_bytes: int | None) -> Iterator[Advance]:
    """Show the bytes that are done; `advance(n)` tells of `n` more.

    Without a total there is no bar, nor on a terminal that cannot move its cursor.
    """
    if total_bytes is None or not sys.stderr.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    # What is printed to the same terminal must come above the bar; what goes elsewhere must go there.
    screen, shares = Console(stderr=True), sys.stdout.isatty()
    with Progress(*columns, console=screen, transient=True, redirect_stdout=shares) as bars:
        task = bars.add_task(description, total=total_bytes)
        yield lambda count: bars.advance(task, count)
