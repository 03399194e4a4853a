"""What an export would do, told without doing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.spark.export.dry_run import DryRun, PlannedPartition, plan_export
from kcli.spark.export.options import ExportOptions, Mode
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.source.ranges.offset_specs import RangeRules
from tests.spark.export.exporting import export, files_in, options
from tests.spark.export.fake_source import FakeSource
from tests.spark.export.test_resuming import begun

P0 = TopicPartition("orders", 0)


def planned(source: FakeSource, target: Path, asked: ExportOptions | None = None) -> DryRun:
    before = files_in(target)
    found = plan_export(source, LocalTarget(str(target)), asked or options(), slots=2)
    assert files_in(target) == before
    return found


def part(partition: int, start: int, end: int, splits: int) -> PlannedPartition:
    return PlannedPartition(
        topic="orders",
        partition=partition,
        start=start,
        end=end,
        records=end - start,
        size_bytes=(end - start) * 100,
        splits=splits,
    )


def test_a_first_export(tmp_path: Path) -> None:
    found = planned(FakeSource.of(250, 0, 90), tmp_path / "lake")
    assert found.partitions == (part(0, 0, 250, 3), part(2, 0, 90, 1))
    assert (found.files, found.resumes_plan, found.gaps) == (4, None, ())
    assert not (tmp_path / "lake").exists()


def test_only_what_is_new(tmp_path: Path) -> None:
    source = FakeSource.of(250)
    export(source, tmp_path)
    assert planned(source, tmp_path).partitions == ()
    source.grow(P0, 270)
    assert planned(source, tmp_path).partitions == (part(0, 250, 270, 1),)
    assert planned(source, tmp_path, options(mode=Mode.OVERWRITE)).partitions == (part(0, 0, 270, 3),)


def test_the_rest_of_what_was_begun_and_what_came_since(tmp_path: Path) -> None:
    source = FakeSource.of(300)
    begun(tmp_path, source)
    source.grow(P0, 350)
    found = planned(source, tmp_path)
    assert found.resumes_plan == 1
    assert found.partitions == (part(0, 100, 350, 3),)


def test_what_retention_took(tmp_path: Path) -> None:
    source = FakeSource.of(100)
    export(source, tmp_path)
    source.grow(P0, 300)
    source.begins[P0] = 150
    with pytest.raises(KcliError, match="offsets 100 to 149 are gone"):
        planned(source, tmp_path)
    found = planned(source, tmp_path, options(rules=RangeRules(fail_on_data_loss=False)))
    assert [(gap.start, gap.end) for gap in found.gaps] == [(100, 150)]


def test_what_would_be_refused(tmp_path: Path) -> None:
    export(FakeSource.of(100), tmp_path)
    with pytest.raises(KcliError, match="already holds an export"):
        planned(FakeSource.of(100), tmp_path, options(mode=Mode.SNAPSHOT))
    with pytest.raises(KcliError, match="another topic"):
        planned(FakeSource.of(100, topic="clicks"), tmp_path, options("clicks"))
