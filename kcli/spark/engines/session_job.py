"""SessionJob: work on a Spark session in its own thread, under a tag by which it can be cancelled."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Generic, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession, is_remote

from kcli.spark.export.stop_request import signals_wait

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

SETTLE_SECONDS = 15
"""How long cancelled work may take to end."""


class SessionJob(Generic[Result]):
    """Runs `work`; then `results` holds what it returned, or `error` what it raised."""

    def __init__(self, spark: SparkSession, work: Callable[[], Result]) -> None:
        self.results: list[Result] = []
        self.error: BaseException | None = None
        self._spark = spark
        self._work = work
        self._tag = f"kcli-{uuid.uuid4()}"
        self._thread = InheritableThread(self._run, session=spark, daemon=True)
        self._thread.start()

    def is_running(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return bool(self._thread.is_alive())

    def cancel(self) -> None:
        with signals_wait():
            self._spark.interruptTag(self._tag)
        self._thread.join(SETTLE_SECONDS)

    def _run(self) -> None:
        try:
            if not is_remote():
                # Writers look up registered formats in the active session of their thread.
                session_class = SparkSession._get_j_spark_session_class(self._spark._jvm)
                session_class.setActiveSession(self._spark._jsparkSession)
            self._spark.addTag(self._tag)
            self.results.append(self._work())
        except BaseException as error:
            # The waiting thread raises it.
            self.error = error
