"""Plans that were begun: what of them is done again, what is not, and what is no longer there."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kcli.errors import Interrupted, KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.engine import Progress
from kcli.spark.export.log.commit import Gap
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.options import ParquetOptions, TargetMismatch, WriteOptions
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.export.writing.task import write_split
from kcli.spark.source.data_loss import DataLoss, TopicReset
from kcli.spark.source.ranges.offset_specs import AtOffsets, OnReset, RangeRules
from tests.spark.export.exporting import (
    InlineEngine,
    Watched,
    export,
    files_in,
    offsets_in,
    offsets_on_disk,
    options,
    temporary_files,
)
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.support.spark_exports import state_of

P0 = TopicPartition("orders", 0)


class StopsAfter(InlineEngine):
    """Fails when it has run some tasks, as if the network were gone."""

    def __init__(self, tasks: int, error: BaseException | None = None) -> None:
        self.tasks = tasks
        self.error = error or ConnectionError("away")

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        super().run(tasks[: self.tasks], on_done, progress)
        raise self.error


def begun(target: Path, source: FakeSource, tasks: int = 1, **fields: object) -> None:
    """Begin an export and leave it with so many splits done."""
    with pytest.raises(KcliError):
        export(source, target, options(**fields), engine=StopsAfter(tasks))


def test_splits_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source, tasks=2)
    told = Watched()
    summary = export(source, tmp_path, progress=told)
    assert told.totals == [(1, 10_000)]
    assert told.notes == ["resuming plan 1, begun by an earlier run"]
    assert summary.resumed
    assert summary.counters.rows == 300
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_a_plan_is_resumed_as_it_was_made_and_the_next_is_as_asked(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    source.grow(P0, 400)
    fewer = options(
        rules=RangeRules(ending=AtOffsets({P0: 350})),
        write=WriteOptions(parquet=ParquetOptions(compression="snappy")),
    )
    summary = export(source, tmp_path, fewer)
    assert summary.committed_plans == (1, 2)
    assert offsets_in(tmp_path) == {P0: list(range(350))}


def test_an_interrupted_run_can_be_resumed(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    with pytest.raises(Interrupted):
        export(source, tmp_path, engine=StopsAfter(1, KeyboardInterrupt()))
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_what_retention_took_in_the_meantime_fails_with_the_offsets(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    source.begins[P0] = 150
    with pytest.raises(DataLoss, match=r"offsets 100 to 149 of orders-0 are gone"):
        export(source, tmp_path)


def test_what_retention_took_in_the_meantime_is_a_gap_if_allowed(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    source.begins[P0] = 250
    summary = export(source, tmp_path, options(rules=RangeRules(fail_on_data_loss=False)))
    gone = "retention removed it before it was read"
    assert sorted(summary.gaps, key=lambda gap: gap.start) == [
        Gap(topic="orders", partition=0, start=100, end=200, reason=gone),
        Gap(topic="orders", partition=0, start=200, end=250, reason=gone),
    ]
    assert offsets_in(tmp_path) == {P0: [*range(100), *range(250, 300)]}
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_retention_between_runs(tmp_path: Path) -> None:
    source = FakeSource.of(100)
    export(source, tmp_path)
    source.grow(P0, 300)
    source.begins[P0] = 150
    with pytest.raises(DataLoss, match=r"offsets 100 to 149 are gone"):
        export(source, tmp_path)
    summary = export(source, tmp_path, options(rules=RangeRules(fail_on_data_loss=False)))
    assert [(gap.start, gap.end) for gap in summary.gaps] == [(100, 150)]
    assert offsets_in(tmp_path) == {P0: [*range(100), *range(150, 300)]}


RESETS = {
    "truncated": FakeSource.of(120),
    "made again": FakeSource({P0: 500}, topic_ids={"orders": "id-2"}),
}


@pytest.mark.parametrize("case", RESETS)
def test_a_topic_that_was_reset_while_a_plan_waited(case: str, tmp_path: Path) -> None:
    begun(tmp_path, FakeSource.of(300))
    source = RESETS[case]
    with pytest.raises(TopicReset):
        export(source, tmp_path)
    summary = export(source, tmp_path, options(rules=RangeRules(on_reset=OnReset.EARLIEST)))
    assert summary.committed_plans == (1, 2)
    end = source.ends[P0]
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(end))}


@pytest.mark.parametrize("on_reset", [OnReset.EARLIEST, OnReset.REPLACE])
@pytest.mark.parametrize("case", RESETS)
def test_a_topic_that_was_reset_between_runs(case: str, on_reset: OnReset, tmp_path: Path) -> None:
    """Rows of two logs are never beside each other: nothing would tell them apart."""
    export(FakeSource.of(300), tmp_path)
    before = files_in(tmp_path)
    source = RESETS[case]
    with pytest.raises(TopicReset):
        export(source, tmp_path)
    assert files_in(tmp_path) == before
    summary = export(source, tmp_path, options(rules=RangeRules(on_reset=on_reset)))
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(source.ends[P0]))}
    verified = verify_export(LocalTarget(str(tmp_path)))
    assert (verified.problems, verified.rows) == ((), source.ends[P0])
    assert export(source, tmp_path).committed_plans == ()
    old = state_of(tmp_path) / "old-logs/2"
    is_kept = on_reset is OnReset.EARLIEST
    assert [(one.topic, one.partition, one.kept_in) for one in summary.resets] == [
        ("orders", 0, str(old) if is_kept else None)
    ]
    assert old.exists() == is_kept
    if is_kept:
        assert offsets_on_disk(old) == {P0: list(range(300))}


def test_old_rows_that_are_kept_are_verified(tmp_path: Path) -> None:
    export(FakeSource.of(300), tmp_path)
    export(RESETS["made again"], tmp_path, options(rules=RangeRules(on_reset=OnReset.EARLIEST)))
    damaged = min(state_of(tmp_path).rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (problem,) = verify_export(LocalTarget(str(tmp_path))).problems
    assert problem.path.startswith("_kcli/old-logs/2/topic=orders/partition=0/part-")


def test_partitions_that_the_new_topic_has_not_are_gone(tmp_path: Path) -> None:
    export(FakeSource.of(300, 200), tmp_path)
    again = FakeSource({P0: 50}, topic_ids={"orders": "id-2"})
    export(again, tmp_path, options(rules=RangeRules(on_reset=OnReset.REPLACE)))
    assert offsets_on_disk(tmp_path) == {P0: list(range(50))}
    assert list_export(LocalTarget(str(tmp_path))).next_offsets == {"orders": {0: 50}}


def test_a_topic_that_is_empty_now_takes_its_old_rows_along(tmp_path: Path) -> None:
    export(FakeSource.of(300), tmp_path)
    empty = FakeSource({P0: 0}, topic_ids={"orders": "id-2"})
    export(empty, tmp_path, options(rules=RangeRules(on_reset=OnReset.REPLACE)))
    assert offsets_in(tmp_path) == {}
    assert export(empty, tmp_path).committed_plans == ()


def test_a_directory_that_was_moved_meanwhile_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    source = FakeSource.of(300, directory=tmp_path / "before")
    begun(tmp_path / "lake", source)
    (tmp_path / "before").rename(tmp_path / "after")
    source.directory = tmp_path / "after"
    export(source, tmp_path / "lake")
    assert offsets_in(tmp_path / "lake") == {P0: list(range(300))}


# --- attempts ------------------------------------------------------------------------------------------


class Doubled(InlineEngine):
    """Runs every task twice; the second attempt comes when the first has its receipt."""

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        for task in tasks:
            first, second = write_split(task), write_split(task)
            assert first == second
            on_done(second)


class Raced(InlineEngine):
    """Runs every task in three threads at once."""

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        for task in tasks:
            found: list[Receipt] = []
            threads = [
                threading.Thread(target=lambda task=task, found=found: found.append(write_split(task)))
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found[0] == found[1] == found[2]
            on_done(found[-1])


class FailsAfterReceipt(InlineEngine):
    """Loses the result of every task, and runs it again."""

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        for task in tasks:
            broken = _Unrenaming(task.target.root)  # type: ignore[attr-defined]
            with pytest.raises(ConnectionError):
                write_split(_with_target(task, broken))
            on_done(write_split(task))


class _Unrenaming(LocalTarget):
    def _replace(self, path: str, to: str) -> None:
        if path.rpartition("/")[2].startswith(".part"):
            raise ConnectionError("died before the rename")
        super()._replace(path, to)


def _with_target(task: SplitTask, target: LocalTarget) -> SplitTask:
    from dataclasses import replace

    return replace(task, target=target)


@pytest.mark.parametrize(
    "engine", [Doubled(), Raced(), FailsAfterReceipt()], ids=lambda one: type(one).__name__
)
def test_more_than_one_attempt_at_a_split(engine: InlineEngine, tmp_path: Path) -> None:
    dated = options(write=WriteOptions(layout=Layout(("topic", "partition", "date"))))
    source = FakeSource.of(250, 40, fake_reader=FakeReader(step_us=1_000_000_000))
    export(source, tmp_path, dated, engine=engine)
    assert offsets_in(tmp_path) == {P0: list(range(250)), ("orders", 1): list(range(40))}
    assert temporary_files(tmp_path) == []
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()


def test_what_a_killed_attempt_left_is_removed_at_the_commit(tmp_path: Path) -> None:
    class LeavesOne(InlineEngine):
        def run(self, tasks, on_done, progress):
            super().run(tasks, on_done, progress)
            (tmp_path / f"topic=orders/partition=0/.{tasks[0].stem}.parquet.0badcafe").write_text("half")

    export(FakeSource.of(50), tmp_path, engine=LeavesOne())
    assert temporary_files(tmp_path) == []


def test_a_receipt_whose_files_are_gone_is_written_again(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source, tasks=2)
    (file, _) = sorted(tmp_path.rglob("*.parquet"))
    file.unlink()
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_a_receipt_of_another_plan_does_not_count(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source, tasks=1)
    receipt = state_of(tmp_path) / "log/0000000001/split-00000.json"
    text = receipt.read_text()
    start = text.index('"plan_id":"') + len('"plan_id":"')
    receipt.write_text(text[:start] + "0" * 16 + text[start + 16 :])
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_files_that_keep_disappearing_end_the_run(tmp_path: Path) -> None:
    class Steals(InlineEngine):
        def run(self, tasks, on_done, progress):
            super().run(tasks, on_done, progress)
            for file in tmp_path.rglob("*.parquet"):
                os.unlink(file)

    with pytest.raises(KcliError, match="keep disappearing"):
        export(FakeSource.of(50), tmp_path, engine=Steals())


def test_a_task_of_an_earlier_run_is_waited_for(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    impatient = LocalTarget(str(tmp_path), patience_seconds=0.2)
    with (
        LocalTarget(str(tmp_path)).while_writing("_kcli/log/0000000001"),
        pytest.raises(KcliError, match="another run's tasks still write"),
    ):
        export(source, impatient)
    export(source, impatient)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_a_plan_is_not_finished_from_another_cluster(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    before = files_in(tmp_path)
    # Without ids of topics, only the cluster tells one `orders` from another.
    other = FakeSource({P0: 300}, cluster="cluster-B")
    with pytest.raises(TargetMismatch, match="another cluster"):
        export(other, tmp_path)
    assert files_in(tmp_path) == before
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


class InterruptedAtThePlan(LocalTarget):
    """Ctrl-C comes when the plan is there and the run does not know it yet."""

    def write_atomically(self, path: str, data: bytes) -> None:
        super().write_atomically(path, data)
        if path.endswith(".plan.json"):
            raise KeyboardInterrupt


def test_a_first_plan_that_was_interrupted_while_it_was_written_is_finished(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    with pytest.raises(Interrupted):
        export(source, InterruptedAtThePlan(str(tmp_path)))
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_a_topic_that_was_made_again_and_is_not_asked_for_stays(tmp_path: Path) -> None:
    clicks = TopicPartition("clicks", 0)
    source = FakeSource({P0: 30, clicks: 20}, topic_ids={"orders": "a", "clicks": "b"})
    export(source, tmp_path, options("orders", "clicks"))
    again = FakeSource({P0: 10, clicks: 25}, topic_ids={"orders": "c", "clicks": "b"})
    export(again, tmp_path, options("clicks", rules=RangeRules(on_reset=OnReset.REPLACE)))
    assert offsets_on_disk(tmp_path) == {P0: list(range(30)), clicks: list(range(25))}
