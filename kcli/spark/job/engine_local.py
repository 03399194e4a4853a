"""LocalEngine: runs tasks in processes of this machine, without Spark and without Java."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.spark.job.engine import Progress
    from kcli.spark.job.receipt import Receipt
    from kcli.spark.job.task import SplitTask


class LocalEngine:
    """A pool of processes; one that dies is replaced and its task run again, four times at most."""

    def __init__(self, processes: int | None = None) -> None:
        raise NotImplementedError

    @property
    def slots(self) -> int:
        """Return how many tasks run at the same time."""
        raise NotImplementedError

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run every task; raise the first one's error, when none runs any more."""
        raise NotImplementedError

    def close(self) -> None:
        """End the processes."""
        raise NotImplementedError
