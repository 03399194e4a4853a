"""Markers that a leader writes to its log: their bytes, their checks, and what they change."""

from __future__ import annotations

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.control_records import (
    ControlRecordType,
    EndTxnMarker,
    TransactionMarker,
    parse_end_txn_marker,
)
from kcli.storage.index.transaction_index import AbortedTransaction
from kcli.storage.log.log_read import Isolation
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

PRODUCER = 7


def begin(log: LogHarness, *, epoch: int = 0, sequence: int = 0, producer: int = PRODUCER) -> None:
    log.append(b"a", b"b", producer=(producer, epoch, sequence), is_transactional=True)


def end(log: LogHarness, *, is_commit: bool, epoch: int = 0, version: int = 0, coordinator: int = 5) -> int:
    marker = TransactionMarker(PRODUCER, epoch, coordinator, is_commit, version)
    info = log.log.append_marker(marker, leader_epoch=3, now_ms=NOW_MS)
    log.log.advance_high_watermark_to_end()
    return info.first_offset


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_a_control_batch_of_78_bytes(log: LogHarness, is_commit: bool) -> None:
    begin(log)
    assert end(log, is_commit=is_commit) == 2
    marker = log.batches(2)[0]
    assert marker.size_in_bytes == 78
    assert (marker.attributes, marker.base_sequence, marker.partition_leader_epoch) == (0x30, -1, 3)
    assert (marker.producer_id, marker.producer_epoch, marker.max_timestamp) == (PRODUCER, 0, NOW_MS)
    (record,) = marker.records()
    assert record.key == bytes([0, 0, 0, is_commit])
    assert record.value == bytes([0, 0, 0, 0, 0, 5])
    kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
    assert parse_end_txn_marker(record) == EndTxnMarker(kind, 5)


def test_the_last_stable_offset_follows_the_end_of_the_transaction(log: LogHarness) -> None:
    log.append(b"plain")
    begin(log)
    log.append(b"plain")
    assert log.log.last_stable_offset == 1
    assert end(log, is_commit=False) == 4
    assert log.log.last_stable_offset == 5
    read = log.log.read(0, 1000, isolation=Isolation.TXN_COMMITTED)
    assert read.aborted == [AbortedTransaction(PRODUCER, 1, 4, 5)]
    log.reopen()
    assert log.log.read(0, 1000, isolation=Isolation.TXN_COMMITTED).aborted == read.aborted


def test_the_index_has_the_last_stable_offset_of_other_open_transactions(log: LogHarness) -> None:
    begin(log, producer=8)
    begin(log)
    end(log, is_commit=False)
    assert log.log.last_stable_offset == 0
    log.log.append_marker(TransactionMarker(8, 0, 5, True), leader_epoch=3, now_ms=NOW_MS)
    log.log.advance_high_watermark_to_end()
    read = log.log.read(0, 1000, isolation=Isolation.TXN_COMMITTED)
    assert read.aborted == [AbortedTransaction(PRODUCER, 2, 4, 0)]


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        (TransactionMarker(PRODUCER, 1, 5, True, 2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionMarker(PRODUCER, 0, 5, True, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
        (TransactionMarker(PRODUCER, 2, 4, True, 2), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_a_refused_marker_leaves_no_record(
    log: LogHarness, marker: TransactionMarker, code: ErrorCode
) -> None:
    begin(log)
    end(log, is_commit=True, epoch=1, version=2)
    begin(log, epoch=1)
    before, size = repr(log.log.active_producers()), log.log.size_bytes
    with pytest.raises(KafkaError) as refused:
        log.log.append_marker(marker, leader_epoch=3, now_ms=NOW_MS)
    assert refused.value.code is code
    assert (repr(log.log.active_producers()), log.log.size_bytes) == (before, size)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stop", "kill"])
def test_a_restart_forgets_neither_coordinators_nor_epochs(log: LogHarness, is_clean: bool) -> None:
    begin(log)
    end(log, is_commit=True, epoch=1, version=2)
    log.reopen() if is_clean else log.crash()
    for marker, code in (
        (TransactionMarker(PRODUCER, 1, 4, True, 1), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (TransactionMarker(PRODUCER, 0, 5, True, 1), ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(KafkaError) as refused:
            log.log.append_marker(marker, leader_epoch=3, now_ms=NOW_MS)
        assert refused.value.code is code


def test_a_repeated_marker_is_written_and_ends_nothing(log: LogHarness) -> None:
    begin(log)
    assert end(log, is_commit=False, epoch=1, version=2) == 2
    assert end(log, is_commit=False, epoch=1, version=2) == 3
    aborted = log.log.read(0, 1000, isolation=Isolation.TXN_COMMITTED).aborted
    assert aborted == [AbortedTransaction(PRODUCER, 0, 2, 3)]


def test_sequences_go_on_behind_a_marker_unless_it_raised_the_epoch(log: LogHarness) -> None:
    begin(log)
    end(log, is_commit=True)
    begin(log, sequence=2)
    end(log, is_commit=True, epoch=1, version=2)
    with pytest.raises(KafkaError) as refused:
        log.append(b"c", producer=(PRODUCER, 1, 4), is_transactional=True)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    begin(log, epoch=1)


def test_a_marker_rolls_a_full_segment(log: LogHarness) -> None:
    begin(log)
    while log.log.segments.active.size + len(batch_of(b"x" * 50)) <= log.config.segment_bytes:
        log.append(b"x" * 50)
    while log.log.segments.active.size + 78 <= log.config.segment_bytes:
        log.append(b"")
    offset = end(log, is_commit=False)
    assert log.bases[-1] == offset
    assert log.path(offset, ".txnindex").exists()
    log.crash()
    assert log.log.last_stable_offset == offset + 1
