"""Append, snapshot and overwrite."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.protocol.topics import TopicPartition
from kcli.spark.export.failures import TargetRefused
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.options import Mode, WriteOptions
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.verification import verify_export
from kcli.spark.source.ranges.offset_specs import AtOffsets, RangeRules
from kcli.spark.split import Reading
from tests.spark.export.exporting import export, files_in, offsets_in, offsets_on_disk, options
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.spark.export.test_resuming import begun
from tests.support.spark_exports import state_of

P0 = TopicPartition("orders", 0)
SNAPSHOT = options(mode=Mode.SNAPSHOT)
OVERWRITE = options(mode=Mode.OVERWRITE)


def test_a_snapshot_wants_an_empty_target(tmp_path: Path) -> None:
    source = FakeSource.of(50)
    export(source, tmp_path, SNAPSHOT)
    source.grow(P0, 60)
    before = files_in(tmp_path)
    with pytest.raises(TargetRefused, match="already holds an export"):
        export(source, tmp_path, SNAPSHOT)
    assert files_in(tmp_path) == before


def test_a_snapshot_that_was_begun_is_finished_and_nothing_more(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source, mode=Mode.SNAPSHOT)
    source.grow(P0, 400)
    assert export(source, tmp_path, SNAPSHOT).committed_plans == (1,)
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_a_snapshot_can_be_appended_to(tmp_path: Path) -> None:
    source = FakeSource.of(50)
    export(source, tmp_path, SNAPSHOT)
    source.grow(P0, 60)
    export(source, tmp_path)
    assert offsets_in(tmp_path) == {P0: list(range(60))}


def test_overwriting_replaces_what_is_there(tmp_path: Path) -> None:
    export(FakeSource.of(250, 40), tmp_path)
    fewer = options(mode=Mode.OVERWRITE, rules=RangeRules(ending=AtOffsets({P0: 30})))
    export(FakeSource.of(100), tmp_path, fewer)
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(30))}
    assert verify_export(LocalTarget(str(tmp_path))).problems == ()
    assert files_in(state_of(tmp_path) / "log") == {
        "0000000002.plan.json",
        "0000000002.commit.json",
        "0000000002/split-00000.json",
    }
    assert not (tmp_path / "topic=orders/partition=1").exists()


def test_overwriting_may_change_what_the_target_is(tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path)
    other = options(
        "clicks", mode=Mode.OVERWRITE, write=WriteOptions(reading=Reading(columns=("value", "offset")))
    )
    clicks = FakeSource.of(20, topic="clicks", cluster="cluster-B")
    export(clicks, tmp_path, other)
    listing = list_export(LocalTarget(str(tmp_path)))
    assert (listing.cluster_id, listing.topics) == ("cluster-B", {"clicks": "id-1"})
    clicks.grow(TopicPartition("clicks", 0), 30)
    export(clicks, tmp_path, options("clicks", write=other.write))
    assert offsets_in(tmp_path) == {("clicks", 0): list(range(30))}


def test_overwriting_an_empty_target_is_an_export(tmp_path: Path) -> None:
    assert export(FakeSource.of(50), tmp_path, OVERWRITE).counters.rows == 50


def test_overwriting_with_an_empty_topic_leaves_an_empty_target(tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path)
    export(FakeSource.of(0), tmp_path, OVERWRITE)
    assert offsets_in(tmp_path) == {}
    assert list(tmp_path.rglob("*.parquet")) == []


def test_an_overwriting_plan_that_was_begun_is_finished_by_the_same_command(tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path)
    source = FakeSource.of(300)
    begun(tmp_path, source, mode=Mode.OVERWRITE)
    assert offsets_in(tmp_path) == {P0: list(range(50))}
    assert export(source, tmp_path, OVERWRITE).resumed
    assert offsets_in(tmp_path) == {P0: list(range(300))}


def test_an_overwriting_run_does_not_finish_what_it_drops(tmp_path: Path) -> None:
    begun(tmp_path, FakeSource.of(300))
    summary = export(FakeSource.of(40), tmp_path, OVERWRITE)
    assert not summary.resumed
    assert offsets_in(tmp_path) == offsets_on_disk(tmp_path) == {P0: list(range(40))}


def test_a_failed_overwriting_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Exception, match="corrupt batch"):
        export(FakeSource.of(300, fake_reader=FakeReader(poison=(200,))), tmp_path, OVERWRITE)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_snapshot_does_not_finish_what_somebody_else_asked_for(tmp_path: Path) -> None:
    begun(tmp_path, FakeSource.of(300), mode=Mode.SNAPSHOT)
    before = files_in(tmp_path)
    payments = FakeSource.of(50, topic="payments")
    with pytest.raises(TargetRefused, match="another export that was begun and not finished"):
        export(payments, tmp_path, options("payments", mode=Mode.SNAPSHOT))
    assert files_in(tmp_path) == before
