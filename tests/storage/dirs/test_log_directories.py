"""The log directories of a node: their identity, and failures that affect one of them only."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage import disk
from kcli.storage.checkpoints import REPLICATION_OFFSET_CHECKPOINT
from tests.storage.dirs.node_logs import NodeLogs, fill
from tests.storage.log_harness import NOW_MS


def test_a_second_node_on_a_directory_is_refused(node: NodeLogs) -> None:
    other = NodeLogs(node.paths[0].parent)
    with pytest.raises(KcliError, match="in use by process"):
        other.start()
    assert node.create() is not None


def test_copied_directories_are_told_apart(pair: NodeLogs) -> None:
    pair.stop()
    shutil.copy(pair.paths[0] / "meta.properties", pair.paths[1] / "meta.properties")
    with pytest.raises(KcliError, match=r"same directory\.id"):
        pair.start()
    shutil.rmtree(pair.paths[1])
    pair.start()


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_directory_goes_offline_with_its_logs(
    pair: NodeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(4):
        fill(pair.create(partition=partition), 3)
    failing = pair.log(partition=0)
    lost = [log.topic_partition for log in pair.manager if log.parent_directory == failing.parent_directory]
    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwrite", no_space)
        with pytest.raises(KafkaError) as refused:
            fill(failing, 1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [directory.path for directory in pair.failed] == [failing.parent_directory]
    assert pair.manager.directories.offline == pair.failed
    assert len(pair.manager) == 2
    for topic, partition in lost:
        with pytest.raises(KafkaError) as gone:
            pair.manager.get(topic, partition)
        assert gone.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    for log in pair.manager:
        fill(log, 1)
    assert pair.create(partition=9).parent_directory != failing.parent_directory
    with pytest.raises(KafkaError):
        pair.create(partition=10, is_new=False)
    pair.stop()
    assert (Path(failing.parent_directory) / ".kafka_cleanshutdown").exists() is False
    pair.start()
    assert sorted(log.log_end_offset for log in pair.manager) == [0, 3, 3, 4, 4]


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path: Path) -> None:
    node = NodeLogs(tmp_path, 2)
    node.paths[0].write_text("a file in the way")
    node.start()
    assert [directory.path for directory in node.manager.directories.offline] == [str(node.paths[0])]
    node.create()
    node.stop()


def test_without_any_directory_there_is_no_start(tmp_path: Path) -> None:
    node = NodeLogs(tmp_path)
    node.paths[0].write_text("a file in the way")
    with pytest.raises(KcliError, match="no log directory is left"):
        node.start()


def test_a_directory_that_fails_at_the_stop_is_not_clean(
    node: NodeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(node.create(), 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        node.stop()
    assert not (node.paths[0] / ".kafka_cleanshutdown").exists()
    node.start()
    assert node.log().log_end_offset == 3


def test_a_failed_fsync_takes_the_directory_offline(node: NodeLogs) -> None:
    log = node.create()
    fill(log, 3)
    plan = log.plan_flush()
    assert plan is not None
    error = log.failed("flush", OSError(errno.EIO, "Input/output error"))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(node.manager) == 0
    assert node.manager.directories.offline


def test_checkpoints_of_a_full_disk_take_it_offline(node: NodeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(node.create(), 3)
    monkeypatch.setattr(disk, "pwrite", no_space)
    node.manager.checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    assert node.manager.directories.offline


def look(logs: NodeLogs) -> None:
    """Do the work of housekeeping."""
    plan = logs.manager.plan_directory_check()
    plan.run()
    logs.manager.commit_directory_check(plan)


@pytest.mark.parametrize("is_there_again", [False, True])
def test_a_directory_that_is_removed_or_replaced_goes_offline(pair: NodeLogs, is_there_again: bool) -> None:
    for partition in range(2):
        fill(pair.create(partition=partition), 1)
    look(pair)
    assert pair.failed == []
    lost, kept = (pair.log(partition=number) for number in range(2))
    os.rename(lost.parent_directory, f"{lost.parent_directory}.old")
    if is_there_again:
        shutil.copytree(f"{lost.parent_directory}.old", lost.parent_directory)
    look(pair)
    assert [directory.path for directory in pair.failed] == [lost.parent_directory]
    assert "was removed or replaced" in pair.reports[-1]
    with pytest.raises(KafkaError) as refused:
        pair.manager.get("orders", 0)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    fill(kept, 1)
    look(pair)
    assert len(pair.failed) == 1


def test_a_replica_whose_directory_is_removed_takes_the_log_directory_offline(pair: NodeLogs) -> None:
    lost = pair.create(partition=0)
    pair.create(partition=1)
    shutil.rmtree(lost.directory)
    look(pair)
    assert [directory.path for directory in pair.failed] == [lost.parent_directory]
    assert f"cannot find orders-0 in `{lost.parent_directory}`: No such file" in pair.reports[-1]


def test_a_replica_that_is_deleted_or_renamed_while_it_is_looked_for_is_not_missed(pair: NodeLogs) -> None:
    pair.create(partition=0)
    moved = pair.create(partition=1)
    plan = pair.manager.plan_directory_check()
    pair.manager.delete("orders", 0, now_ms=NOW_MS)
    moved.rename_directory("orders-1.somewhere-else")
    plan.run()
    assert len(plan.missing) == 2
    pair.manager.commit_directory_check(plan)
    assert pair.failed == []
