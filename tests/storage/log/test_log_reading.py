"""Reads of a log: slices, isolation, transactions."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.storage.index.transaction_index import AbortedTransaction
from kcli.storage.log.file_records import FileRecords
from kcli.storage.log.log_read import Isolation
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

ABORT, COMMIT = ControlRecordType.ABORT, ControlRecordType.COMMIT


def marker(control_type: ControlRecordType, producer_id: int = 7) -> bytearray:
    return bytearray(
        end_txn_batch(
            EndTxnMarker(control_type, 0), timestamp=NOW_MS, producer_id=producer_id, producer_epoch=0
        )
    )


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


LARGE, LITTLE = b"l" * 9000, b"s" * 150
MIXED = [[LARGE], [LITTLE], [LARGE, LARGE], [LITTLE, LITTLE], [LITTLE], [LARGE], [LARGE, LITTLE], [LITTLE]]


def log_of_mixed_batches(directory: Path, index_interval_bytes: int) -> tuple[LogHarness, list[int]]:
    """Return a log with batches smaller and larger than one read, and the base offset of each."""
    config = replace(SMALL, segment_bytes=1 << 20, index_interval_bytes=index_interval_bytes)
    log = LogHarness(directory, config)
    return log, [log.append(*values).first_offset for values in MIXED]


@pytest.mark.parametrize("interval", [0, 200, 10_000])
def test_every_offset_is_found_among_batches_of_any_size(tmp_path: Path, interval: int) -> None:
    log, bases = log_of_mixed_batches(tmp_path, interval)
    for _ in ("as it was written", "as it was loaded"):
        assert found_batches(log) == [base for base, values in zip(bases, MIXED, strict=True) for _ in values]
        log.reopen()


def found_batches(log: LogHarness) -> list[int]:
    """Return the base offset of the batch found for each offset."""
    found = []
    segment = log.log.segments.active
    for offset in range(log.log.log_end_offset):
        entry = segment.find(offset)
        assert entry is not None
        (batch,) = iter_batches(segment.records.read(entry.position, entry.size))
        assert (batch.base_offset, batch.last_offset) == (entry.base_offset, entry.last_offset)
        found.append(entry.base_offset)
    return found


@pytest.mark.parametrize("field", ["offset", "position"])
@pytest.mark.parametrize("entry", range(4))
@pytest.mark.parametrize("change", [-1, 1, 61])
def test_an_index_that_is_wrong_misleads_nobody(tmp_path: Path, entry: int, field: str, change: int) -> None:
    log, bases = log_of_mixed_batches(tmp_path, 200)
    log.stop()
    path, at = log.path(0, ".index"), entry * 8 + (4 if field == "position" else 0)
    data = bytearray(path.read_bytes())
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + change).to_bytes(4, "big")
    path.write_bytes(data)
    log.start()
    assert found_batches(log) == [base for base, values in zip(bases, MIXED, strict=True) for _ in values]


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (16, b"\x01"),
        (8, (48).to_bytes(4, "big")),
        (8, (1 << 20).to_bytes(4, "big")),
        (23, (5).to_bytes(4, "big")),
        (0, (1).to_bytes(8, "big")),
    ],
    ids=["magic 1", "too small", "past the file", "another last offset", "begins behind"],
)
def test_what_an_entry_points_to_is_checked(tmp_path: Path, at: int, value: bytes) -> None:
    log, _ = log_of_mixed_batches(tmp_path, 0)
    records = log.log.segments.active.records
    assert records.batch_at(0, 0, last_offset=0) is not None
    with open(records.path, "r+b") as file:
        file.seek(at)
        file.write(value)
    assert records.batch_at(0, 0, last_offset=0) is None


def test_no_batch_begins_near_the_end(tmp_path: Path) -> None:
    log, _ = log_of_mixed_batches(tmp_path, 0)
    records = log.log.segments.active.records
    last = log.log.log_end_offset - 1
    for back in range(60):
        assert records.batch_at(records.size - back, last, last_offset=last) is None


def test_a_batch_behind_a_large_one_takes_one_small_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, bases = log_of_mixed_batches(tmp_path, 0)
    counts: list[int] = []
    read = FileRecords.read

    def counting(records: FileRecords, position: int, count: int) -> bytes:
        counts.append(count)
        return read(records, position, count)

    monkeypatch.setattr(FileRecords, "read", counting)
    entry = log.log.segments.active.find(bases[6])
    assert entry is not None
    assert (entry.base_offset, counts) == (bases[6], [27])


def test_an_index_that_points_before_a_batch_misleads_nobody(tmp_path: Path) -> None:
    """Four zeros there turn the batch's head into that of an older entry, at an offset the index allows."""
    log = LogHarness(tmp_path, replace(SMALL, segment_bytes=1 << 20))
    for _ in range(9):
        log.append(*[b"value"] * 10, bytes(150))
    log.stop()
    path = log.path(0, ".index")
    data = bytearray(path.read_bytes())
    data[12:16] = (int.from_bytes(data[12:16], "big") - 4).to_bytes(4, "big")
    path.write_bytes(data)
    log.start()
    segment = log.log.segments.active
    found = [segment.find(offset) for offset in range(log.log.log_end_offset)]
    assert [None if entry is None else entry.base_offset // 11 for entry in found] == [
        number for number in range(9) for _ in range(11)
    ]


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
    assert log.log.delete_old_segments(NOW_MS) > 1
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
    log.append_batch(marker(COMMIT), origin=AppendOrigin.COORDINATOR)
    assert log.log.last_stable_offset == 4


def test_aborted_transactions_are_told_to_readers_of_committed_records(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 0, 0), is_transactional=True)
    log.append(b"b", producer=(8, 0, 0), is_transactional=True)
    log.append_batch(marker(ABORT, 7), origin=AppendOrigin.COORDINATOR)
    log.append_batch(marker(COMMIT, 8), origin=AppendOrigin.COORDINATOR)
    log.append(b"c", producer=(7, 0, 1), is_transactional=True)
    log.append_batch(marker(ABORT, 7), origin=AppendOrigin.COORDINATOR)
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
    log.append_batch(marker(ABORT), origin=AppendOrigin.COORDINATOR)
    assert len(log.bases) > 2
    end = log.log.log_end_offset
    for offset in (0, 1, end - 1):
        read = log.log.read(offset, 500, isolation=Isolation.TXN_COMMITTED)
        assert read.aborted == [AbortedTransaction(7, 0, end - 1, end)]


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


def test_every_batch_read_is_a_record_batch(log: LogHarness) -> None:
    log.fill(2)
    assert all(isinstance(batch, RecordBatch) for batch in log.batches())
