"""Where the log of an export is: beside the directory of its files, which then holds nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from kcli.spark.export.failures import TargetRefused
from kcli.spark.export.log.export_log import list_export
from kcli.spark.export.options import Mode, WriteOptions
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.target.object_target import ObjectTarget
from kcli.spark.export.target.target import Target
from kcli.spark.split import FieldFormat, OnBadValue, OnCorrupt, Reading
from tests.spark.export.exporting import export, files_in, offsets_in, options
from tests.spark.export.fake_source import FakeReader, FakeSource
from tests.support.spark_exports import state_of

P0 = ("orders", 0)
WITH_DEAD_LETTERS = options(
    write=WriteOptions(
        reading=Reading(on_corrupt=OnCorrupt.DEAD_LETTER),
        key=FieldFormat("long"),
        on_bad_value=OnBadValue.DEAD_LETTER,
    )
)
"""Of the keys only those that are null are longs."""


def all_files(directory: Path) -> set[str]:
    """Return what a reader finds that skips nothing, in the directory and below."""
    return {
        str(Path(folder, name).relative_to(directory))
        for folder, _, names in os.walk(directory)
        for name in names
    }


def test_a_reader_of_the_directory_finds_the_rows_and_nothing_else(tmp_path: Path) -> None:
    """polars takes every file for data, duckdb's `**/*.parquet` those of hidden directories, too."""
    lake = tmp_path / "lake"
    summary = export(FakeSource.of(150, fake_reader=FakeReader(poison=(120,))), lake, WITH_DEAD_LETTERS)
    assert summary.counters.dead_letter_rows > 0
    assert summary.counters.dead_letter_batches == 1
    assert all_files(lake) == {file.path for file in list_export(LocalTarget(str(lake))).files} != set()


def test_a_reader_of_the_directory_above_that_skips_hidden_names_finds_no_log(tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path / "lake")
    assert sorted(os.listdir(tmp_path)) == ["_lake.kcli", "lake"]


def test_an_object_store_has_the_log_beside_the_prefix(tmp_path: Path) -> None:
    store = ObjectTarget(LocalFileSystem(), str(tmp_path / "bucket/lake"), uri="store://bucket/lake")
    export(FakeSource.of(50), store)
    assert all_files(tmp_path / "bucket/lake") == {file.path for file in list_export(store).files}
    assert store.state_uri == "store://bucket/_lake.kcli"
    assert (tmp_path / "bucket/_lake.kcli/log/0000000001.commit.json").exists()


def local(path: Path) -> LocalTarget:
    return LocalTarget(str(path))


def stored(path: Path) -> ObjectTarget:
    return ObjectTarget(LocalFileSystem(), str(path), uri=f"store:/{path}")


@pytest.mark.parametrize("opened", [local, stored])
def test_a_log_inside_as_earlier_versions_have_it_is_continued(
    opened: Callable[[Path], Target], tmp_path: Path
) -> None:
    lake, source = tmp_path / "lake", FakeSource.of(50)
    export(source, opened(lake))
    state_of(lake).rename(lake / "_kcli")
    source.grow(P0, 80)
    export(source, opened(lake))
    assert offsets_in(lake) == {P0: list(range(80))}
    assert os.listdir(tmp_path) == ["lake"]


def test_a_log_inside_may_be_moved_out(tmp_path: Path) -> None:
    lake, source = tmp_path / "lake", FakeSource.of(50)
    export(source, lake)
    state_of(lake).rename(lake / "_kcli")
    export(source, lake)
    (lake / "_kcli").rename(tmp_path / "_lake.kcli")
    source.grow(P0, 80)
    export(source, lake)
    assert offsets_in(lake) == {P0: list(range(80))}


def test_a_link_to_a_directory_is_the_same_target(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "lake")
    source = FakeSource.of(50)
    export(source, tmp_path / "lake")
    source.grow(P0, 80)
    export(source, tmp_path / "elsewhere" / "link")
    assert offsets_in(tmp_path / "lake") == {P0: list(range(80))}


@pytest.mark.parametrize("opened", [local, stored])
def test_two_logs_are_refused(opened: Callable[[Path], Target], tmp_path: Path) -> None:
    export(FakeSource.of(50), tmp_path / "lake")
    shutil.copytree(tmp_path / "_lake.kcli", tmp_path / "lake/_kcli")
    with pytest.raises(TargetRefused, match=r"has two logs: `.*lake/_kcli` and `.*/_lake\.kcli`"):
        export(FakeSource.of(80), opened(tmp_path / "lake"))


@pytest.mark.parametrize("opened", [local, stored])
def test_a_directory_that_is_gone_is_not_continued(opened: Callable[[Path], Target], tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    export(FakeSource.of(50), lake)
    shutil.rmtree(lake)
    before = files_in(lake)
    with pytest.raises(
        TargetRefused, match=r"lake` is gone, but its log is not: `.*/_lake\.kcli`"
    ) as refusal:
        export(FakeSource.of(80), opened(lake))
    assert "`--mode overwrite`" in str(refusal.value.hint)
    assert files_in(lake) == before
    export(FakeSource.of(80), opened(lake), options(mode=Mode.OVERWRITE))
    assert offsets_in(lake) == {P0: list(range(80))}


def test_an_emptied_directory_is_continued(tmp_path: Path) -> None:
    """Others may take the files away as they come."""
    lake, source = tmp_path / "lake", FakeSource.of(50)
    export(source, lake)
    shutil.rmtree(lake / "topic=orders")
    source.grow(P0, 80)
    export(source, lake)
    assert [file.start for file in list_export(local(lake)).files] == [0, 50]


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        (LocalTarget("/proc"), "--to /proc/export"),
        (ObjectTarget(LocalFileSystem(), "bucket", uri="s3://bucket"), "--to s3://bucket/export"),
    ],
    ids=["mount point", "bucket"],
)
def test_a_target_with_nothing_beside_it_is_refused(
    target: Target, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if isinstance(target, LocalTarget):
        monkeypatch.setattr("os.listdir", lambda _: [])
    with pytest.raises(TargetRefused, match="nothing can be beside") as refusal:
        export(FakeSource.of(80), target)
    assert hint in str(refusal.value.hint)
