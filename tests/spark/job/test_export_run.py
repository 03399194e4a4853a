"""What a run exports: every offset once, what is new the next time, and what it says of that."""

from __future__ import annotations

from pathlib import Path

from tests.spark.job.exporting import export, offsets_in, offsets_on_disk
from tests.spark.job.fake_source import FakeSource


def test_every_offset_is_exported_once(tmp_path: Path) -> None:
    source = FakeSource.of(250, 90)
    summary = export(source, tmp_path / "lake")
    expected = {("orders", 0): list(range(250)), ("orders", 1): list(range(90))}
    assert offsets_in(tmp_path / "lake") == expected
    assert offsets_on_disk(tmp_path / "lake") == expected
    assert summary.counters.rows == 340
    assert summary.files == 4
