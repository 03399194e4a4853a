"""Which segments retention deletes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.storage.log.log_config import COMPACT, DELETE, LogConfig
from tests.storage.log_harness import NOW_MS, LogHarness

DAY_MS = 24 * 60 * 60 * 1000


def log_of_days(root: Path, days: int, **config: object) -> LogHarness:
    """Return a log with one segment a day, of one record of 1,000 bytes each, the newest from now."""
    log = LogHarness(root, LogConfig(segment_ms=1, file_delete_delay_ms=0, **config))  # type: ignore[arg-type]
    for day in range(days):
        log.append(b"x" * 1000, timestamp=NOW_MS - (days - 1 - day) * DAY_MS)
    assert log.bases == list(range(days))
    return log


@pytest.mark.parametrize(
    ("retention_ms", "first"),
    [(-1, 0), (10 * DAY_MS, 0), (4 * DAY_MS, 0), (3 * DAY_MS, 1), (DAY_MS, 3), (0, 4)],
)
def test_segments_go_by_the_age_of_their_newest_record(tmp_path: Path, retention_ms: int, first: int) -> None:
    log = log_of_days(tmp_path, 5, retention_ms=retention_ms)
    assert log.log.delete_old_segments(NOW_MS) == first
    assert log.log.log_start_offset == first
    assert log.bases[0] == first
    assert len(log.values()) == 5 - first


def test_seven_days_pass_in_no_time(tmp_path: Path) -> None:
    log = log_of_days(tmp_path, 5)
    assert log.log.delete_old_segments(NOW_MS) == 0
    assert log.log.delete_old_segments(NOW_MS + 7 * DAY_MS) == 4
    assert log.log.delete_old_segments(NOW_MS + 7 * DAY_MS + 1) == 1
    assert (log.log.log_start_offset, log.log.log_end_offset) == (5, 5)
    assert log.bases == [5]


def test_segments_without_timestamps_go_by_the_age_of_their_file(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(retention_ms=1000))
    log.append(b"a", timestamp=-1)
    modified_ms = log.log.segments.active.modified_ms
    assert log.log.delete_old_segments(modified_ms + 1000) == 0
    assert log.log.delete_old_segments(modified_ms + 1001) == 1


@pytest.mark.parametrize(("kept", "first"), [(5, 0), (4, 1), (3.5, 1), (1, 4), (0.5, 4), (0, 5)])
def test_the_log_never_falls_below_its_size_limit(tmp_path: Path, kept: float, first: int) -> None:
    log = log_of_days(tmp_path, 5, retention_ms=-1)
    size = log.log.size_bytes // 5
    log.log.update_config(LogConfig(retention_ms=-1, retention_bytes=int(size * kept), segment_ms=1))
    assert log.log.delete_old_segments(NOW_MS) == first
    assert log.log.log_start_offset == first
    assert log.log.size_bytes >= size * kept


def test_nothing_goes_above_the_high_watermark(tmp_path: Path) -> None:
    log = log_of_days(tmp_path, 5, retention_ms=0)
    log.log.set_high_watermark(2)
    assert log.log.delete_old_segments(NOW_MS + DAY_MS) == 2
    log.log.advance_high_watermark(5)
    assert log.log.delete_old_segments(NOW_MS + DAY_MS) == 3


def test_an_old_record_behind_a_young_one_stays(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_bytes=1200, retention_ms=DAY_MS))
    for age_ms in (2 * DAY_MS, 0, 2 * DAY_MS):
        log.append(b"x" * 1000, timestamp=NOW_MS - age_ms)
    assert log.log.delete_old_segments(NOW_MS) == 1
    assert log.bases == [1, 2]


@pytest.mark.parametrize(("policy", "deleted"), [({COMPACT}, 0), ({COMPACT, DELETE}, 5), ({DELETE}, 5)])
def test_a_log_that_is_only_compacted_keeps_all(tmp_path: Path, policy: set[str], deleted: int) -> None:
    log = log_of_days(tmp_path, 5, cleanup_policy=frozenset(policy), retention_ms=0)
    assert log.log.delete_old_segments(NOW_MS + DAY_MS) == deleted


def test_deleted_records_go_whatever_the_policy(tmp_path: Path) -> None:
    log = log_of_days(tmp_path, 5, cleanup_policy=frozenset({COMPACT}), retention_ms=0)
    log.log.delete_records_before(3)
    assert log.log.delete_old_segments(NOW_MS) == 3


def test_files_go_after_the_delay(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_bytes=1200, retention_bytes=0, file_delete_delay_ms=60_000))
    for _ in range(3):
        log.append(b"x" * 1000)
    assert log.log.delete_old_segments(NOW_MS) == 3
    assert log.names(".log") == [f"{3:020d}.log"]
    marked = log.names(".deleted")
    assert f"{0:020d}.log.deleted" in marked
    assert f"{1:020d}.snapshot.deleted" in marked
    assert log.delete_files(NOW_MS + 59_999) == 0
    assert log.names(".deleted") == marked
    assert log.delete_files(NOW_MS + 60_000) == len(marked)
    assert log.names(".deleted") == []


def test_a_start_deletes_what_was_marked(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_bytes=1200, retention_bytes=0))
    for _ in range(3):
        log.append(b"x" * 1000)
    log.log.delete_old_segments(NOW_MS)
    log.reopen()
    assert log.names(".deleted") == []
    assert log.log.log_start_offset == 3


def test_retention_survives_a_restart(tmp_path: Path) -> None:
    log = log_of_days(tmp_path, 5, retention_ms=3 * DAY_MS)
    log.log.delete_old_segments(NOW_MS)
    log.crash()
    assert log.log.log_start_offset == 1
    assert log.log.delete_old_segments(NOW_MS + 1) == 1
