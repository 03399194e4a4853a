"""Engine: what runs the tasks of a plan, and Progress: what it reports meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.split_task import SplitTask


class Progress(Protocol):
    """Watches a run; every method returns at once."""

    def planned(self, splits: int, total_bytes: int) -> None:
        """Tasks begin, for so many splits of about so many bytes in all."""

    def advanced(self, rows: int, read_bytes: int) -> None:
        """Running tasks did that much more, which is part of a split that ends later."""

    def finished(self, receipt: Receipt) -> None:
        """A split is done."""

    def note(self, text: str) -> None:
        """Show the user a line."""


class Engine(Protocol):
    """Runs tasks, retries those whose worker died, and leaves none running when `run` returns or raises."""

    @property
    def slots(self) -> int: ...

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run `kcli.spark.export.writing.task.write_split` on every task; raise the first task's error.

        It calls `on_done` and `progress` in the calling thread. Tasks come largest first.
        """

    def close(self) -> None: ...


class NoProgress:
    """Shows nothing."""

    def planned(self, splits: int, total_bytes: int) -> None: ...
    def advanced(self, rows: int, read_bytes: int) -> None: ...
    def finished(self, receipt: Receipt) -> None: ...
    def note(self, text: str) -> None: ...
