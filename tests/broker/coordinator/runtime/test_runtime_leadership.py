"""The runtime keeps a shard for as long as its partition is led."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.coordinator.effects import Schedule
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.broker.coordinator.runtime.notebook import Notebook, answer_of, notebook_node, record, shard

if TYPE_CHECKING:
    from pathlib import Path

Clock = trio.testing.MockClock


async def test_leading_again_begins_with_what_is_in_the_log(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        node.put(record("a", 1))
        before, epoch = shard(node), node.partition.leader_epoch
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        assert node.partition.leader_epoch > epoch
        with pytest.raises(KafkaError) as refused:
            shard(node)
        assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await trio.testing.wait_all_tasks_blocked()
        after = shard(node)
        assert after is not before
        assert (after.numbers, after.log) == ({"a": 1}, ["loaded"])


async def test_a_load_that_leadership_left_behind_changes_nothing(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        for start in range(0, 5000, 100):
            node.put(*(record(f"group-{number}", number) for number in range(start, start + 100)))
        controller, own = node.node.controller, node.node.node_id
        for _ in range(3):
            controller.fence_broker(node_id=own, epoch=node.node.epoch)
            controller.unfence_broker(node_id=own, epoch=node.node.epoch)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            with pytest.raises(KafkaError):
                shard(node)
        await trio.testing.wait_all_tasks_blocked()
        assert len(shard(node).numbers) == 5000
        assert shard(node).log == ["loaded"]


async def test_the_topic_may_be_deleted_and_made_again(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        assert node.runtime.partition_count == 50
        node.create(partitions=3)
        assert node.runtime.partition_count == 3
        assert node.put(record("a", 1), index=2) == "stored"
        parked = node.park()
        node.delete()
        assert await answer_of(node, parked) == "gone"
        assert list(node.runtime.shards()) == []
        node.create(partitions=5)
        assert node.runtime.partition_count == 5
        assert [each.numbers for each in node.runtime.shards()] == [{}] * 5


async def test_reading_all_shards_tells_that_one_is_loading(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(partitions=3)
        node.put(record("a", 1), index=1)
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        seen: list[Any] = []
        with pytest.raises(KafkaError) as refused:
            seen.extend(node.runtime.shards())
        assert ([each.numbers for each in seen], refused.value.code) == (
            [{}, {}],
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        )
        await trio.testing.wait_all_tasks_blocked()
        assert [each.numbers for each in node.runtime.shards()] == [{}, {"a": 1}, {}]


@pytest.mark.parametrize("method", ["loaded", "unloaded", "image_changed"])
async def test_a_shard_that_fails_harms_nobody_else(
    method: str,
    autojump_clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(partitions=2)
        node.put(record("a", 1))
        failing = shard(node)
        original = getattr(Notebook, method)

        def fail(notebook: Notebook, *arguments: Any) -> Any:
            if notebook is failing or (method == "loaded" and notebook.numbers):
                raise RuntimeError("a bug")
            return original(notebook, *arguments)

        monkeypatch.setattr(Notebook, method, fail)
        node.node.create_topic("other")
        controller = node.node.controller
        controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        controller.unfence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        await trio.testing.wait_all_tasks_blocked()
        assert "the coordinator of __notebook-0 failed" in caplog.text
        assert node.put(record("b", 1), index=1) == "stored"
        if method == "loaded":
            with pytest.raises(KafkaError) as refused:
                shard(node)
            assert refused.value.code == ErrorCode.NOT_COORDINATOR
        else:
            assert shard(node).numbers == {"a": 1}


async def test_stopping_answers_everybody_and_takes_nothing_more(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(partitions=2)
        parked, notebook = node.park(), shard(node)
        node.do(Schedule("bell", 5000))
        node.runtime.stop()
        node.runtime.stop()
        assert await answer_of(node, parked) == "gone"
        assert notebook.log == ["loaded", "unloaded"]
        assert node.node.timer.count == 0
        for ask in (
            lambda: node.put(record("a", 1)),
            lambda: shard(node),
            lambda: list(node.runtime.shards()),
        ):
            with pytest.raises(KafkaError) as refused:
                ask()
            assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.node.create_topic("other")
