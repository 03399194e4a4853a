"""All logs of a node: starting, stopping, creating, deleting."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import random_uuid
from kcli.storage import checkpoints
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_partition_metadata,
)
from kcli.storage.dirs.log_manager import LogManager
from kcli.storage.dirs.offset_checkpoints import CHECKPOINTS
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.log_segment import LogSegment
from tests.storage.dirs.node_logs import TOPIC_ID, NodeLogs, fill
from tests.storage.log_harness import NOW_MS

APACHE = Path(__file__).parents[2] / "golden" / "storage" / "apache-4.3.1"


# --- start and stop


def test_logs_are_there_after_a_restart(node: NodeLogs) -> None:
    fill(node.create(), 30)
    fill(node.create("a-b", 7), 3)
    node.stop()
    assert sorted(path.name for path in node.paths[0].iterdir()) == [
        ".kafka_cleanshutdown",
        ".lock",
        "a-b-7",
        "log-start-offset-checkpoint",
        "meta.properties",
        "orders-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    manager = node.start()
    assert len(manager) == 2
    assert node.log().log_end_offset == node.log().high_watermark == node.log().recovery_point == 30
    assert node.log("a-b", 7).topic_id == TOPIC_ID
    assert not (node.paths[0] / ".kafka_cleanshutdown").exists()
    assert node.reports == []


def test_a_clean_stop_flushes_everything(node: NodeLogs) -> None:
    fill(node.create(), 30)
    node.stop()
    assert node.offsets("recovery-point-offset-checkpoint") == {TopicPartition("orders", 0): 30}
    assert node.offsets("replication-offset-checkpoint") == {TopicPartition("orders", 0): 30}
    assert node.offsets("log-start-offset-checkpoint") == {}
    assert (node.paths[0] / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":5}'


def test_after_a_kill_every_log_is_recovered(node: NodeLogs) -> None:
    for partition in range(10):
        fill(node.create(partition=partition), 20)
    node.kill()
    log = node.paths[0] / "orders-3" / f"{node.log(partition=3).segments.active.base_offset:020d}.log"
    os.truncate(log, log.stat().st_size - 1)
    node.start()
    assert [node.log(partition=n).log_end_offset for n in range(10)] == [20, 20, 20, 19, *[20] * 6]
    assert any("recovering 10 logs" in report for report in node.reports)
    assert any("dropped" in report and "orders-3" in report for report in node.reports)


def test_a_crash_while_loading_is_unclean(node: NodeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(node.create(), 20)
    node.stop()
    with monkeypatch.context() as patch:
        patch.setattr("kcli.storage.dirs.log_manager.load_log", lambda *a, **k: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            node.start()
    node.manager.close(now_ms=NOW_MS)
    assert not (node.paths[0] / ".kafka_cleanshutdown").exists()
    assert node.offsets("recovery-point-offset-checkpoint") == {TopicPartition("orders", 0): 20}
    node.start()
    assert any("recovering 1 logs" in report for report in node.reports)


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_torn_checkpoint_counts_as_empty(node: NodeLogs, name: str, is_clean: bool) -> None:
    fill(node.create(), 20)
    node.stop()
    name += "-offset-checkpoint"
    (node.paths[0] / name).write_text("0\n7\norders 0 2")
    if not is_clean:
        (node.paths[0] / ".kafka_cleanshutdown").unlink()
    node.start()
    assert node.log().log_end_offset == 20
    assert any("counts as empty" in report and name in report for report in node.reports)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    "name",
    ["orders-0/00000000000000000000.log", "orders-0/partition.metadata", "recovery-point-offset-checkpoint"],
)
def test_a_file_that_cannot_be_read_is_named(node: NodeLogs, name: str, is_clean: bool) -> None:
    node.create()
    node.stop() if is_clean else node.kill()
    path = node.paths[0] / name
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(KcliError) as caught:
        node.start()
    directory = node.paths[0]
    assert caught.value.message == (
        f"no log directory is left: cannot load log directory `{directory}`: Is a directory: `{path}`"
    )


def test_the_log_start_survives(node: NodeLogs) -> None:
    log = node.create()
    fill(log, 20)
    log.delete_records_before(3)
    node.manager.checkpoint(LOG_START_OFFSET_CHECKPOINT)
    assert node.offsets("log-start-offset-checkpoint") == {TopicPartition("orders", 0): 3}
    for stop in (node.kill, node.stop):
        stop()
        node.start()
        assert node.log().log_start_offset == 3


def test_a_clean_start_of_many_logs_reads_little(node: NodeLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition in range(100):
        fill(node.create(partition=partition), 10)
    node.stop()
    monkeypatch.setattr(LogSegment, "recover", lambda *_: pytest.fail("recovered"))
    monkeypatch.setattr("kcli.storage.log.file_records.FileRecords.scan", lambda *_: pytest.fail("scanned"))
    reads: list[int] = []
    read = os.pread

    def pread(descriptor: int, count: int, position: int) -> bytes:
        reads.append(count)
        return read(descriptor, count, position)

    monkeypatch.setattr(os, "pread", pread)
    node.start()
    assert len(node.manager) == 100
    assert len(reads) <= 300
    assert max(reads) <= 8192


def test_replicas_of_others_are_set_aside(node: NodeLogs) -> None:
    fill(node.create(), 3)
    node.create("gone", 1)
    node.stop()
    seen: dict[TopicPartition, bytes | None] = {}

    def keep(topic_partition: TopicPartition, topic_id: bytes | None) -> bool:
        seen[topic_partition] = topic_id
        return topic_partition.topic == "orders"

    node.start(keep)
    assert seen == {TopicPartition("orders", 0): TOPIC_ID, TopicPartition("gone", 1): TOPIC_ID}
    assert node.manager.get("gone", 1) is None
    (stray,) = node.paths[0].glob("*-stray")
    assert stray.name.startswith("gone-1.")
    node.stop()
    node.start(lambda *_: True)
    assert len(node.manager) == 1
    assert stray.exists()


def test_other_directories_are_left_alone(node: NodeLogs) -> None:
    node.stop()
    for name in ("lost+found", "__cluster_metadata-0"):
        (node.paths[0] / name).mkdir()
    node.start()
    assert len(node.manager) == 0
    assert any("lost+found" in report for report in node.reports)
    assert (node.paths[0] / "__cluster_metadata-0").exists()


def test_a_directory_of_apache_kafka_is_taken_over(node: NodeLogs) -> None:
    node.stop()
    shutil.copytree(APACHE / "golden-topic-0", node.paths[0] / "golden-topic-0")
    node.start()
    log = node.log("golden-topic")
    assert log.log_end_offset == 495
    assert log.topic_id == read_partition_metadata(str(APACHE / "golden-topic-0"))
    assert log.read(400, 1000, isolation=Isolation.LOG_END).file_slice is not None


def test_a_replica_found_twice_is_refused(pair: NodeLogs) -> None:
    log = pair.create()
    pair.stop()
    other = pair.paths[0] if Path(log.parent_directory) == pair.paths[1] else pair.paths[1]
    shutil.copytree(log.directory, other / "orders-0")
    with pytest.raises(KcliError, match="orders-0 is found twice"):
        pair.start()


# --- create and delete


def test_a_log_is_made_once(node: NodeLogs) -> None:
    log = node.create()
    assert node.create() is log
    assert node.manager.get("orders", 0) is log
    assert node.manager.get("orders", 1) is None
    assert read_partition_metadata(log.directory) == TOPIC_ID


def test_a_log_of_another_topic_of_that_name_is_not_handed_out(node: NodeLogs) -> None:
    node.create()
    with pytest.raises(KafkaError) as refused:
        node.manager.get_or_create("orders", 0, topic_id=random_uuid(), now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_log_without_a_topic_id_gets_one(node: NodeLogs) -> None:
    log = node.manager.get_or_create("orders", 0, topic_id=None, now_ms=NOW_MS)
    assert log.topic_id is None
    node.create()
    assert log.topic_id == TOPIC_ID
    assert read_partition_metadata(log.directory) == TOPIC_ID


def test_new_logs_go_where_fewest_are(pair: NodeLogs) -> None:
    for partition in range(6):
        pair.create(partition=partition)
    counts = [len(list(path.glob("orders-*"))) for path in pair.paths]
    assert counts == [3, 3]


def test_new_logs_go_where_they_are_assigned(pair: NodeLogs) -> None:
    target = list(pair.manager.directories)[1]
    for partition in range(3):
        log = pair.create(partition=partition, directory_id=target.directory_id)
        assert log.parent_directory == target.path
        assert pair.manager.directories.of(log) is target


def test_a_deleted_log_goes_after_the_delay(node: NodeLogs) -> None:
    log = node.create()
    fill(log, 30)
    part = log.read(0, 100, isolation=Isolation.LOG_END).file_slice
    assert part is not None
    node.manager.checkpoint(RECOVERY_POINT_CHECKPOINT)
    assert node.manager.delete("orders", 0, now_ms=NOW_MS)
    assert not node.manager.delete("orders", 0, now_ms=NOW_MS)
    assert node.manager.get("orders", 0) is None
    (marked,) = node.paths[0].glob("*-delete")
    assert node.delete_files(NOW_MS + 59_999) == 0
    assert marked.exists()
    assert len(part.read()) > 0
    assert node.delete_files(NOW_MS + 60_000) == 1
    assert not marked.exists()
    assert len(part.read()) > 0


def test_a_topic_comes_back_under_its_name(node: NodeLogs) -> None:
    fill(node.create(), 30)
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    log = node.manager.get_or_create("orders", 0, topic_id=random_uuid(), now_ms=NOW_MS)
    assert log.log_end_offset == 0
    fill(log, 3)
    node.delete_files(NOW_MS + 60_000)
    node.stop()
    node.start()
    assert node.log().log_end_offset == 3


def checkpoint_all(manager: LogManager) -> None:
    for name in CHECKPOINTS:
        manager.checkpoint(name)


def test_deleting_writes_no_checkpoints(node: NodeLogs) -> None:
    for partition in range(3):
        fill(node.create(partition=partition), 3)
    checkpoint_all(node.manager)
    before = node.offsets(REPLICATION_OFFSET_CHECKPOINT)
    for partition in range(3):
        node.manager.delete("orders", partition, now_ms=NOW_MS)
    assert [node.offsets(name) for name in (RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT)] == [
        dict.fromkeys(before, 0),
        dict.fromkeys(before, 3),
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_name_that_is_used_again_inherits_no_checkpoint(
    node: NodeLogs, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    for partition in range(3):
        log = node.create(partition=partition)
        fill(log, 30)
        log.advance_high_watermark(30)
        log.flush(now_ms=NOW_MS)
        log.delete_records_before(20)
        log.cleaner_offset = 25
    checkpoint_all(node.manager)
    for partition in range(3):
        node.manager.delete("orders", partition, now_ms=NOW_MS)
    if restarts:
        node.kill()
        node.start()
    writes: list[str] = []
    write = checkpoints.write_atomically

    def recorded(path: str, data: bytes, *, sync: bool = True) -> None:
        writes.append(path)
        write(path, data, sync=sync)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_atomically", recorded)
        for partition in range(3):
            node.manager.get_or_create("orders", partition, topic_id=random_uuid(), now_ms=NOW_MS)
    # One write for all deleted replicas.
    assert sorted(Path(path).name for path in writes if path.endswith("-checkpoint")) == sorted(CHECKPOINTS)
    fill(node.log(), 3)
    node.kill()
    node.start()
    log = node.log()
    assert (log.recovery_point, log.log_start_offset, log.log_end_offset) == (0, 0, 3)
    assert log.cleaner_offset is None


def test_a_checkpoint_collected_before_a_deletion_does_not_come_after_it(node: NodeLogs) -> None:
    log = node.create()
    fill(log, 30)
    log.advance_high_watermark(30)
    late = node.manager.plan_checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    again = node.manager.get_or_create("orders", 0, topic_id=random_uuid(), now_ms=NOW_MS)
    late.run()
    node.manager.commit_checkpoint(late)
    assert node.offsets(REPLICATION_OFFSET_CHECKPOINT) == {}
    assert again.high_watermark == 0
    node.manager.checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    assert node.offsets(REPLICATION_OFFSET_CHECKPOINT) == {again.topic_partition: 0}


def test_a_checkpoint_written_late_leaves_the_deleted_names_out_of_date(node: NodeLogs) -> None:
    log = node.create()
    late = node.manager.plan_checkpoint(REPLICATION_OFFSET_CHECKPOINT)
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    late.run()
    node.manager.commit_checkpoint(late)
    assert node.offsets(REPLICATION_OFFSET_CHECKPOINT) == {log.topic_partition: 0}
    node.create()
    assert node.offsets(REPLICATION_OFFSET_CHECKPOINT) == {}


def test_a_restart_goes_on_deleting(node: NodeLogs) -> None:
    node.create()
    node.manager.delete("orders", 0, now_ms=NOW_MS)
    node.stop()
    node.start()
    assert len(node.manager) == 0
    assert node.delete_files(NOW_MS + 60_000) == 1
    assert list(node.paths[0].glob("*-delete")) == []
