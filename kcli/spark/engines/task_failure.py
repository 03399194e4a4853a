"""Failures of tasks inside Spark SQL, as files in which the driver finds their message and kind.

Spark reports a task's error to the driver as text with tracebacks of two languages. The files are beside the
receipts and have temporary names, so that tidying removes them. Each attempt leaves its own: the failure of
an attempt does not explain why a job failed if a later attempt succeeded.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.export.failures import FailureKind, TaskFailed, is_passing, kind_of
from kcli.spark.export.target.layout import receipt_index, receipts_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.spark.export.target.target import Target
    from kcli.spark.export.writing.split_task import SplitTask

_NAME = re.compile(r"\.failure-(\d+)-(\d+)")


@contextmanager
def leaving_failure(task: SplitTask, attempt_id: int) -> Iterator[None]:
    """Write down an error of the block, and raise it again.

    `attempt_id` is Spark's, which grows from attempt to attempt.
    """
    try:
        yield
    except Exception as error:  # the top of a task
        message = error.message if isinstance(error, KcliError) else f"{type(error).__name__}: {error}"
        facts = {
            "message": message,
            "hint": error.hint if isinstance(error, KcliError) else None,
            "kind": kind_of(error),
            "passing": is_passing(error),
        }
        path = f"{receipts_path(task.plan)}/.failure-{task.index}-{attempt_id}"
        # The first error names the cause: the writer only notices that rows stop.
        task.target.create_exclusively(path, json.dumps(facts).encode())
        raise


def left_failure(tasks: Sequence[SplitTask]) -> TaskFailed | None:
    """Return the failure that ended a job: the last attempt of the task that failed most often.

    Remove all failures, also of tasks that a later attempt finished.
    """
    target, directory = tasks[0].target, receipts_path(tasks[0].plan)
    attempts: dict[int, list[tuple[int, str]]] = {}
    done = set()
    for entry in target.list(directory):
        name = entry.path.rpartition("/")[2]
        done.add(receipt_index(name))
        match = _NAME.fullmatch(name)
        if match is not None:
            attempts.setdefault(int(match[1]), []).append((int(match[2]), entry.path))
    found = None
    failed = [sorted(of_task) for index, of_task in sorted(attempts.items()) if index not in done]
    if failed:
        found = _failure(target, max(failed, key=len)[-1][1])
    for _, path in (one for of_task in attempts.values() for one in of_task):
        target.remove(path)
    return found


def _failure(target: Target, path: str) -> TaskFailed | None:
    data = target.read(path)
    if data is None:
        return None
    facts = json.loads(data)
    return TaskFailed(
        facts["message"], hint=facts["hint"], kind=FailureKind(facts["kind"]), passing=facts["passing"]
    )
