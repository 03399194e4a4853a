"""A task on a Spark executor, and its outcome for the driver: a receipt or an error.

An error is returned and not raised: Spark would run the task again, although the data will be the same, and
would report a page of Java. Only an error that may pass is raised, while attempts are left.

`TaskSource` is for sessions without a Spark context (Spark Connect), which have no RDDs: the tasks are a data
source, each partition is one task, and its only row is the outcome. The tasks travel in the class itself,
which Spark therefore pickles by value.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kcli.errors import KcliError
from kcli.spark.engines.progress_socket import ProgressSender
from kcli.spark.export.failures import is_passing, portable
from kcli.spark.python_worker import keep_what_is_loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from kcli.spark.engines.progress_socket import ProgressAddress
    from kcli.spark.export.log.receipt import Receipt
    from kcli.spark.export.writing.split_task import SplitTask


class TaskOutcome(NamedTuple):
    """The result of the task at `position`: a receipt or an error."""

    position: int
    receipt: Receipt | None = None
    error: Exception | None = None


def attempt(
    position: int, task: SplitTask, *, is_last: bool, address: ProgressAddress | None = None
) -> TaskOutcome:
    """Write a split; raise an error that may pass unless this attempt is the last."""
    from kcli.spark.export.writing.task import write_split  # not for the driver

    try:
        if address is None:
            return TaskOutcome(position, write_split(task))
        with ProgressSender(address, position) as sender:
            return TaskOutcome(position, write_split(task, sender.add))
    except Exception as error:  # the top of a task
        if not is_last and (is_passing(error) or not isinstance(error, KcliError)):
            raise
        return TaskOutcome(position, error=portable(error))


NAME = "kcli-tasks"


class TaskReader(DataSourceReader):
    def __init__(self, tasks: bytes, attempts: int) -> None:
        self._tasks = tasks
        self._attempts = attempts

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(len(pickle.loads(self._tasks)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        position = partition.value
        context = TaskContext.get()
        is_last = context is None or context.attemptNumber() + 1 >= self._attempts
        outcome = attempt(position, pickle.loads(self._tasks)[position], is_last=is_last)
        keep_what_is_loaded()
        yield (pickle.dumps(outcome),)


class TaskSource(DataSource):
    """The source; `source_of` makes a subclass with tasks."""

    tasks: ClassVar[bytes]
    attempts: ClassVar[int]

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Return the only column: a pickled `TaskOutcome`."""
        return "outcome binary"

    def reader(self, schema: StructType) -> TaskReader:
        return TaskReader(self.tasks, self.attempts)


def source_of(tasks: Sequence[SplitTask], attempts: int) -> type[TaskSource]:
    """Return a source whose rows are the outcomes of these tasks."""

    class Tasks(TaskSource):
        pass

    Tasks.tasks = pickle.dumps(list(tasks))
    Tasks.attempts = attempts
    return Tasks
