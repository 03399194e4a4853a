"""Failures that tasks leave for the driver: the one that ended the job is told, no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.spark.decode.formats.formats import BadValue
from kcli.spark.engines.task_failure import leaving_failure, left_failure
from kcli.spark.export.engine import Progress
from kcli.spark.export.failures import FailureKind
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.export.writing.task import write_split
from kcli.spark.source.data_loss import DataLoss
from tests.spark.export.exporting import InlineEngine, export, files_in
from tests.spark.export.fake_source import FakeSource


@pytest.fixture
def tasks(tmp_path: Path) -> list[SplitTask]:
    """The tasks of a plan, none of which has run."""
    kept: list[SplitTask] = []

    class Keeps(InlineEngine):
        def run(
            self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress
        ) -> None:
            kept.extend(tasks)
            raise ConnectionError("away")

    with pytest.raises(KcliError):
        export(FakeSource.of(300), tmp_path, engine=Keeps())
    return kept


def fail(task: SplitTask, attempt_id: int, *errors: Exception) -> None:
    """Leave what goes wrong in one attempt, first where rows are read, then where they are written."""
    for error in errors:
        with pytest.raises(type(error)), leaving_failure(task, attempt_id):
            raise error


def test_a_failure_is_told_with_its_kind_and_once(tasks: list[SplitTask], tmp_path: Path) -> None:
    before = files_in(tmp_path)
    fail(tasks[1], 7, BadValue("not a long"), OSError("the rows broke off"))
    found = left_failure(tasks)
    assert found is not None
    assert (found.message, found.kind) == ("not a long", FailureKind.BAD_VALUE)
    assert files_in(tmp_path) == before
    assert left_failure(tasks) is None


def test_the_last_of_a_tasks_attempts_is_told(tasks: list[SplitTask]) -> None:
    fail(tasks[0], 9, ConnectionResetError("reset"))
    fail(tasks[0], 11, DataLoss("gone"), OSError("the rows broke off"))
    found = left_failure(tasks)
    assert found is not None
    assert (found.message, found.kind) == ("gone", FailureKind.DATA_LOSS)


def test_a_task_that_was_done_in_the_end_masks_no_other(tasks: list[SplitTask], tmp_path: Path) -> None:
    fail(tasks[0], 1, ConnectionResetError("reset"))
    fail(tasks[0], 2, ConnectionResetError("reset"))
    write_split(tasks[0])
    fail(tasks[2], 3, DataLoss("gone"))
    found = left_failure(tasks)
    assert found is not None
    assert found.message == "gone"
    assert not any("failure" in path for path in files_in(tmp_path))


def test_a_task_that_failed_once_masks_none_that_failed_to_the_end(tasks: list[SplitTask]) -> None:
    fail(tasks[0], 4, ConnectionResetError("reset"))
    for attempt_id in (1, 2, 3):
        fail(tasks[1], attempt_id, DataLoss("gone"))
    found = left_failure(tasks)
    assert found is not None
    assert found.message == "gone"


def test_nothing_is_told_of_tasks_that_recovered(tasks: list[SplitTask]) -> None:
    fail(tasks[0], 1, ConnectionResetError("reset"))
    write_split(tasks[0])
    assert left_failure(tasks) is None
