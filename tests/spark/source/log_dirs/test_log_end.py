"""Where a log starts and ends: checkpoints, torn tails, reserved space, damage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kcli.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT
from kcli.storage.log.log_config import LogConfig
from tests.spark.source.log_dirs.log_dir import LogDir, between, stored_rows
from tests.storage.log_harness import SMALL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> LogDir:
    """Three segments of ten batches and some, of one record each."""
    made = LogDir(tmp_path / "node")
    made.fill(36)
    return made.close()


def test_it_ends_at_the_high_watermark(log: LogDir) -> None:
    rows = stored_rows(log.directory)
    for mark in (0, 1, 17, 35, 36):
        log.write_mark(mark)
        assert log.ends() == (0, mark, mark)
    assert log.rows(0, 17) == between(rows, 0, 17)
    assert log.notes == []


def test_a_high_watermark_beyond_the_log_is_told(log: LogDir) -> None:
    log.write_mark(40)
    assert log.ends() == (0, 36, 36)
    assert log.notes == [f"`{log.directory}` ends at offset 36, below its high watermark 40"]


def test_without_a_high_watermark_it_ends_behind_the_last_batch(log: LogDir) -> None:
    os.unlink(log.root / REPLICATION_OFFSET_CHECKPOINT)
    assert log.ends() == (0, 36, 36)
    assert log.notes == [f"no high watermark of `{log.directory}` is known: it is read to its end"]


def test_a_damaged_checkpoint_counts_as_empty(log: LogDir) -> None:
    (log.root / REPLICATION_OFFSET_CHECKPOINT).write_text("0\n7\norders 0 3\n")
    assert log.ends() == (0, 36, 36)
    assert log.notes[0].startswith("a checkpoint counts as empty: 7 entries declared, 1 found")


def test_it_starts_where_the_checkpoint_says(log: LogDir) -> None:
    log.write_log_start(5)
    assert log.ends() == (5, 36, 36)
    log.write_mark(3)
    assert log.ends() == (5, 5, 5)


def test_it_starts_with_the_first_segment(log: LogDir) -> None:
    log.write_log_start(2)
    second = log.bases[1]
    log.path(0).unlink()
    assert log.ends() == (second, 36, 36)


@pytest.mark.parametrize("with_index", [True, False])
def test_a_half_written_batch_is_not_there_yet(log: LogDir, with_index: bool) -> None:
    base = log.bases[-1]
    if not with_index:
        log.path(base, ".index").unlink()
    data, rows = log.path(base).read_bytes(), stored_rows(log.directory)
    os.unlink(log.root / REPLICATION_OFFSET_CHECKPOINT)
    size = len(data) // (36 - base)
    for count in range(len(data) + 1):
        log.path(base).write_bytes(data[:count])
        end = base + count // size
        assert log.ends() == (0, end, end)
    assert log.rows(0, 36) == rows


@pytest.mark.parametrize("count", [1, 16, 17, 60, 61, 5000])
def test_space_reserved_behind_the_last_batch_is_no_part_of_it(log: LogDir, count: int) -> None:
    os.unlink(log.root / REPLICATION_OFFSET_CHECKPOINT)
    rows = stored_rows(log.directory)
    with log.path(log.bases[-1]).open("ab") as file:
        file.write(bytes(count))
    assert log.ends() == (0, 36, 36)
    assert log.rows(0, 36) == rows


def test_a_log_file_that_was_reserved_whole_is_read(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", LogConfig(segment_bytes=4096, preallocate=True))
    log.fill(5)
    log.write_mark(5)  # it is not stopped
    assert log.path(0).stat().st_size == 4096
    assert log.ends() == (0, 5, 5)
    assert [row[0] for row in log.rows(0, 5)] == [0, 1, 2, 3, 4]


def test_damage_that_batches_follow_is_no_end(log: LogDir) -> None:
    base = log.bases[-1]
    os.unlink(log.root / REPLICATION_OFFSET_CHECKPOINT)
    os.unlink(log.path(base, ".index"))
    data = log.path(base).read_bytes()
    size = len(data) // (36 - base)
    log.path(base).write_bytes(data[:size] + b"\xee" * size + data[2 * size :])
    assert log.ends() == (0, 36, 36)


def test_a_segment_without_batches_ends_where_it_begins(log: LogDir) -> None:
    (log.directory / f"{36:020d}.log").touch()
    assert log.ends() == (0, 36, 36)
    (log.directory / f"{50:020d}.log").touch()
    os.unlink(log.root / REPLICATION_OFFSET_CHECKPOINT)
    assert log.ends() == (0, 50, 50)


def test_a_directory_without_segments_is_empty(log: LogDir) -> None:
    for name in log.names(".log"):
        (log.directory / name).unlink()
    assert log.ends() == (0, 0, 0)
    assert log.splits(0, 0) == []


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_files_on_their_way_out_or_in_do_not_count(log: LogDir, suffix: str) -> None:
    rows = stored_rows(log.directory)
    for name in log.names(".log"):
        (log.directory / (name + suffix)).write_bytes(b"not to be read")
    (log.directory / f"{99:020d}.log.deleted").write_bytes(b"not to be read")
    assert log.ends() == (0, 36, 36)
    assert log.rows(0, 36) == rows


def test_a_compacted_segment_counts_that_was_to_replace_others(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", SMALL)
    log.fill(36)
    log.close()
    rows, (first, second, third, *_) = stored_rows(log.directory), log.bases
    merged = log.path(first).read_bytes() + log.path(second).read_bytes()
    log.path(first, ".log.swap").write_bytes(merged)
    log.path(first).rename(log.path(first, ".log.deleted"))
    # The second one was still to go when the broker died.
    assert log.ends() == (0, 36, 36)
    assert log.rows(0, 36) == rows
    assert log.rows(second + 1, third + 1) == between(rows, second + 1, third + 1)
