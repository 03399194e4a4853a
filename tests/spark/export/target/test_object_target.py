"""Exports to a store that neither renames nor locks: pyarrow's local file system stands for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem, _MockFileSystem

from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.engine import Progress
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.log.receipt import Receipt
from kcli.spark.export.options import Mode, WriteOptions
from kcli.spark.export.repair import repair_export
from kcli.spark.export.target.layout import Layout
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.target.object_target import ObjectTarget, open_target
from kcli.spark.export.verification import verify_export
from kcli.spark.export.writing.split_task import SplitTask
from kcli.spark.export.writing.task import write_split
from kcli.spark.source.ranges.offset_specs import OnReset, RangeRules
from tests.spark.export.exporting import InlineEngine, export, options
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.spark.export.test_resuming import StopsAfter

P0 = TopicPartition("orders", 0)
DATED = options(write=WriteOptions(layout=Layout(("topic", "partition", "date"))))


def subtree(path: Path) -> FileSystem:
    return SubTreeFileSystem(str(path), LocalFileSystem())


def mock(_: Path) -> FileSystem:
    return _MockFileSystem()


@pytest.fixture(params=[subtree, mock], ids=["local", "mock"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectTarget:
    filesystem = request.param(tmp_path)
    filesystem.create_dir("bucket", recursive=True)
    return ObjectTarget(filesystem, "bucket/lake", uri="store://bucket/lake")


def offsets(target: ObjectTarget) -> list[int]:
    """Return the offsets in the committed files, and make sure that there are no other data files."""
    listing = list_export(target)
    data = {
        one.path
        for one in target.list("", recursive=True)
        if one.path.endswith(".parquet") and not one.path.startswith("_kcli/")
    }
    assert data == {file.path for file in listing.files}
    found = []
    for file in listing.files:
        with target.open_input(file.path) as opened:
            found += pq.ParquetFile(opened).read(columns=["offset"]).column("offset").to_pylist()
    return sorted(found)


def test_an_export_goes_on_where_it_stopped(target: ObjectTarget) -> None:
    source = FakeSource.of(150, fake_reader=FakeReader(step_us=2_000_000_000))
    with pytest.raises(KcliError):
        export(source, target, DATED, engine=StopsAfter(1))
    export(source, target, DATED)
    source.grow(P0, 230)
    export(source, target, DATED)
    assert offsets(target) == list(range(230))
    assert verify_export(target).problems == ()
    assert target.size("_kcli/lock") is None


def test_names_carry_the_attempt(target: ObjectTarget) -> None:
    export(FakeSource.of(50), target)
    (file,) = list_export(target).files
    (receipt,) = target.list("_kcli/log/0000000001")
    attempt = receipt.path.split(".")[1]
    assert file.path == f"topic=orders/partition=0/part-{0:020d}-{50:020d}-000001-{attempt}.parquet"
    assert file.temporary is None


class TwoReceipts(InlineEngine):
    """Runs every task twice, and tells of the second attempt."""

    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        for task in tasks:
            write_split(task)
            on_done(write_split(task))


def test_of_two_attempts_the_one_that_the_driver_knows_counts(target: ObjectTarget) -> None:
    export(FakeSource.of(150), target, engine=TwoReceipts())
    assert offsets(target) == list(range(150))
    assert len(target.list("_kcli/log/0000000001")) == 2


class TwoReceiptsAndGone(TwoReceipts):
    def run(self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress) -> None:
        super().run(tasks, on_done, progress)
        raise ConnectionError("away")


def test_recovery_takes_one_of_two_attempts(target: ObjectTarget) -> None:
    with pytest.raises(KcliError):
        export(FakeSource.of(150), target, engine=TwoReceiptsAndGone())
    export(FakeSource.of(150), target, engine=StopsAfter(0))
    assert offsets(target) == list(range(150))


def test_a_poison_batch_leaves_nothing(target: ObjectTarget) -> None:
    with pytest.raises(KcliError, match="corrupt"):
        export(FakeSource.of(150, fake_reader=FakeReader(poison=(120,))), target)
    assert target.list("", recursive=True) == []


def test_overwriting(target: ObjectTarget) -> None:
    export(FakeSource.of(150), target)
    export(FakeSource.of(40), target, options(mode=Mode.OVERWRITE))
    assert offsets(target) == list(range(40))


def lose_state(target: ObjectTarget) -> None:
    for entry in target.list("_kcli", recursive=True):
        target.remove(entry.path)


def test_a_lost_log_is_made_again(target: ObjectTarget) -> None:
    export(FakeSource.of(150), target, DATED)
    lose_state(target)
    repair_export(target)
    assert offsets(target) == list(range(150))
    assert verify_export(target).problems == ()


SHARED = options(write=WriteOptions(layout=Layout(("date",))))


def offsets_of_each(target: ObjectTarget) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for file in list_export(target).files:
        with target.open_input(file.path) as opened:
            rows = pq.ParquetFile(opened).read(columns=["offset"]).column("offset").to_pylist()
        for one in file.pieces:
            found.setdefault(one.partition, []).extend(rows[one.first_row : one.first_row + one.rows])
    return [sorted(found[partition]) for partition in sorted(found)]


def test_a_lost_log_of_shared_files_is_made_again(target: ObjectTarget) -> None:
    source = FakeSource.of(100, 50, 100, fake_reader=FakeReader(step_us=2_000_000_000))
    with pytest.raises(KcliError):
        export(source, target, SHARED, engine=TwoReceiptsAndGone())
    lose_state(target)
    repaired = repair_export(target)
    assert (repaired.rows, repaired.next_offsets) == (250, {"orders": {0: 100, 1: 50, 2: 100}})
    assert offsets_of_each(target) == [list(range(100)), list(range(50)), list(range(100))]
    assert verify_export(target).problems == ()


@pytest.mark.parametrize("lost", ["nothing", "commit", "plan and commit"])
def test_rows_of_a_log_that_is_gone_leave_the_files_that_they_share(target: ObjectTarget, lost: str) -> None:
    source = FakeSource.of(100, 50, 100, fake_reader=FakeReader(step_us=2_000_000_000))
    export(source, target, SHARED)
    source.diverges = {TopicPartition("orders", 1): 10}
    export(source, target, replace(SHARED, rules=RangeRules(on_reset=OnReset.REPLACE)))
    if lost != "nothing":
        target.remove("_kcli/log/0000000001.commit.json")
        target.remove("_kcli/log/0000000002.commit.json")
    if lost == "plan and commit":
        target.remove("_kcli/log/0000000001.plan.json")
        target.remove("_kcli/log/0000000002.plan.json")
    if lost != "nothing":
        repair_export(target)
        source.diverges = {}
        export(source, target, SHARED)
    assert offsets_of_each(target) == [list(range(100)), list(range(50)), list(range(100))]
    assert verify_export(target).problems == ()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_half_an_attempt_is_not_believed(target: ObjectTarget, missing: int) -> None:
    source = FakeSource.of(100, fake_reader=FakeReader(step_us=2_000_000_000))
    export(source, target, DATED)
    files = [file.path for file in list_export(target).files]
    assert len(files) == 3
    target.remove(files.pop(missing))
    lose_state(target)
    repair = repair_export(target)
    assert sorted(repair.removed) == files
    export(source, target, DATED)
    assert offsets(target) == list(range(100))


def test_of_two_whole_attempts_one_is_believed(target: ObjectTarget) -> None:
    source = FakeSource.of(150, fake_reader=FakeReader(step_us=2_000_000_000))
    with pytest.raises(KcliError):
        export(source, target, DATED, engine=TwoReceiptsAndGone())
    lose_state(target)
    assert repair_export(target).rows == 150
    assert offsets(target) == list(range(150))


def test_an_attempt_that_came_late_to_a_finished_plan_is_not_believed(target: ObjectTarget) -> None:
    source = FakeSource.of(50, fake_reader=FakeReader(step_us=2_000_000_000))
    late: list[SplitTask] = []

    class Keeps(InlineEngine):
        def run(
            self, tasks: Sequence[SplitTask], on_done: Callable[[Receipt], None], progress: Progress
        ) -> None:
            late.extend(tasks)
            super().run(tasks, on_done, progress)

    export(source, target, DATED, engine=Keeps())
    commit = target.read("_kcli/log/0000000001.commit.json")
    target.remove("_kcli/log/0000000001.commit.json")
    write_split(late[0])
    target.write_atomically("_kcli/log/0000000001.commit.json", commit[:-9])
    repair_export(target)
    assert offsets(target) == list(range(50))


def test_renaming_makes_directories(target: ObjectTarget) -> None:
    target.write_atomically("one", b"1")
    assert target.rename("one", "a/b/two")
    assert not target.rename("one", "three")
    assert [entry.path for entry in target.list("", recursive=True)] == ["a/b/two"]


def test_foreign_files_are_refused(target: ObjectTarget) -> None:
    target.write_atomically("thesis.tex", b"...")
    with pytest.raises(KcliError, match=r"not of an export: `thesis.tex`"):
        export(FakeSource.of(150), target)


def test_what_a_target_may_be_called(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/a b", f"file://{tmp_path}/a%20b", f"file:{tmp_path}/a%20b"):
        opened = open_target(name)
        assert isinstance(opened, LocalTarget)
        assert opened.root == f"{tmp_path}/a b"
    assert isinstance(open_target("mock:///bucket/lake"), ObjectTarget)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "the target is empty"),
        ("file://other/path", "a file on another host: `file://other/path`"),
        ("gopher://user:secret@host/x", "not a target that can be written to: `gopher://host/x`"),
        ("s3://user:sec[ret@x", "not a target that can be written to: no `s3` address"),
    ],
)
def test_a_target_that_cannot_be_opened(uri: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        open_target(uri)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://lake/orders", "cannot open `s3://lake/orders`: no route to s3://lake/orders"),
        ("s3://user:secret@lake/orders", "cannot open `s3://lake/orders`: OSError"),
        ("s3://lake/orders?secret_key=x", "cannot open `s3://lake/orders`: OSError"),
    ],
)
def test_why_a_store_cannot_be_opened_is_said_unless_it_may_name_a_secret(
    uri: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreachable:
        @staticmethod
        def from_uri(given: str) -> None:
            raise OSError(f"no route to {given}\nand much more")

    monkeypatch.setattr("pyarrow.fs.FileSystem", Unreachable)
    with pytest.raises(KcliError) as refusal:
        open_target(uri)
    assert refusal.value.message == message
