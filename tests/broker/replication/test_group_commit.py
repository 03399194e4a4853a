"""GroupCommit: what is to be durable is, with as few fsyncs as possible."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.local_log import FlushPlan
from tests.broker.records import batch, produce_request, produced
from tests.broker.single_node import Node, connected, running_node

if TYPE_CHECKING:
    from pathlib import Path


async def test_flush_messages_answers_when_the_disk_has_it(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", flush_messages="1")
        log = node.replica_manager.partition("t", 0).log
        for number in range(1, 4):
            assert produced(await client.ask(produce_request("t", batch(b"v")), 9)).error_code == 0
            assert log.synced_offset == number


async def test_flush_messages_waits_for_its_number(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", flush_messages="3")
        log = node.replica_manager.partition("t", 0).log
        points = []
        for _ in range(4):
            await client.ask(produce_request("t", batch(b"v")), 9)
            points.append(log.synced_offset)
        assert points == [0, 0, 3, 3]


async def test_a_disk_that_fails_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(plan: FlushPlan) -> None:
        raise OSError(5, "Input/output error")

    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t", flush_messages="1")
        monkeypatch.setattr(FlushPlan, "run", fail)
        row = produced(await client.ask(produce_request("t", batch(b"v")), 9))
        assert (row.error_code, row.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


async def test_those_who_wait_share_the_next_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    node.start(9092)
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    may_run = threading.Event()
    runs = []
    run = FlushPlan.run

    def slow(plan: FlushPlan) -> None:
        may_run.wait(10)
        runs.append(plan.offset)
        run(plan)

    monkeypatch.setattr(FlushPlan, "run", slow)

    async def write() -> None:
        partition.append(bytearray(batch(b"v")), acks=1, now_ms=node.now_ms, max_decompressed=1 << 20)
        expected = partition.log.log_end_offset
        await node.replica_manager.group_commit.flush(partition.log)
        assert partition.log.synced_offset >= expected

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        may_run.set()
    assert runs == [1, 20]
    node.log_manager.close(now_ms=node.now_ms)


async def test_nobody_is_told_that_a_failed_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An fsync after one that failed may succeed without having written anything."""
    node = Node(tmp_path)
    node.start(9092)
    node.create_topic("t")
    partition = node.replica_manager.partition("t", 0)
    may_run = threading.Event()
    runs = []

    def fails_once(plan: FlushPlan) -> None:
        may_run.wait(10)
        runs.append(plan.offset)
        if len(runs) == 1:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(FlushPlan, "run", fails_once)
    codes = []

    async def write() -> None:
        partition.append(bytearray(batch(b"v")), acks=1, now_ms=node.now_ms, max_decompressed=1 << 20)
        with pytest.raises(KafkaError) as refused:
            await node.replica_manager.group_commit.flush(partition.log)
        codes.append(refused.value.code)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        may_run.set()
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert partition.log.synced_offset == 0
    node.log_manager.close(now_ms=node.now_ms)
