"""FrameEngine: runs the tasks of a plan as the rows of a DataFrame, for sessions without a Spark context.

It does what `SparkEngine` does with an RDD, but shows no progress of running tasks.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from kcli.spark.engines.session_job import SessionJob
from kcli.spark.engines.spark_engine import POLL_SECONDS, worker_lost
from kcli.spark.engines.spark_task import NAME, source_of
from kcli.spark.export.stop_request import signals_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from kcli.spark.engines.spark_task import TaskOutcome
    from kcli.spark.export.engine import Progress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.split_task import SplitTask

SLOTS = 8
"""How many tasks are assumed to run at the same time: a Spark Connect server does not tell."""

_ATTEMPTS = 4


class FrameEngine:
    """Runs tasks through any session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def slots(self) -> int:
        return SLOTS

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        if not tasks:
            return
        for outcome in self._outcomes(tasks):
            if outcome.error is not None:
                raise outcome.error
            assert outcome.receipt is not None
            on_done(outcome.receipt)

    def close(self) -> None:
        """Do nothing: the caller owns the session."""

    def _outcomes(self, tasks: Sequence[SplitTask]) -> list[TaskOutcome]:
        spark = self._spark
        with signals_wait():
            spark.dataSource.register(source_of(tasks, _ATTEMPTS))
            job = SessionJob(spark, lambda: spark.read.format(NAME).load().collect())
        try:
            while job.is_running(POLL_SECONDS):
                pass
        except BaseException:
            # Ctrl-C: no task may write after this method returns.
            job.cancel()
            raise
        if job.error is not None:
            raise worker_lost(job.error, None) from job.error
        return [pickle.loads(row.outcome) for row in job.results[0]]
