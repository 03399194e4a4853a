"""Housekeeping: every job on its own time, under a clock that the test moves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kcli.broker.housekeeping import Housekeeping
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    read_offsets,
)
from kcli.storage.flush_plan import FlushPlan
from kcli.storage.log_paths import TopicPartition
from tests.broker.node import START_MS, Node
from tests.broker.records import batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
T0 = TopicPartition("t", 0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start(9092)
    yield node
    node.log_manager.close(now_ms=node.now_ms)


def housekeeping(node: Node) -> Housekeeping:
    return Housekeeping(node.log_manager, node.replica_manager, node.config, wall_ms=node.wall_ms)


def append(node: Node, *values: bytes, topic: str = "t", **options: int) -> None:
    partition = node.replica_manager.partition(topic, 0)
    for value in values:
        records = bytearray(batch(value, timestamp=node.now_ms, **options))
        partition.append(records, acks=1, now_ms=node.now_ms, max_decompressed=1 << 20)


async def tick(node: Node, jobs: Housekeeping, milliseconds: int) -> None:
    node.now_ms += milliseconds
    await jobs.tick(node.now_ms)


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
    assert [directory.path for directory in node.log_manager.offline_dirs] == [failing]
    node.log_manager.close(now_ms=node.now_ms)


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
    delete_old_segments = node.log_manager.delete_old_segments

    def fails_once(now_ms: int) -> int:
        calls.append(now_ms)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        return delete_old_segments(now_ms)

    monkeypatch.setattr(node.log_manager, "delete_old_segments", fails_once)
    jobs = housekeeping(node)
    append(node, b"a")
    await tick(node, jobs, 30_000)
    assert "retention failed" in caplog.text
    # The other jobs of that tick ran.
    assert read_offsets(str(tmp_path / REPLICATION_OFFSET_CHECKPOINT)) == {T0: 1}
    await tick(node, jobs, 300_000)
    assert calls == [START_MS + 30_000, START_MS + 330_000]
    assert node.replica_manager.partition("t", 0).log.log_start_offset == 1
