"""FrameEngine: runs the tasks of a plan as the rows of a DataFrame, where no Spark context can be reached.

What `kcli.spark.engine_spark` does by an RDD; only the progress of running tasks is not seen.
"""

from __future__ import annotations

import pickle
import uuid
from typing import TYPE_CHECKING

from pyspark import InheritableThread

from kcli.spark.engine_spark import POLL_SECONDS, SETTLE_SECONDS, reason_of
from kcli.spark.job.failures import WorkerLost
from kcli.spark.task_source import NAME, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from kcli.spark.job.engine import Progress
    from kcli.spark.job.receipt import Receipt
    from kcli.spark.job.task import SplitTask
    from kcli.spark.task_outcome import TaskOutcome

SLOTS = 8
"""How many tasks are taken to run at the same time: a server does not tell."""

_ATTEMPTS = 4


class FrameEngine:
    """Runs tasks through any session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int:
        """Return how many tasks run at the same time."""
        return SLOTS

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        """Run every task; raise the first one's error, when none runs any more."""
        if not tasks:
            return
        for outcome in self._outcomes(tasks):
            if outcome.error is not None:
                raise outcome.error
            assert outcome.receipt is not None
            on_done(outcome.receipt)

    def close(self) -> None:
        """Do nothing: the session belongs to who opened it."""

    def _outcomes(self, tasks: Sequence[SplitTask]) -> list[TaskOutcome]:
        spark, tag = self._spark, f"kcli-{uuid.uuid4()}"
        found: list[TaskOutcome] = []
        errors: list[BaseException] = []

        def collect() -> None:
            try:
                spark.addTag(tag)
                rows = spark.read.format(NAME).load().collect()
                found.extend(pickle.loads(row.outcome) for row in rows)
            except BaseException as error:
                # Told to the thread that waits.
                errors.append(error)

        spark.dataSource.register(source_of(tasks, _ATTEMPTS))
        thread = InheritableThread(collect, session=spark, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
        except BaseException:
            # Ctrl-C: nothing may write any more when this returns.
            spark.interruptTag(tag)
            thread.join(SETTLE_SECONDS)
            raise
        if errors:
            raise WorkerLost(
                f"Spark gave up: {reason_of(errors[0])}", hint="see the executors' logs"
            ) from errors[0]
        return found
