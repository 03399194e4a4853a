"""Failures of tasks inside Spark SQL, left where the driver finds them with their words and kind.

Spark tells a driver of a task's error as text with two languages' tracebacks. The file lies beside the
receipts, under a temporary name, so that whoever tidies up removes it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.spark.job.failures import FailureKind, TaskFailed, is_passing, kind_of
from kcli.spark.job.state_paths import receipts_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kcli.spark.job.task import SplitTask


@contextmanager
def leaving_failure(task: SplitTask) -> Iterator[None]:
    """Write down what goes wrong in the block, and let it go on to Spark."""
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
        # The first to fail knows why: who writes finds only that the rows broke off.
        task.target.create_exclusively(_path(task), json.dumps(facts).encode())
        raise


def left_failure(tasks: Sequence[SplitTask]) -> TaskFailed | None:
    """Return the first failure that a task left, and remove them all."""
    found = None
    for task in tasks:
        data = task.target.read(_path(task))
        if data is not None:
            task.target.remove(_path(task))
            facts = json.loads(data)
            found = found or TaskFailed(
                facts["message"],
                hint=facts["hint"],
                kind=FailureKind(facts["kind"]),
                passing=facts["passing"],
            )
    return found


def _path(task: SplitTask) -> str:
    return f"{receipts_path(task.plan)}/.failure-{task.index:05d}"
