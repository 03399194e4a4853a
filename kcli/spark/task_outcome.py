"""TaskOutcome: what a task on a Spark executor sends to the driver, its receipt or why there is none.

A task's failure is a value, not an exception: Spark would run a task again whose data will not get better,
and would tell of it in a page of Java. Only what may pass is raised, as long as there are attempts left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.spark.job.failures import is_passing, portable
from kcli.spark.job.task import write_split
from kcli.spark.progress_socket import ProgressSender

if TYPE_CHECKING:
    from kcli.spark.job.receipt import Receipt
    from kcli.spark.job.task import SplitTask
    from kcli.spark.progress_socket import ProgressAddress


class TaskOutcome(NamedTuple):
    """The result of the task at `position`: a receipt or an error."""

    position: int
    receipt: Receipt | None = None
    error: Exception | None = None


def attempt(
    position: int, task: SplitTask, *, is_last: bool, address: ProgressAddress | None = None
) -> TaskOutcome:
    """Write a split; raise what may pass unless this attempt is the last."""
    try:
        if address is None:
            return TaskOutcome(position, write_split(task))
        with ProgressSender(address, position) as sender:
            return TaskOutcome(position, write_split(task, sender.add))
    except Exception as error:  # the top of a task
        if not is_last and (is_passing(error) or not isinstance(error, KcliError)):
            raise
        return TaskOutcome(position, error=portable(error))
