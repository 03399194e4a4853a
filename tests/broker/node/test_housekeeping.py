"""Housekeeping: every job on its own time, under a clock that the test moves."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.node.housekeeping import Housekeeping
from kcli.protocol.topics import TopicPartition
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from kcli.storage.dirs.log_manager import LogManager
from kcli.storage.dirs.offset_checkpoints import CheckpointPlan
from kcli.storage.log.local_log import DeletionPlan, FlushPlan
from tests.broker.records import batch
from tests.broker.schedules.simulated_cluster import no_threads
from tests.broker.single_node import START_MS, Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import trio.testing

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
T0 = TopicPartition("t", 0)


def housekeeping(node: Node) -> Housekeeping:
    return Housekeeping(
        node.log_manager, replica_manager=node.replica_manager, config=node.config, wall_ms=node.wall_ms
    )


def append(node: Node, *values: bytes, topic: str = "t", **options: Any) -> None:
    partition = node.replica_manager.partition(topic, 0)
    for value in values:
        records = bytearray(batch(value, timestamp=node.now_ms, **options))
        partition.append(records, acks=1, now_ms=node.now_ms, max_decompressed=1 << 20)


async def tick(node: Node, jobs: Housekeeping, milliseconds: int) -> None:
    node.now_ms += milliseconds
    await jobs.tick(node.now_ms - START_MS)


async def test_checkpoints_are_written_on_their_time(node: Node, tmp_path: Path) -> None:
    node.create_topic("t")
    jobs = housekeeping(node)
    append(node, b"a", b"b")
    await tick(node, jobs, 4_000)
    assert REPLICATION_OFFSET_CHECKPOINT not in os.listdir(tmp_path)
    await tick(node, jobs, 1_000)
    assert read_offsets(str(tmp_path / REPLICATION_OFFSET_CHECKPOINT)) == {T0: 2}
    assert RECOVERY_POINT_CHECKPOINT not in os.listdir(tmp_path)
    node.replica_manager.partition("t", 0).delete_records(1)
    await tick(node, jobs, MINUTE_MS)
    assert read_offsets(str(tmp_path / RECOVERY_POINT_CHECKPOINT)) == {T0: 0}
    assert read_offsets(str(tmp_path / LOG_START_OFFSET_CHECKPOINT)) == {T0: 1}


async def test_what_is_due_is_flushed(node: Node) -> None:
    node.create_topic("t", flush_ms="1000")
    jobs = housekeeping(node)
    append(node, b"a", b"b")
    log = node.replica_manager.partition("t", 0).log
    await tick(node, jobs, 500)
    assert log.recovery_point == 0
    await tick(node, jobs, 500)
    assert log.recovery_point == 2


async def test_a_flush_that_fails_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    node = Node(tmp_path, log_dirs=paths)
    node.start(9092)
    for name in ("t", "u", "v", "w"):
        node.create_topic(name, flush_ms="1000")
        append(node, b"a", topic=name)
    logs = {name: node.replica_manager.partition(name, 0).log for name in ("t", "u", "v", "w")}
    failing = logs["t"].parent_directory
    run = FlushPlan.run

    def fail(plan: FlushPlan) -> None:
        if plan.paths[0].startswith(f"{failing}/"):
            raise OSError(5, "Input/output error")
        run(plan)

    monkeypatch.setattr(FlushPlan, "run", fail)
    await tick(node, housekeeping(node), 1000)
    flushed = [name for name, log in logs.items() if log.recovery_point == 1]
    assert flushed == [name for name, log in logs.items() if log.parent_directory != failing]
    assert len(flushed) == 2
    assert [directory.path for directory in node.log_manager.directories.offline] == [failing]
    node.log_manager.close(now_ms=node.now_ms)


async def test_a_clock_that_is_set_back_stops_nothing(node: Node, tmp_path: Path) -> None:
    node.create_topic("t", flush_ms="1000", retention_ms="1000")
    jobs = housekeeping(node)
    append(node, b"a", b"b")
    log = node.replica_manager.partition("t", 0).log
    node.now_ms -= DAY_MS
    await jobs.tick(1_000)
    assert log.recovery_point == 2
    await jobs.tick(5_000)
    assert read_offsets(str(tmp_path / REPLICATION_OFFSET_CHECKPOINT)) == {T0: 2}
    node.now_ms += DAY_MS + MINUTE_MS
    await jobs.tick(30_000)
    assert log.log_start_offset == 2


async def test_the_jobs_of_a_running_node_follow_the_monotonic_clock(
    node: Node, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    node.create_topic("t")
    append(node, b"a")
    # The clock would jump while a thread works, and the end come before the job that is due.
    with no_threads():
        async with trio.open_nursery() as nursery:
            await nursery.start(housekeeping(node).run)
            await trio.sleep(5.5)
            nursery.cancel_scope.cancel()
    assert read_offsets(str(tmp_path / REPLICATION_OFFSET_CHECKPOINT)) == {T0: 1}


async def test_disk_work_is_done_by_threads(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = threading.get_ident()
    workers: list[int] = []

    def recorded(run: Callable[[Any], None]) -> Callable[[Any], None]:
        def record(plan: Any) -> None:
            workers.append(threading.get_ident())
            run(plan)

        return record

    for kind in (FlushPlan, DeletionPlan, CheckpointPlan):
        monkeypatch.setattr(kind, "run", recorded(kind.run))
    node.create_topic("t", flush_ms="1000")
    topic = node.create_topic("u")
    append(node, b"a")
    node.controller.delete_topics([topic.topic_id])
    assert workers == []
    await tick(node, housekeeping(node), MINUTE_MS)
    assert len(workers) == 5
    assert loop not in workers


async def test_retention_waits_for_its_first_round(node: Node) -> None:
    node.create_topic("t", retention_ms="1000")
    jobs = housekeeping(node)
    append(node, b"a", b"b")
    log = node.replica_manager.partition("t", 0).log
    await tick(node, jobs, 29_000)
    assert log.log_start_offset == 0
    await tick(node, jobs, 1_000)
    assert log.log_start_offset == 2
    append(node, b"c")
    await tick(node, jobs, 299_000)
    assert log.log_start_offset == 2
    await tick(node, jobs, 1_000)
    assert log.log_start_offset == 3


async def test_seven_days_pass_at_once(node: Node) -> None:
    node.create_topic("t")
    jobs = housekeeping(node)
    append(node, b"a")
    log = node.replica_manager.partition("t", 0).log
    for _ in range(7):
        await tick(node, jobs, DAY_MS)
    assert log.log_start_offset == 0
    await tick(node, jobs, 300_000)
    assert log.log_start_offset == 1


async def test_deleted_files_go_when_their_delay_has_passed(node: Node, tmp_path: Path) -> None:
    topic = node.create_topic("t")
    jobs = housekeeping(node)
    append(node, b"a")
    node.controller.delete_topics([topic.topic_id])
    await tick(node, jobs, 59_000)
    assert any(name.endswith("-delete") for name in os.listdir(tmp_path))
    await tick(node, jobs, 1_000)
    assert not any(name.endswith("-delete") for name in os.listdir(tmp_path))


async def test_idle_producers_are_forgotten(node: Node) -> None:
    node.create_topic("t")
    jobs = housekeeping(node)
    append(node, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    log = node.replica_manager.partition("t", 0).log
    await tick(node, jobs, DAY_MS - MINUTE_MS)
    assert len(log.active_producers()) == 1
    await tick(node, jobs, 11 * MINUTE_MS)
    assert log.active_producers() == []


async def test_a_job_that_fails_is_logged_and_runs_again(
    node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create_topic("t", retention_ms="1000")
    calls: list[int] = []

    def fails_once(manager: LogManager, now_ms: int) -> int:
        calls.append(now_ms)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return apply_retention(manager, now_ms)

    apply_retention = LogManager.apply_retention
    monkeypatch.setattr(LogManager, "apply_retention", fails_once)
    jobs = housekeeping(node)
    append(node, b"a")
    await tick(node, jobs, 30_000)
    assert "retention failed" in caplog.text
    # The other jobs of that tick ran.
    assert read_offsets(str(tmp_path / REPLICATION_OFFSET_CHECKPOINT)) == {T0: 1}
    await tick(node, jobs, 300_000)
    assert calls == [START_MS + 30_000, START_MS + 330_000]
    assert node.replica_manager.partition("t", 0).log.log_start_offset == 1
