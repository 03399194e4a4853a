"""A shortage of descriptors or memory is no failure of a disk, and leaves every log as it was, or whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage import disk
from kcli.storage.checkpoints import LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT
from kcli.storage.dirs.offset_checkpoints import CHECKPOINTS
from kcli.storage.disk import StorageShortage
from tests.storage.dirs.node_logs import NodeLogs, fill
from tests.storage.log_harness import NOW_MS, LogHarness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN}


class Opens:
    """Stands in for the opening of files: those with the given numbers fail with an error, from 0 on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.failing: Sequence[int] = ()
        self.errno = errno.EMFILE
        self._open = disk.open_file
        monkeypatch.setattr(disk, "open_file", self)

    def __call__(self, path: str, flags: int) -> int:
        number, self.count = self.count, self.count + 1
        if number in self.failing:
            raise OSError(self.errno, os.strerror(self.errno))
        return self._open(path, flags)

    def fail_only(self, number: int) -> None:
        self.count, self.failing = 0, (number,)


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Opens:
    return Opens(monkeypatch)


@pytest.mark.parametrize("number", sorted(errno.errorcode), ids=errno.errorcode.get)
def test_the_error_decides_whether_the_directory_fails(
    log: LogHarness, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(3)

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwrite", pwrite)
        with pytest.raises(KafkaError) as refused:
            log.fill(1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert bool(log.failures) is (number not in SHORTAGES)
    assert isinstance(refused.value, StorageShortage) is (number in SHORTAGES)
    if number in SHORTAGES:
        log.fill(1)
        assert len(log.values()) == 4


def _roll(log: LogHarness) -> None:
    log.log.roll(now_ms=NOW_MS)


def _epoch(log: LogHarness) -> None:
    log.append(b"of another leader", leader_epoch=log.log.leader_epochs.latest_epoch + 1)


def _flush(log: LogHarness) -> None:
    log.log.flush(now_ms=NOW_MS)


def _read_all(log: LogHarness) -> None:
    log.values()


def _raise_start(log: LogHarness) -> None:
    log.log.delete_records_before(log.log.log_end_offset - 1)
    log.log.delete_old_segments(NOW_MS)


def _append(log: LogHarness) -> None:
    log.fill(20)


REPEATABLE: dict[str, Callable[[LogHarness], None]] = {
    "append over rolls": _append,
    "roll": _roll,
    "roll of an empty segment": lambda log: (_roll(log), _roll(log))[0],
    "epoch": _epoch,
    "flush": _flush,
    "read": _read_all,
    "deletion": _raise_start,
}


@pytest.mark.parametrize("name", REPEATABLE)
def test_an_operation_that_lacked_a_descriptor_is_done_later(tmp_path: Path, name: str, opens: Opens) -> None:
    number, is_undisturbed = 0, False
    while not is_undisturbed:
        root = tmp_path / str(number)
        root.mkdir()
        log = LogHarness(root)
        log.fill(40)
        log.crash()  # So that nothing is open or loaded.
        before = log.values()
        log.crash()
        opens.fail_only(number)
        try:
            REPEATABLE[name](log)
            is_undisturbed = opens.count <= number
        except StorageShortage:
            opens.failing = ()
            REPEATABLE[name](log)
        opens.failing = ()
        assert log.failures == []
        assert log.log.failure is None
        end, values, epochs = log.log.log_end_offset, log.values(), log.log.leader_epochs.entries()
        assert set(before[-1:]) <= set(values)
        for _ in range(3):
            log.append(b"more", leader_epoch=log.log.leader_epochs.latest_epoch)
        log.checkpoint()
        log.crash()
        assert log.values()[: len(values)] == values
        assert (log.log.log_end_offset, log.log.leader_epochs.entries()) == (end + 3, epochs)
        number += 1
    assert number > 1 or name in ("read",), "nothing was opened"


def test_a_truncation_that_lacks_a_descriptor_takes_only_the_log_out_of_service(
    filled: LogHarness, opens: Opens
) -> None:
    filled.reopen()  # So that nothing is open or loaded.
    opens.fail_only(0)
    with pytest.raises(StorageShortage):
        filled.log.truncate_to(5, now_ms=NOW_MS)
    opens.failing = ()
    assert filled.failures == []
    with pytest.raises(KafkaError) as refused:
        filled.fill(1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    filled.crash()
    filled.log.truncate_to(5, now_ms=NOW_MS)
    assert len(filled.values()) == 5


def test_a_sync_that_fails_is_a_failure_whatever_its_error(
    log: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(1)

    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(KafkaError):
            log.log.flush(now_ms=NOW_MS)
    assert len(log.failures) == 1
    assert "fsync failed" in log.failures[0]


def test_a_checkpoint_that_lacks_a_descriptor_is_written_later(node: NodeLogs, opens: Opens) -> None:
    log = node.create()
    log.set_high_watermark(0)
    opens.fail_only(0)
    with pytest.raises(StorageShortage):
        node.manager.checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    assert node.manager.directories.offline == []
    opens.failing = ()
    node.manager.checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    assert node.offsets(REPLICATION_OFFSET_CHECKPOINT) == {log.topic_partition: 0}


def test_a_log_that_cannot_be_created_for_now_can_be_created_later(node: NodeLogs, opens: Opens) -> None:
    number = 0
    while True:
        opens.fail_only(number)
        try:
            node.create(f"topic-{number}")
        except StorageShortage:
            assert node.manager.directories.offline == []
            opens.failing = ()
            assert node.create(f"topic-{number}").log_end_offset == 0
        else:
            break
        number += 1
    assert number > 1


def test_a_log_that_lacked_a_descriptor_to_start_over_does_not_hold_up_the_others(
    node: NodeLogs, opens: Opens
) -> None:
    log, other = node.create("broken"), node.create("other")
    log.truncate_fully_and_start_at(5, now_ms=NOW_MS)
    opens.fail_only(0)
    with pytest.raises(StorageShortage):
        log.truncate_fully_and_start_at(9, now_ms=NOW_MS)
    opens.failing = ()
    assert log.failure is not None
    fill(other, 1)
    other.roll(now_ms=NOW_MS)
    other.delete_records_before(1)
    for name in CHECKPOINTS:
        node.manager.checkpoint(name)
    assert node.offsets(LOG_START_OFFSET_CHECKPOINT) == {log.topic_partition: 5, other.topic_partition: 1}
    assert node.manager.apply_retention(NOW_MS) == 1
    assert [each for each, _ in node.manager.plan_flushes(NOW_MS)] == [other]
    node.stop()
    node.start()
    assert [each.was_clean for each in node.manager.directories] == [False]
    log = node.log("broken")
    assert (log.failure, log.log_end_offset) == (None, 5)


def test_a_start_without_descriptors_is_refused_and_loses_nothing(node: NodeLogs, opens: Opens) -> None:
    node.create()
    node.stop()
    for number in range(4):
        opens.fail_only(number)
        with pytest.raises(KcliError) as refused:
            node.start()
        assert "Too many open files" in refused.value.message
        assert refused.value.hint == "raise the limit of open files: `ulimit -n`"
        node.manager.directories.release()
    opens.failing = ()
    node.start()
    assert node.manager.directories.offline == []
    assert node.log().log_end_offset == 0


def test_a_stop_without_descriptors_leaves_no_marker_of_a_clean_stop(node: NodeLogs, opens: Opens) -> None:
    node.create()
    opens.fail_only(0)
    node.stop()
    opens.failing = ()
    node.start()
    assert [each.was_clean for each in node.manager.directories] == [False]


def test_spare_descriptors_open_files_when_there_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare: list[int] = []
    monkeypatch.setattr(disk, "_spare", spare)
    disk.keep_spare_descriptors()
    assert len(spare) == disk.SPARE_DESCRIPTORS
    real_open = os.open

    def limited(path: str, flags: int, mode: int = 0o777) -> int:
        if len(spare) == disk.SPARE_DESCRIPTORS:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real_open(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", limited)
        os.close(disk.open_file(tmp_path / "file", os.O_WRONLY | os.O_CREAT))
    assert len(spare) == disk.SPARE_DESCRIPTORS - 1
    disk.keep_spare_descriptors()
    assert len(spare) == disk.SPARE_DESCRIPTORS
    for descriptor in spare:
        os.close(descriptor)
