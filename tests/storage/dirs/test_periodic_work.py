"""The periodic work on all logs of a node."""

from __future__ import annotations

import errno
import shutil

import pytest

from kcli.storage.checkpoints import RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT
from kcli.storage.log.log_config import LogConfig
from tests.storage.dirs.node_logs import NodeLogs, fill
from tests.storage.log_harness import NOW_MS, batch_of


def test_the_pieces_of_housekeeping(node: NodeLogs) -> None:
    log = node.create(config=LogConfig(segment_bytes=1000, retention_bytes=500, file_delete_delay_ms=10))
    fill(log, 30)
    ((planned, plan),) = node.manager.plan_flushes(NOW_MS)
    assert planned is log
    plan.run()
    log.commit_flush(plan, now_ms=NOW_MS)
    assert node.manager.plan_flushes(NOW_MS) == []
    node.manager.checkpoint(RECOVERY_POINT_CHECKPOINT)
    assert node.offsets("recovery-point-offset-checkpoint")[log.topic_partition] == log.recovery_point > 0
    node.manager.checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    assert node.offsets("replication-offset-checkpoint")[log.topic_partition] == 30
    deleted = node.manager.apply_retention(NOW_MS)
    assert deleted > 0
    assert node.delete_files(NOW_MS + 10) > deleted
    log.append_as_leader(batch_of(b"p", producer=(7, 0, 0)), leader_epoch=0, now_ms=NOW_MS)
    assert node.manager.expire_producers(NOW_MS + 86_399_999) == 0
    assert node.manager.expire_producers(NOW_MS + 86_400_000) == 1


def test_a_clock_that_is_set_back_does_not_hold_up_deletion(node: NodeLogs) -> None:
    node.create()
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    assert node.delete_files(NOW_MS) == 0
    assert node.delete_files(NOW_MS - 3_600_000) == 1


def test_a_file_that_cannot_be_deleted_takes_the_directory_offline(
    node: NodeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    node.create()
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    monkeypatch.setattr(shutil, "rmtree", fail)
    assert node.delete_files(NOW_MS + 60_000) == 1
    assert node.manager.directories.offline
