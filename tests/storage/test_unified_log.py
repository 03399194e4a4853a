"""A log from append to close."""

from __future__ import annotations

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.compression import Codec
from kcli.protocol.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.message_set import MessageSetBuilder
from kcli.protocol.record_batch import RecordBatch, iter_batches
from kcli.protocol.record_batch_header import set_base_offset_and_epoch
from kcli.storage import disk
from kcli.storage.flush_plan import commit_flush, flush, plan_due_flush, plan_flush
from kcli.storage.log_config import LOG_APPEND_TIME, LogConfig
from kcli.storage.log_read import Isolation
from kcli.storage.log_truncation import truncate_fully_and_start_at, truncate_to
from kcli.storage.producer_append import Origin
from kcli.storage.retention import delete_old_segments
from kcli.storage.segment_indexes import SegmentIndexes
from kcli.storage.transaction_index import AbortedTransaction
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def marker(control_type: ControlRecordType, producer_id: int = 7) -> bytearray:
    return bytearray(
        end_txn_batch(
            EndTxnMarker(control_type, 0), timestamp=NOW_MS, producer_id=producer_id, producer_epoch=0
        )
    )


# --- append


def test_an_append_tells_where_it_went(log: LogHarness) -> None:
    log.append(b"a")
    info = log.append(b"b", b"c", timestamp=NOW_MS - 5, step_ms=1)
    assert (info.first_offset, info.last_offset, info.records_count) == (1, 2, 2)
    assert (info.max_timestamp, info.log_append_time) == (NOW_MS - 4, -1)
    assert (info.log_start_offset, info.duplicate) == (0, False)
    assert info.size == len(batch_of(b"b", b"c"))
    assert log.values() == [b"a", b"b", b"c"]
    assert [record.offset for record in log.records()] == [0, 1, 2]


def test_nothing_to_append_is_no_append(log: LogHarness) -> None:
    info = log.append_batch(bytearray())
    assert (info.first_offset, info.last_offset, info.records_count, info.size) == (-1, -1, 0, 0)
    assert log.log.log_end_offset == 0


def test_batches_carry_the_leader_epoch(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=3)
    log.append(b"b", leader_epoch=3)
    log.append(b"c", leader_epoch=8)
    assert [batch.partition_leader_epoch for batch in log.batches()] == [3, 3, 8]
    assert log.log.leader_epochs.entries() == [(3, 0), (8, 2)]
    assert log.log.end_offset_for_epoch(5) == (3, 2)
    assert log.log.end_offset_for_epoch(8) == (8, 3)


def test_append_time_is_told(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, message_timestamp_type=LOG_APPEND_TIME))
    info = log.append_batch(batch_of(b"a", timestamp=3), now_ms=NOW_MS + 7)
    assert (info.log_append_time, info.max_timestamp) == (NOW_MS + 7, NOW_MS + 7)
    assert log.records()[0].timestamp == NOW_MS + 7


def test_records_above_the_segment_size_are_refused(log: LogHarness) -> None:
    with pytest.raises(KafkaError) as refused:
        log.append(b"x" * 2000)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log.log_end_offset == 0
    assert log.path(0).stat().st_size == 0


def test_a_retried_batch_is_written_once(log: LogHarness) -> None:
    for sequence in range(0, 14, 2):
        log.append(b"a", b"b", producer=(7, 0, sequence))
    size = log.log.size_bytes
    info = log.append(b"a", b"b", producer=(7, 0, 6))
    assert (info.first_offset, info.last_offset, info.duplicate) == (6, 7, True)
    assert log.log.size_bytes == size
    with pytest.raises(KafkaError) as refused:
        log.append(b"a", b"b", producer=(7, 0, 2))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_refused_batch_leaves_no_trace(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 3, 0))
    before = (log.log.size_bytes, log.log.leader_epochs.entries(), repr(log.log.active_producers()))
    with pytest.raises(KafkaError):
        log.append(b"b", producer=(7, 2, 1), leader_epoch=9)
    assert (log.log.size_bytes, log.log.leader_epochs.entries(), repr(log.log.active_producers())) == before


def test_the_buffer_is_free_after_an_append(log: LogHarness) -> None:
    batch = batch_of(b"a")
    log.append_batch(batch)
    batch[:] = bytes(len(batch))
    batch.clear()
    assert log.values() == [b"a"]


def test_older_formats_are_stored_as_batches(log: LogHarness) -> None:
    log.append(b"before")
    builder = MessageSetBuilder(0, codec=Codec.GZIP)
    builder.append(-1, b"k", b"old")
    info = log.append_batch(bytearray(builder.build()))
    assert (info.first_offset, info.last_offset, info.max_timestamp) == (1, 1, -1)
    assert log.values() == [b"before", b"old"]


# --- follower


def leaders_bytes(log: LogHarness, offset: int = 0) -> bytes:
    read = log.log.read(offset, 1 << 20, isolation=Isolation.LOG_END)
    assert read.file_slice is not None
    return read.file_slice.read()


def test_a_follower_takes_what_the_leader_has(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = LogHarness(tmp_path / "a"), LogHarness(tmp_path / "b")
    leader.append(b"a", b"b", producer=(7, 0, 0), leader_epoch=1)
    leader.append(b"c", producer=(7, 0, 2), leader_epoch=2)
    info = follower.log.append_as_follower(leaders_bytes(leader), now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset) == (0, 2)
    assert follower.path(0).read_bytes() == leader.path(0).read_bytes()
    assert follower.log.leader_epochs.entries() == [(1, 0), (2, 2)]
    assert repr(follower.log.active_producers()) == repr(leader.log.active_producers())


def test_a_follower_accepts_holes_but_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = LogHarness(tmp_path / "a"), LogHarness(tmp_path / "b")
    leader.fill(3)
    first, second, third = (batch.to_bytes() for batch in leader.batches())
    follower.log.append_as_follower(first + third + second[:50], now_ms=NOW_MS)
    assert follower.log.log_end_offset == 3
    for again in (second, third):
        with pytest.raises(KafkaError) as refused:
            follower.log.append_as_follower(again, now_ms=NOW_MS)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_checks_checksums(log: LogHarness) -> None:
    batch = batch_of(b"a")
    batch[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        log.log.append_as_follower(batch, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_stores_older_formats(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=4)
    builder = MessageSetBuilder(1, base_offset=1)
    builder.append(NOW_MS, b"k", b"old")
    log.log.append_as_follower(builder.build(), now_ms=NOW_MS)
    assert log.log.log_end_offset == 2
    assert log.log.leader_epochs.entries() == []


# --- roll


def test_a_full_segment_is_followed_by_another(log: LogHarness) -> None:
    log.fill(40)
    assert len(log.bases) > 2
    assert all(segment.size <= SMALL.segment_bytes for segment in log.log.segments)
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(40)]
    assert log.names(".snapshot") == [f"{base:020d}.snapshot" for base in log.bases[1:]]


def test_old_segments_are_rolled_by_record_time(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_ms=1000))
    log.append(b"a", timestamp=NOW_MS)
    log.append(b"b", timestamp=NOW_MS + 1000)
    assert log.bases == [0]
    log.append(b"c", timestamp=NOW_MS + 1001)
    assert log.bases == [0, 2]


def test_segments_without_timestamps_are_rolled_by_the_clock(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_ms=1000))
    log.append(b"a", timestamp=-1)
    log.append_batch(batch_of(b"b", timestamp=-1), now_ms=NOW_MS + 1000)
    assert log.bases == [0]
    log.append_batch(batch_of(b"c", timestamp=-1), now_ms=NOW_MS + 1001)
    assert log.bases == [0, 2]


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_index_bytes=40, index_interval_bytes=100))
    log.fill(30)
    assert len(log.bases) > 2
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(30)]


def test_offsets_too_far_from_the_base_roll(log: LogHarness) -> None:
    log.append(b"a")
    far = batch_of(b"b")
    far[0:8] = (2**31).to_bytes(8, "big")
    log.log.append_as_follower(far, now_ms=NOW_MS)
    assert log.bases == [0, 2**31]
    assert log.log.log_end_offset == 2**31 + 1


def test_an_empty_segment_is_rolled_onto_itself(log: LogHarness) -> None:
    log.log.roll(now_ms=NOW_MS)
    log.log.roll(now_ms=NOW_MS)
    assert log.bases == [0]
    log.append(b"a")
    assert log.values() == [b"a"]


def test_a_file_in_the_way_of_a_segment_goes(log: LogHarness) -> None:
    log.append(b"a")
    log.path(1, ".index").write_bytes(b"leftover")
    log.log.roll(now_ms=NOW_MS)
    log.append(b"b")
    assert log.values() == [b"a", b"b"]
    assert any("in the way" in report for report in log.reports)


def test_index_files_are_complete_once_rolled(log: LogHarness) -> None:
    log.fill(40)
    segment = log.log.segments.first
    assert log.path(0, ".index").stat().st_size == 8 * len(segment.indexes.offsets) > 0
    assert log.path(0, ".timeindex").stat().st_size == 12


# --- read


def test_the_end_of_the_log_is_readable_but_empty(log: LogHarness) -> None:
    log.fill(3)
    read = log.log.read(3, 100, isolation=Isolation.HIGH_WATERMARK)
    assert read.file_slice is None
    assert (read.log_start_offset, read.high_watermark, read.last_stable_offset, read.log_end_offset) == (
        0,
        3,
        3,
        3,
    )
    assert read.aborted is None


@pytest.mark.parametrize("offset", [-1, 4, 10**12])
def test_offsets_outside_the_log_are_out_of_range(log: LogHarness, offset: int) -> None:
    log.fill(3)
    with pytest.raises(KafkaError) as refused:
        log.log.read(offset, 100, isolation=Isolation.LOG_END)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_begins_with_the_batch_of_the_offset(log: LogHarness) -> None:
    log.append(b"a", b"b", b"c")
    log.append(b"d")
    read = log.log.read(2, 10_000, isolation=Isolation.LOG_END)
    assert read.file_slice is not None
    batches = list(iter_batches(read.file_slice.read()))
    assert [batch.base_offset for batch in batches] == [0, 3]
    assert read.first_batch_size == batches[0].size_in_bytes


def test_a_small_limit_is_kept_or_gives_one_batch(log: LogHarness) -> None:
    log.fill(3)
    one = log.log.read(1, 5, isolation=Isolation.LOG_END)
    assert one.file_slice is not None
    assert one.file_slice.size == one.first_batch_size
    part = log.log.read(1, 5, isolation=Isolation.LOG_END, min_one=False)
    assert part.file_slice is not None
    assert part.file_slice.size == 5
    assert log.log.read(1, 0, isolation=Isolation.LOG_END, min_one=False).file_slice is None


def test_a_slice_stays_within_a_segment(log: LogHarness) -> None:
    log.fill(40)
    read = log.log.read(0, 1 << 20, isolation=Isolation.LOG_END)
    assert read.file_slice is not None
    assert read.file_slice.size == log.log.segments.first.size


def test_consumers_do_not_see_past_the_high_watermark(log: LogHarness) -> None:
    for number in range(30):
        log.log.append_as_leader(batch_of(b"%d" % number * 30), leader_epoch=0, now_ms=NOW_MS)
    assert log.log.read(0, 1000, isolation=Isolation.HIGH_WATERMARK).file_slice is None
    for high_watermark in range(1, 31):
        assert log.log.advance_high_watermark(high_watermark)
        seen: list[int] = []
        while len(seen) < high_watermark:
            part = log.log.read(len(seen), 1 << 20, isolation=Isolation.HIGH_WATERMARK).file_slice
            assert part is not None
            seen += [batch.base_offset for batch in iter_batches(part.read())]
        assert seen == list(range(high_watermark))
        assert log.log.read(high_watermark, 9, isolation=Isolation.HIGH_WATERMARK).file_slice is None


def test_the_high_watermark_moves_up_within_the_log(log: LogHarness) -> None:
    log.fill(3)
    assert not log.log.advance_high_watermark(2)
    assert not log.log.advance_high_watermark(99)
    assert log.log.high_watermark == 3
    assert log.log.set_high_watermark(99) == 3
    assert log.log.set_high_watermark(-5) == 0
    assert log.log.advance_high_watermark(2)
    assert log.log.high_watermark == 2


def test_slices_survive_roll_and_deletion(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, retention_bytes=0))
    log.fill(5)
    part = log.log.read(0, 1 << 20, isolation=Isolation.LOG_END).file_slice
    assert part is not None
    before = part.read()
    log.fill(50)
    assert delete_old_segments(log.log, NOW_MS) > 1
    assert log.delete_files(NOW_MS) > 1
    assert not log.path(0).exists()
    assert part.read() == before


# --- transactions


def test_readers_of_committed_records_stop_at_open_transactions(log: LogHarness) -> None:
    log.append(b"a")
    log.append(b"b", producer=(7, 0, 0), is_transactional=True)
    log.append(b"c")
    assert log.log.last_stable_offset == 1
    part = log.log.read(0, 1 << 20, isolation=Isolation.TXN_COMMITTED)
    assert part.file_slice is not None
    assert [batch.base_offset for batch in iter_batches(part.file_slice.read())] == [0]
    assert part.aborted == []
    assert log.log.read(1, 1 << 20, isolation=Isolation.TXN_COMMITTED).file_slice is None
    log.append_batch(marker(COMMIT), origin=Origin.COORDINATOR)
    assert log.log.last_stable_offset == 4


def test_aborted_transactions_are_told_to_readers_of_committed_records(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 0, 0), is_transactional=True)
    log.append(b"b", producer=(8, 0, 0), is_transactional=True)
    log.append_batch(marker(ABORT, 7), origin=Origin.COORDINATOR)
    log.append_batch(marker(COMMIT, 8), origin=Origin.COORDINATOR)
    log.append(b"c", producer=(7, 0, 1), is_transactional=True)
    log.append_batch(marker(ABORT, 7), origin=Origin.COORDINATOR)
    everything = log.log.read(0, 1 << 20, isolation=Isolation.TXN_COMMITTED)
    assert everything.aborted == [AbortedTransaction(7, 0, 2, 1), AbortedTransaction(7, 4, 5, 6)]
    assert log.log.read(3, 1 << 20, isolation=Isolation.TXN_COMMITTED).aborted == [everything.aborted[1]]
    assert log.path(0, ".txnindex").stat().st_size == 68
    log.crash()
    assert log.log.read(0, 1 << 20, isolation=Isolation.TXN_COMMITTED).aborted == everything.aborted
    assert log.path(0, ".txnindex").stat().st_size == 68


def test_aborts_in_later_segments_are_found(log: LogHarness) -> None:
    log.append(b"a" * 100, producer=(7, 0, 0), is_transactional=True)
    log.fill(40)
    log.append_batch(marker(ABORT), origin=Origin.COORDINATOR)
    assert len(log.bases) > 2
    end = log.log.log_end_offset
    for offset in (0, 1, end - 1):
        read = log.log.read(offset, 500, isolation=Isolation.TXN_COMMITTED)
        assert read.aborted == [AbortedTransaction(7, 0, end - 1, end)]


# --- truncate


@pytest.mark.parametrize("offset", [0, 1, 12, 24, 25, 26, 39])
def test_truncation_leaves_what_is_below(log: LogHarness, offset: int) -> None:
    log.fill(40)
    assert truncate_to(log.log, offset, now_ms=NOW_MS)
    assert log.log.log_end_offset == log.log.high_watermark == offset
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(offset)]
    log.fill(5)
    assert log.values(offset) == [b"%d-" % n + b"x" * 50 for n in range(offset, offset + 5)]
    log.reopen()
    assert len(log.values()) == offset + 5


def test_truncation_to_the_end_and_beyond_changes_nothing(log: LogHarness) -> None:
    log.fill(3)
    for offset in (3, 4):
        assert not truncate_to(log.log, offset, now_ms=NOW_MS)
    assert len(log.values()) == 3
    with pytest.raises(ValueError, match="cannot truncate"):
        truncate_to(log.log, -1, now_ms=NOW_MS)


def test_truncation_takes_whole_batches(log: LogHarness) -> None:
    log.append(b"a")
    log.append(b"b", b"c", b"d")
    size = log.batches()[0].size_in_bytes
    assert truncate_to(log.log, 2, now_ms=NOW_MS)
    assert log.log.size_bytes == size
    assert log.log.log_end_offset == 2
    log.reopen()
    assert log.log.log_end_offset == 1
    assert log.values() == [b"a"]


def test_truncation_takes_epochs_and_producers_back(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 0, 0), leader_epoch=1)
    log.append(b"b", producer=(7, 0, 1), leader_epoch=2)
    log.append(b"c", producer=(8, 0, 0), leader_epoch=3)
    truncate_to(log.log, 1, now_ms=NOW_MS)
    assert log.log.leader_epochs.entries() == [(1, 0)]
    assert [(entry.producer_id, entry.last_sequence) for entry in log.log.active_producers()] == [(7, 0)]
    log.append(b"b", producer=(7, 0, 1), leader_epoch=4)


def test_truncation_below_the_first_segment_starts_over(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, retention_bytes=0))
    log.fill(40)
    delete_old_segments(log.log, NOW_MS)
    assert log.log.log_start_offset == 40
    truncate_to(log.log, 3, now_ms=NOW_MS)
    assert (log.log.log_start_offset, log.log.log_end_offset) == (3, 3)
    log.fill(1)
    assert log.values() == [b"3-" + b"x" * 50]


def test_a_log_can_be_emptied_and_continued_elsewhere(log: LogHarness) -> None:
    log.fill(40)
    truncate_fully_and_start_at(log.log, 1000, now_ms=NOW_MS)
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
    assert delete_old_segments(log.log, NOW_MS) > 0
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
    delete_old_segments(log.log, NOW_MS)
    assert log.values() == []
    log.reopen()
    assert (log.log.log_start_offset, log.log.log_end_offset) == (40, 40)
    log.fill(1)
    assert log.values() == [b"40-" + b"x" * 50]


# --- flush


def test_a_flush_raises_the_recovery_point(log: LogHarness) -> None:
    log.fill(10)
    assert log.log.recovery_point == 0
    flush(log.log, now_ms=NOW_MS)
    assert log.log.recovery_point == 10
    assert plan_flush(log.log) is None


def test_appends_during_a_flush_are_not_covered(log: LogHarness) -> None:
    log.fill(10)
    plan = plan_flush(log.log)
    assert plan is not None
    log.fill(30)
    plan.run()
    commit_flush(log.log, plan, now_ms=NOW_MS)
    assert log.log.recovery_point == 10


def test_a_truncation_during_a_flush_voids_it(log: LogHarness) -> None:
    log.fill(40)
    plan = plan_flush(log.log)
    assert plan is not None
    truncate_to(log.log, 3, now_ms=NOW_MS)
    log.fill(40)
    log.delete_files(NOW_MS)
    plan.run()
    commit_flush(log.log, plan, now_ms=NOW_MS)
    assert log.log.recovery_point == 0


def test_a_roll_asks_for_a_flush_of_what_was_rolled(log: LogHarness) -> None:
    log.fill(1)
    assert plan_due_flush(log.log, NOW_MS) is None
    log.fill(40)
    plan = plan_due_flush(log.log, NOW_MS)
    assert plan is not None
    plan.run()
    commit_flush(log.log, plan, now_ms=NOW_MS)
    assert log.log.recovery_point == log.bases[-1]
    assert plan_due_flush(log.log, NOW_MS) is None


def test_a_plan_that_was_not_run_is_made_again(log: LogHarness) -> None:
    log.append(b"v" * 1500, producer=(7, 0, 0))
    log.append(b"v" * 1500, producer=(7, 0, 1))
    dropped = plan_due_flush(log.log, NOW_MS)
    again = plan_due_flush(log.log, NOW_MS)
    assert dropped is not None
    assert again is not None
    assert again.paths == dropped.paths
    assert {os.path.basename(path) for path in again.paths} >= {
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    again.run()
    commit_flush(log.log, again, now_ms=NOW_MS)
    later = plan_flush(log.log)
    assert later is not None
    assert not [path for path in later.paths if path.endswith((".snapshot", "leader-epoch-checkpoint"))]


def test_what_changes_during_a_flush_is_for_the_next(log: LogHarness) -> None:
    log.append(b"v")
    plan = plan_flush(log.log)
    assert plan is not None
    log.append(b"v", leader_epoch=1)
    log.log.roll(now_ms=NOW_MS)
    commit_flush(log.log, plan, now_ms=NOW_MS)
    later = plan_due_flush(log.log, NOW_MS)
    assert later is not None
    assert [path for path in later.paths if path.endswith("leader-epoch-checkpoint")]


@pytest.mark.parametrize(
    ("config", "now_ms", "due"),
    [
        ({"flush_messages": 3}, NOW_MS, True),
        ({"flush_messages": 4}, NOW_MS, False),
        ({"flush_ms": 100}, NOW_MS + 100, True),
        ({"flush_ms": 100}, NOW_MS + 99, False),
    ],
)
def test_flushes_are_due_by_count_and_time(
    tmp_path: Path, config: dict[str, int], now_ms: int, due: bool
) -> None:
    log = LogHarness(tmp_path, replace(SMALL, **config))  # type: ignore[arg-type]
    log.fill(3)
    assert log.log.local.is_flush_due(now_ms) == due
    plan = plan_due_flush(log.log, now_ms)
    assert (plan is not None) == due
    flush(log.log, now_ms=now_ms)
    assert not log.log.local.is_flush_due(now_ms)


# --- failures


def test_a_full_disk_loses_only_the_batch_at_hand(log: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    log.fill(3)
    write = os.pwrite

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        write(descriptor, bytes(data[:20]), position)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwrite", pwrite)
        with pytest.raises(KafkaError) as refused:
            log.append(b"lost", producer=(7, 0, 0))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(log.failures) == 1
    assert "No space left" in log.failures[0]
    assert log.path(0).stat().st_size == log.log.size_bytes
    assert log.log.log_end_offset == 3
    assert log.log.active_producers() == []
    for use in (log.values, lambda: log.fill(1)):
        with pytest.raises(KafkaError) as refused:
            use()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.crash()
    assert len(log.values()) == 3
    log.fill(1)
    assert len(log.values()) == 4


def test_an_index_that_cannot_be_read_leaves_nothing_of_the_batch(
    log: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(3)
    size = log.log.size_bytes
    lost = bytearray()
    for offset in (3, 4):
        batch = batch_of(b"lost")
        set_base_offset_and_epoch(batch, 0, offset, 0)
        lost += batch

    def load_once(indexes: SegmentIndexes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentIndexes, "load_once", load_once)
        with pytest.raises(KafkaError) as refused:
            log.log.append_as_follower(lost, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.path(0).stat().st_size == size
    log.crash()
    assert len(log.values()) == 3


def test_what_was_written_ahead_in_another_epoch_is_written_again(log: LogHarness) -> None:
    log.fill(1)
    records = batch_of(b"v" * 100)
    validated = log.log.validator.validate(records, now_ms=NOW_MS)
    written = log.log.write_ahead(validated, leader_epoch=0, now_ms=NOW_MS)
    assert written is not None
    written.run()
    info = log.log.append(validated, leader_epoch=7, now_ms=NOW_MS, written=written)
    assert info.first_offset == 1
    # What is there now is not to be undone.
    assert written.served
    assert [(each.base_offset, each.partition_leader_epoch) for each in log.batches()] == [(0, 0), (1, 7)]


def test_what_was_written_ahead_is_not_written_again(
    log: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(1)
    validated = log.log.validator.validate(batch_of(b"v" * 100), now_ms=NOW_MS)
    written = log.log.write_ahead(validated, leader_epoch=0, now_ms=NOW_MS)
    assert written is not None
    written.run()
    with monkeypatch.context() as patch:
        patch.delattr(disk, "pwrite")
        log.log.append(validated, leader_epoch=0, now_ms=NOW_MS, written=written)
    assert written.served
    assert [each.base_offset for each in log.batches()] == [0, 1]


def test_a_write_that_the_kernel_cuts_short_leaves_whole_batches(log: LogHarness) -> None:
    log.fill(3)
    size = log.log.size_bytes
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, limits[1]))
    try:
        with pytest.raises(KafkaError) as refused:
            log.append(b"lost" * 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert "File too large" in log.failures[0]
    assert log.path(0).stat().st_size == size
    log.crash()
    assert len(log.values()) == 3


@pytest.mark.parametrize("sequence", [0, 5, 2**31 - 3, 2**31 - 1])
def test_sequences_wrap_and_retries_are_known_around_it(log: LogHarness, sequence: int) -> None:
    following = sequence
    for _ in range(4):
        log.append(b"a", b"b", producer=(7, 0, following))
        following = (following + 2) & 0x7FFFFFFF
    assert log.append(b"a", b"b", producer=(7, 0, sequence)).first_offset == 0
    for restart in (log.crash, log.reopen):
        restart()
        assert log.append(b"a", b"b", producer=(7, 0, (following - 2) & 0x7FFFFFFF)).duplicate
        log.append(b"a", b"b", producer=(7, 0, following))
        following = (following + 2) & 0x7FFFFFFF


def test_reading_a_bad_disk_is_a_storage_error(log: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    log.fill(10)

    def pread(descriptor: int, count: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(KafkaError) as refused:
        log.log.read(0, 100, isolation=Isolation.LOG_END)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(log.failures) == 1


def test_damaged_heads_are_a_corrupt_message(log: LogHarness) -> None:
    log.fill(3)
    position = log.log.segments.active.find(1)
    assert position is not None
    log.corrupt(0, position.position + 16)
    with pytest.raises(KafkaError) as refused:
        log.log.read(1, 100, isolation=Isolation.LOG_END)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.failures == []


def test_configurations_change_on_the_fly(log: LogHarness) -> None:
    log.append(b"a" * 500)
    log.log.update_config(replace(SMALL, max_message_bytes=100))
    with pytest.raises(KafkaError) as refused:
        log.append(b"a" * 500)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_renamed_directory_goes_on(log: LogHarness) -> None:
    log.fill(40)
    log.log.rename_directory("orders-0.renamed")
    log.directory = log.directory.parent / "orders-0.renamed"
    log.fill(40)
    assert len(log.values()) == 80
    log.reopen()
    assert len(log.values()) == 80


def test_every_batch_read_is_a_record_batch(log: LogHarness) -> None:
    log.fill(2)
    assert all(isinstance(batch, RecordBatch) for batch in log.batches())
