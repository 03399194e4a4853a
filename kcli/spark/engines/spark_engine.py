"""SparkEngine: runs the tasks of a plan as one Spark job; a group of tasks is one partition of an RDD.

Spark schedules and retries; only receipts come back. The job runs in its own thread, under a job group by
which it can be cancelled. The calling thread looks ten times a second for finished tasks (an accumulator,
which Spark counts once per task whatever the attempts) and for progress (datagrams, if tasks run on this
machine).

A worker runs the tasks of a group in turn, so that a thousand small partitions are not a thousand Spark
tasks. Each task has its own receipt and files. Large tasks stay alone, and there are enough groups for every
slot to get long and short ones.
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark import AccumulatorParam, InheritableThread, TaskContext
from pyspark.errors import PySparkException

from kcli.spark.engines.probe import probe
from kcli.spark.engines.progress_socket import ProgressReceiver
from kcli.spark.engines.spark_task import TaskOutcome, attempt
from kcli.spark.export.failures import WorkerLost
from kcli.spark.export.stop_request import signals_wait
from kcli.spark.python_worker import keep_what_is_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext

    from kcli.spark.engines.progress_socket import ProgressAddress
    from kcli.spark.engines.session_log import SessionLog
    from kcli.spark.export.engine import Progress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.split_task import SplitTask

GROUPS_PER_SLOT = 3
SMALL_BYTES = 16 * 1024 * 1024
"""A group with so much to read gets no more tasks."""


def grouped(tasks: Sequence[SplitTask], slots: int) -> list[list[tuple[int, SplitTask]]]:
    """Return tasks with their numbers, in order, in groups for so many slots."""
    wanted = GROUPS_PER_SLOT * max(slots, 1)
    most_tasks = -(-len(tasks) // wanted)
    most_bytes = min(SMALL_BYTES, sum(task.size_bytes for task in tasks) // wanted)
    groups: list[list[tuple[int, SplitTask]]] = []
    size = 0
    for number, task in enumerate(tasks):
        is_full = size and size + task.size_bytes > most_bytes
        if not groups or len(groups[-1]) >= most_tasks or is_full:
            groups.append([])
            size = 0
        groups[-1].append((number, task))
        size += task.size_bytes
    return groups


POLL_SECONDS = 0.1
SETTLE_SECONDS = 15
"""How long cancelled tasks may take to end."""

_NOISE = re.compile(
    r"^Job aborted due to stage failure: |^\[[A-Z0-9_.]+\] |"
    r" Did you mean one of the following\?.*| SQLSTATE: .*"
)


class Collected(AccumulatorParam[list[TaskOutcome]]):
    """Lets tasks append to a list that the driver reads while they run."""

    def zero(self, value: list[TaskOutcome]) -> list[TaskOutcome]:
        return []

    def addInPlace(self, value1: list[TaskOutcome], value2: list[TaskOutcome]) -> list[TaskOutcome]:
        value1 += value2
        return value1


class SparkEngine:
    """Runs tasks on the executors of a session with a Spark context."""

    def __init__(self, context: SparkContext, log: SessionLog | None = None) -> None:
        self._context = context
        self._log = log
        self._is_local = re.match(r"local(\[|$)", context.master) is not None
        self._is_probed = self._is_local

    @property
    def slots(self) -> int:
        return max(1, int(self._context.defaultParallelism))

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        if not tasks:
            return
        self._probe(tasks)
        with ProgressReceiver() if self._is_local else nullcontext() as receiver:
            with signals_wait():
                job = _Job(self._context, tasks, receiver.address if receiver else None)
            told = _JobProgress(on_done, progress, receiver)
            job.start()
            try:
                while job.is_running(POLL_SECONDS):
                    told.look(job.outcomes.value)
            except BaseException:
                # A task failed, or Ctrl-C: no task may write after this method returns.
                job.cancel()
                raise
            if job.error is not None:
                told.look(job.outcomes.value)
                raise worker_lost(job.error, self._log) from job.error
            told.look(job.result)

    def close(self) -> None:
        """Do nothing: the caller owns the session."""

    def _probe(self, tasks: Sequence[SplitTask]) -> None:
        """Ask a cluster's executors, once, whether they can run tasks."""
        if self._is_probed:
            return
        directories = {
            split.directory for task in tasks for split in task.splits if split.directory is not None
        }
        try:
            with signals_wait():
                probe(self._context, sorted(directories))
        except (PySparkException, Py4JError) as error:
            raise worker_lost(error, self._log) from error
        self._is_probed = True


class _JobProgress:
    def __init__(
        self, on_done: Callable[[Receipt], None], progress: Progress, receiver: ProgressReceiver | None
    ) -> None:
        self._on_done = on_done
        self._progress = progress
        self._receiver = receiver
        self._done: set[int] = set()
        self._read: dict[int, tuple[int, int]] = {}

    def look(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Pass on what is new; raise the first error."""
        for split, rows, size in self._receiver.received() if self._receiver else ():
            # A repeated attempt begins at zero again.
            rows_told, bytes_told = self._read.get(split, (0, 0))
            if split not in self._done and (rows > rows_told or size > bytes_told):
                self._read[split] = (max(rows, rows_told), max(size, bytes_told))
                self._progress.advanced(max(0, rows - rows_told), max(0, size - bytes_told))
        for outcome in outcomes[:]:
            if outcome.position not in self._done:
                self._done.add(outcome.position)
                if outcome.error is not None:
                    raise outcome.error
                assert outcome.receipt is not None
                self._on_done(outcome.receipt)


class _Job:
    def __init__(
        self, context: SparkContext, tasks: Sequence[SplitTask], address: ProgressAddress | None
    ) -> None:
        self.outcomes: Any = context.accumulator([], Collected())
        self.result: list[TaskOutcome] = []
        self.error: BaseException | None = None
        self._context = context
        self._groups = grouped(tasks, int(context.defaultParallelism))
        self._address = address
        self._group = f"kcli-{uuid.uuid4()}"
        self._thread = InheritableThread(self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def is_running(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return bool(self._thread.is_alive())

    def cancel(self) -> None:
        # Without a JVM there is nothing to cancel.
        with suppress(Py4JError, OSError), signals_wait():
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
            self._thread.join(SETTLE_SECONDS)
            deadline = time.monotonic() + SETTLE_SECONDS
            while self._running_tasks() and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)

    def _run(self) -> None:
        # Not a closure over this object: the context must not travel to the tasks.
        outcomes, address, last = self.outcomes, self._address, max_attempts(self._context) - 1

        def task_outcomes(group: Sequence[tuple[int, SplitTask]]) -> Iterator[TaskOutcome]:
            context = TaskContext.get()
            is_last = context is None or context.attemptNumber() >= last
            for position, task in group:
                outcome = attempt(position, task, is_last=is_last, address=address)
                outcomes.add([outcome])
                keep_what_is_loaded()
                yield outcome
                if outcome.error is not None:
                    return

        try:
            self._context.setJobGroup(self._group, "kcli spark-export", interruptOnCancel=True)
            groups = self._context.parallelize(self._groups, len(self._groups))
            self.result = groups.flatMap(task_outcomes).collect()
        except BaseException as error:
            # The waiting thread raises it.
            self.error = error

    def _running_tasks(self) -> int:
        executors = self._context._jsc.sc().statusTracker().getExecutorInfos()
        return sum(executor.numRunningTasks() for executor in executors)


def max_attempts(context: SparkContext) -> int:
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", context.master)
    if local is not None:
        return int(local[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def worker_lost(error: BaseException, log: SessionLog | None) -> WorkerLost:
    """Return the error of a job that Spark gave up, with a hint where its log is."""
    where = f"see {log.path}" if log else "see the executors' logs"
    return WorkerLost(f"Spark gave up: {reason_of(error)}", hint=where)


def reason_of(error: BaseException) -> str:
    """Return the line of a Spark error that says what happened."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    if java is not None and " " not in text:
        # The message is only the name of a class or file: the kind of the exception says what is wrong.
        text = str(java.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = _NOISE.sub("", lines[0] if lines else "")
    return reason.strip() or type(error).__name__
