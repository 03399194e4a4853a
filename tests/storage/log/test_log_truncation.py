"""Truncation of a log at its end, and deletion of records at its start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_read import Isolation
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

# --- truncate


@pytest.mark.parametrize("offset", [0, 1, 12, 24, 25, 26, 39])
def test_truncation_leaves_what_is_below(log: LogHarness, offset: int) -> None:
    log.fill(40)
    assert log.log.truncate_to(offset, now_ms=NOW_MS)
    assert log.log.log_end_offset == log.log.high_watermark == offset
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(offset)]
    log.fill(5)
    assert log.values(offset) == [b"%d-" % n + b"x" * 50 for n in range(offset, offset + 5)]
    log.reopen()
    assert len(log.values()) == offset + 5


def test_truncation_to_the_end_and_beyond_changes_nothing(log: LogHarness) -> None:
    log.fill(3)
    for offset in (3, 4):
        assert not log.log.truncate_to(offset, now_ms=NOW_MS)
    assert len(log.values()) == 3
    with pytest.raises(ValueError, match="cannot truncate"):
        log.log.truncate_to(-1, now_ms=NOW_MS)


def test_truncation_takes_whole_batches(log: LogHarness) -> None:
    log.append(b"a")
    log.append(b"b", b"c", b"d")
    size = log.batches()[0].size_in_bytes
    assert log.log.truncate_to(2, now_ms=NOW_MS)
    assert log.log.size_bytes == size
    assert log.log.log_end_offset == 2
    log.reopen()
    assert log.log.log_end_offset == 1
    assert log.values() == [b"a"]


def test_truncation_takes_epochs_and_producers_back(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 0, 0), leader_epoch=1)
    log.append(b"b", producer=(7, 0, 1), leader_epoch=2)
    log.append(b"c", producer=(8, 0, 0), leader_epoch=3)
    log.log.truncate_to(1, now_ms=NOW_MS)
    assert log.log.leader_epochs.entries() == [(1, 0)]
    assert [(entry.producer_id, entry.last_sequence) for entry in log.log.active_producers()] == [(7, 0)]
    log.append(b"b", producer=(7, 0, 1), leader_epoch=4)


def test_truncation_below_the_first_segment_starts_over(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, retention_bytes=0))
    log.fill(40)
    log.log.delete_old_segments(NOW_MS)
    assert log.log.log_start_offset == 40
    log.log.truncate_to(3, now_ms=NOW_MS)
    assert (log.log.log_start_offset, log.log.log_end_offset) == (3, 3)
    log.fill(1)
    assert log.values() == [b"3-" + b"x" * 50]


def test_a_log_can_be_emptied_and_continued_elsewhere(log: LogHarness) -> None:
    log.fill(40)
    log.log.truncate_fully_and_start_at(1000, now_ms=NOW_MS)
    assert (log.log.log_start_offset, log.log.high_watermark, log.log.log_end_offset) == (1000, 1000, 1000)
    assert log.log.leader_epochs.entries() == []
    log.fill(2)
    assert [record.offset for record in log.records()] == [1000, 1001]
    log.reopen()
    assert [record.offset for record in log.records()] == [1000, 1001]


# --- delete records


def test_deleted_records_are_out_of_range(log: LogHarness) -> None:
    log.fill(40)
    assert log.log.delete_records_before(25) == 25
    assert log.log.delete_records_before(7) == 25
    assert log.log.log_start_offset == 25
    with pytest.raises(KafkaError):
        log.log.read(24, 100, isolation=Isolation.LOG_END)
    assert log.values()[0] == b"25-" + b"x" * 50
    segments = len(log.bases)
    assert log.log.delete_old_segments(NOW_MS) > 0
    assert len(log.bases) < segments
    assert log.bases[0] <= 25
    log.reopen()
    assert log.log.log_start_offset == 25


def test_records_above_the_high_watermark_are_not_deleted(log: LogHarness) -> None:
    log.fill(3)
    log.log.append_as_leader(batch_of(b"a"), leader_epoch=0, now_ms=NOW_MS)
    for offset in (4, -1):
        with pytest.raises(KafkaError) as refused:
            log.log.delete_records_before(offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_all_records_can_be_deleted(log: LogHarness) -> None:
    log.fill(40)
    log.log.delete_records_before(40)
    log.log.delete_old_segments(NOW_MS)
    assert log.values() == []
    log.reopen()
    assert (log.log.log_start_offset, log.log.log_end_offset) == (40, 40)
    log.fill(1)
    assert log.values() == [b"40-" + b"x" * 50]
