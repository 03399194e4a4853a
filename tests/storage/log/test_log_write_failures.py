"""What a log keeps of appends that the disk or the file system interrupted."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.storage import disk
from kcli.storage.log.segment_indexes import SegmentIndexes
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of


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
    # The entries there now must not be undone.
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
