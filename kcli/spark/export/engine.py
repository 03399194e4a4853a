"""Engine: what runs the tasks of a plan, and Progress: what it reports meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.split_task import SplitTask


class Progress(Protocol):
    """What a run tells whoever watches; every method returns at once and may do nothing."""

    def planned(self, splits: int, total_bytes: int) -> None:
        """Tasks begin: so many splits of about so many bytes in all."""
        ...

    def advanced(self, rows: int, read_bytes: int) -> None:
        """Running tasks did so much more; what is told here is part of the split that ends later."""
        ...

    def finished(self, receipt: Receipt) -> None:
        """A split is done."""
        ...

    def note(self, text: str) -> None:
        """Something the user should know, one line."""
        ...


class Engine(Protocol):
    """Runs tasks, retries those whose worker died, and leaves none running when `run` returns or raises."""

    @property
    def slots(self) -> int:
        """Return how many tasks run at the same time."""
        ...

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run `kcli.spark.export.writing.task.write_split` on every task; raise the first task's error.

        `on_done` and `progress` are called in the thread that called `run`. Tasks come largest first.
        """
        ...

    def close(self) -> None:
        """Let go of workers."""
        ...


class NoProgress:
    """Tells nobody."""

    def planned(self, splits: int, total_bytes: int) -> None:
        """Tell nobody."""

    def advanced(self, rows: int, read_bytes: int) -> None:
        """Tell nobody."""

    def finished(self, receipt: Receipt) -> None:
        """Tell nobody."""

    def note(self, text: str) -> None:
        """Tell nobody."""
