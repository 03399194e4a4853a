"""A log that was truncated and written on beyond what had been exported of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.dry_run import plan_export
from kcli.spark.export.engine import Progress
from kcli.spark.export.log.commit import Commit
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.ranges.offset_specs import AtOffsets, OnReset, RangeRules
from kcli.spark.source.ranges.selection import Assign
from kcli.spark.split import BatchMark
from tests.spark.export.exporting import InlineEngine, export, files_in, offsets_in, options
from tests.spark.export.fake_source import FakeSource
from tests.support.spark_exports import state_of

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOLERANT = options(rules=RangeRules(fail_on_data_loss=False))
AFRESH = options(rules=RangeRules(on_reset=OnReset.EARLIEST))


def exported(target: Path, *lengths: int) -> FakeSource:
    """Export a topic whose partitions are so long, led by epoch 2 from the beginning on."""
    source = FakeSource.of(*lengths).with_reader(epochs=((2, 0),))
    export(source, target)
    return source


def elected(source: FakeSource, begin: int, *lengths: int) -> FakeSource:
    """Return the topic under the leader of epoch 5, which had its partitions up to `begin` only."""
    ends = {TopicPartition("orders", index): length for index, length in enumerate(lengths)}
    return replace(source, ends=ends).with_reader(epochs=((2, 0), (5, begin)))


def last_commit(target: Path) -> Commit:
    newest = max((state_of(target) / "log").glob("*.commit.json"))
    return Commit.from_json(json.loads(newest.read_bytes()))


def test_it_is_an_error_that_names_the_offsets_and_changes_nothing(tmp_path: Path) -> None:
    source = elected(exported(tmp_path, 150), 90, 400)
    before = files_in(tmp_path)
    for _ in range(2):
        with pytest.raises(DataLoss, match=r"orders-0 is not what it was: .* offsets 90 to 149 are others"):
            export(source, tmp_path)
        with pytest.raises(DataLoss, match="offsets 90 to 149"):
            plan_export(source, LocalTarget(str(tmp_path)), options())
    assert files_in(tmp_path) == before


def test_the_loss_is_counted_once_if_it_is_allowed(tmp_path: Path) -> None:
    source = elected(exported(tmp_path, 150, 60), 90, 400, 60)
    (gap,) = export(source, tmp_path, TOLERANT).gaps
    assert (gap.partition, gap.start, gap.end) == (0, 90, 150)
    assert offsets_in(tmp_path) == {P0: list(range(400)), P1: list(range(60))}
    source.grow(P0, 450)
    assert export(source, tmp_path).gaps == ()
    assert offsets_in(tmp_path)[P0] == list(range(450))


def test_a_loss_behind_which_nothing_is_new_is_counted_once(tmp_path: Path) -> None:
    source = elected(exported(tmp_path, 150), 90, 150)
    assert len(export(source, tmp_path, TOLERANT).gaps) == 1
    assert export(source, tmp_path).gaps == ()


def test_a_reset_begins_afresh(tmp_path: Path) -> None:
    source = elected(exported(tmp_path, 150), 90, 400)
    assert export(source, tmp_path, AFRESH).counters.rows == 400
    assert export(source, tmp_path).counters.rows == 0


@pytest.mark.parametrize(("begin", "last_before"), [(150, 149), (151, 149), (300, 289)])
def test_a_new_leader_that_has_it_all_is_none(tmp_path: Path, begin: int, last_before: int) -> None:
    source = elected(exported(tmp_path, 150), begin, 400)
    assert export(source, tmp_path).gaps == ()
    assert last_commit(tmp_path).marks == {P0: (BatchMark(last_before, 2), BatchMark(399, 5))}
    source.grow(P0, 401)
    export(source, tmp_path)
    assert last_commit(tmp_path).marks == {P0: (BatchMark(400, 5),)}


def test_partitions_that_other_runs_read_keep_what_is_known_of_them(tmp_path: Path) -> None:
    source = exported(tmp_path, 150, 60)
    source.grow(P0, 200)
    one, other = (replace(options(), selection=Assign((partition,))) for partition in (P0, P1))
    export(source, tmp_path, one)
    assert last_commit(tmp_path).marks == {P0: (BatchMark(199, 2),), P1: (BatchMark(59, 2),)}
    with pytest.raises(DataLoss, match=r"orders-1 .* offsets 30 to 59"):
        export(elected(source, 30, 200, 90), tmp_path, other)


def test_a_truncation_while_tasks_read_is_found_by_the_next_run(tmp_path: Path) -> None:
    old = FakeSource.of(200, split_offsets=100).with_reader(epochs=((2, 0),))
    new = elected(old, 50, 200)

    class TruncatedAfterTheFirst(InlineEngine):
        def run(self, tasks: list[SplitTask], on_done: object, progress: Progress) -> None:  # type: ignore[override]
            first, second = sorted(tasks, key=lambda task: task.split.start)
            super().run([first, replace(second, reader=new.reader())], on_done, progress)  # type: ignore[arg-type]

    export(old, tmp_path, engine=TruncatedAfterTheFirst())
    assert last_commit(tmp_path).marks == {P0: (BatchMark(99, 2), BatchMark(199, 5))}
    with pytest.raises(DataLoss, match="offsets 50 to 199"):
        export(new, tmp_path)


def test_an_export_that_was_begun_finds_it_when_it_is_finished(tmp_path: Path) -> None:
    first = options(rules=RangeRules(ending=AtOffsets({P0: 100})))
    source = FakeSource.of(150).with_reader(epochs=((2, 0),))
    export(source, tmp_path, first)
    with pytest.raises(RuntimeError):
        export(source, tmp_path, engine=_Broken())
    after = elected(source, 40, 150)
    with pytest.raises(DataLoss, match="offsets 40 to 149"):
        export(after, tmp_path)


class _Broken(InlineEngine):
    def run(self, *_: object) -> None:
        raise RuntimeError("the machine stops")


def test_a_log_that_was_written_before_there_were_marks_is_gone_on_with(tmp_path: Path) -> None:
    source = exported(tmp_path, 150)
    path = max((state_of(tmp_path) / "log").glob("*.commit.json"))
    for file in (path, *(state_of(tmp_path) / "log").glob("*.plan.json")):
        stored = json.loads(file.read_bytes())
        del stored["marks"]
        file.write_text(json.dumps(stored))
    after = elected(source, 90, 200)
    assert export(after, tmp_path).counters.rows == 50
    assert last_commit(tmp_path).marks == {P0: (BatchMark(199, 5),)}
