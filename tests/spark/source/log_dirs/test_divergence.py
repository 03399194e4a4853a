"""Whether a log directory still has what was read of it: its batches tell, and its checkpoint of epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.spark.split import BatchMark, ReadCounters
from kcli.storage.log_paths import LEADER_EPOCH_CHECKPOINT
from tests.spark.source.log_dirs.log_dir import ORDERS, LogDir, read_all
from tests.storage.log_harness import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path


def grow(log: LogDir, end: int, leader_epoch: int) -> None:
    """Append batches of three records up to an offset."""
    while log.log.log_end_offset < end:
        log.append(*[b"x" * 40] * 3, leader_epoch=leader_epoch)


def new_log(root: Path) -> LogDir:
    """A log of 60 records, the first 30 written by the leader of epoch 1, the others by that of epoch 4."""
    log = LogDir(root)
    grow(log, 30, 1)
    grow(log, 60, 4)
    return log


def truncated(root: Path, offset: int, end: int) -> LogDir:
    """The same log after an unclean election, its leader now that of epoch 6."""
    log = new_log(root)
    log.log.truncate_to(offset, now_ms=NOW_MS)
    grow(log, end, 6)
    return log


def divergence(log: LogDir, *marks: BatchMark) -> int | None:
    return log.source().divergences({ORDERS: marks}).get(ORDERS)


def marks_of(log: LogDir, *ranges: tuple[int, int]) -> tuple[BatchMark, ...]:
    """Read ranges and return what the next run looks for."""
    counters = ReadCounters()
    for start, end in ranges:
        read_all(log.splits(start, end), counters)
    return counters.marks


def forget_epochs(log: LogDir) -> None:
    (log.directory / LEADER_EPOCH_CHECKPOINT).unlink()


def test_reading_notes_the_last_batch_of_each_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path).close()
    assert marks_of(log, (0, 60))[-1] == BatchMark(59, 4)
    assert marks_of(log, (0, 20), (40, 47)) == (BatchMark(20, 1), BatchMark(47, 4))


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("mark", [BatchMark(2, 1), BatchMark(29, 1), BatchMark(59, 4)])
def test_a_log_that_has_grown_is_the_same(tmp_path: Path, mark: BatchMark, has_checkpoint: bool) -> None:
    log = new_log(tmp_path)
    grow(log, 90, 6)
    log.close()
    if not has_checkpoint:
        forget_epochs(log)
    assert divergence(log, mark) is None


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize(
    ("cut_at", "marks", "expected"),
    [
        (45, (BatchMark(59, 4),), 45),
        (45, (BatchMark(44, 4),), None),
        (30, (BatchMark(59, 4),), 30),
        (12, (BatchMark(29, 1), BatchMark(59, 4)), 12),
        (12, (BatchMark(11, 1),), None),
    ],
)
def test_a_log_that_was_cut_and_has_grown_again_is_another_one_from_there_on(
    tmp_path: Path, cut_at: int, marks: tuple[BatchMark, ...], expected: int | None, has_checkpoint: bool
) -> None:
    log = truncated(tmp_path, cut_at, 90).close()
    if not has_checkpoint:
        forget_epochs(log)
    assert divergence(log, *marks) == expected


def test_a_log_that_was_made_again_has_nothing_of_what_was_read(tmp_path: Path) -> None:
    log = LogDir(tmp_path)
    grow(log, 90, 0)
    assert divergence(log.close(), BatchMark(59, 4)) == 0
    forget_epochs(log)
    assert divergence(log, BatchMark(59, 4)) == 0


def test_what_is_compacted_away_is_told_by_the_checkpoint(tmp_path: Path) -> None:
    log = truncated(tmp_path, 45, 90).close()
    segment = log.path(log.bases[0])
    for base in log.bases[1:]:
        log.path(base).unlink()
    segment.write_bytes(b"")
    assert divergence(log, BatchMark(44, 4)) is None
    assert divergence(log, BatchMark(59, 4)) == 45
    forget_epochs(log)
    assert divergence(log, BatchMark(59, 4)) is None


def test_what_retention_removed_counts_as_the_same(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    grow(log, 120, 6)
    log.log.raise_log_start(75)
    log.close()
    log.write_log_start(75)
    assert divergence(log, BatchMark(59, 4)) is None
    assert divergence(log, BatchMark(77, 6)) is None


def test_older_formats_have_no_epochs_to_go_by(tmp_path: Path) -> None:
    log = LogDir(tmp_path)
    builder = MessageSetBuilder(magic=1)
    for number in range(5):
        builder.append(NOW_MS, b"key", b"%d" % number)
    log.stop()
    log.path(0).write_bytes(builder.build())
    log.write_mark(5)
    assert marks_of(log, (0, 5)) == ()
    assert divergence(log, BatchMark(3, 2)) is None
