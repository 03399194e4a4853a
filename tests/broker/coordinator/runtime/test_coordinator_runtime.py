"""The runtime performs effects in order and loses no response."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.coordinator.effects import Append, Cancel, Reply, Schedule
from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage import disk
from tests.broker.coordinator.runtime.notebook import (
    OTHER_NODE,
    NotebookNode,
    answer_of,
    batches,
    notebook_node,
    record,
    shard,
)

if TYPE_CHECKING:
    from pathlib import Path

Clock = trio.testing.MockClock


# --- effects


async def test_what_one_replica_commits_is_answered_at_once(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        assert node.put(record("a", 1), record("b", 2)) == "stored"
        assert shard(node).numbers == {"a": 1, "b": 2}
        assert node.put(record("a", None)) == "stored"
        assert shard(node).numbers == {"b": 2}
        assert [batch.count for batch in batches(node)] == [2, 1]
        assert node.partition.log.high_watermark == 3


async def test_a_reply_is_shaped_for_its_request(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()

        def ask(event: Any) -> Any:
            return node.runtime.ask(0, event, lambda reply: f"shaped {reply}")

        assert ask(lambda shard, now, token: [Reply(token, "at once")]) == "shaped at once"
        answer = ask(lambda shard, now, token: shard.park(token))
        node.do(*shard(node).release("later"))
        assert await answer_of(node, answer) == "shaped later"


async def test_whoever_is_parked_waits_until_the_shard_replies(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        first, second = node.park(), node.park()
        node.do(Schedule("bell", 5000))
        assert [await answer_of(node, each) for each in (first, second)] == ["timer", "timer"]
        assert trio.current_time() == 5
        assert node.node.timer.count == 1  # the sweep


async def test_only_the_first_reply_counts(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        event = lambda shard, now, token: [Reply(token, "first"), Reply(token, "second")]  # noqa: E731
        assert node.runtime.ask(0, event) == "first"


async def test_a_client_that_went_away_is_forgotten(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        answer = node.park()
        with trio.move_on_after(1) as scope:
            await node.runtime.wait(answer)
        assert scope.cancelled_caught
        node.do(*shard(node).release("too late"))
        assert answer.response is None


async def test_a_timer_is_replaced_and_cancelled_by_its_key(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        node.do(Schedule("a", 100), Schedule("b", 50), Schedule("c", 0))
        node.do(Schedule("a", 200), Cancel("b"), Cancel("unknown"))
        await trio.sleep(1)
        assert shard(node).log == ["loaded", "c at 1", "a at 200"]


async def test_every_shard_is_swept_and_not_all_at_once(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(sweep_interval_ms=60_000)) as node:
        node.create(partitions=3)
        await trio.sleep(130)
        logs = [shard(node, index).log for index in range(3)]
        assert logs == [
            ["loaded", "swept at 60000", "swept at 120000"],
            ["loaded", "swept at 60010", "swept at 120010"],
            ["loaded", "swept at 60020", "swept at 120020"],
        ]


async def test_a_change_of_the_metadata_reaches_every_shard(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        shard(node).on_change = [Append((record("changed", 1),))]
        node.node.create_topic("other")
        assert shard(node).numbers == {"changed": 1}


@pytest.mark.parametrize("codec", list(Codec))
async def test_batches_are_compressed_as_configured(
    codec: Codec, autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(codec=codec)) as node:
        node.create()
        assert node.put(*(record(f"group-{number}", number) for number in range(100))) == "stored"
        (batch,) = batches(node)
        assert (batch.codec, batch.count) == (codec, 100)


# --- writes that fail


async def test_a_batch_above_the_limit_is_refused_and_not_replayed(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(max_message_bytes="1000")
        records = [record(f"group-{number}", number) for number in range(100)]
        assert node.put(*records) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert shard(node).numbers == {}
        # An append without `then` is split.
        node.do(Append(tuple(records)))
        assert len(shard(node).numbers) == 100
        assert len(batches(node)) > 3


async def test_a_record_that_cannot_be_encoded_is_refused(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        assert node.put(record("x" * 40_000, 1)) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert batches(node) == []


async def test_a_disk_that_fails_moves_the_coordinator_away(
    autojump_clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        parked = node.park()
        manager = node.node.replica_manager

        def fail(*_: object, **__: object) -> None:
            manager.directory_failed(node.partition.log.parent_directory)
            node.runtime.review_leadership()
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from OSError(errno.EIO, "broken")

        monkeypatch.setattr(type(node.partition), "append_validated", fail)
        notebook = shard(node)
        assert node.put(record("a", 1)) == ErrorCode.NOT_COORDINATOR
        assert notebook.numbers == {}
        assert await answer_of(node, parked) == "gone"
        with pytest.raises(KafkaError) as refused:
            node.put(record("a", 1))
        assert refused.value.code == ErrorCode.NOT_COORDINATOR


async def test_what_nobody_waits_for_and_cannot_be_written_is_logged(
    autojump_clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(max_message_bytes="100")
        node.do(Append((record("x" * 200, 1),)))
        assert "could not write 1 records to __notebook-0" in caplog.text


# --- replication


def replicated(node: NotebookNode, **configs: str) -> None:
    node.create_replicated(TopicDefaults(1, 1, node.node.config.topic_defaults))


async def test_a_reply_waits_for_the_followers(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        first, second = node.put(record("a", 1)), node.put(record("b", 1))
        assert shard(node).numbers == {"a": 1, "b": 1}
        await trio.sleep(1)
        assert (first.ended, second.ended) == (False, False)
        node.partition.follower_fetched(OTHER_NODE, 1)
        assert await answer_of(node, first) == "stored"
        assert not second.ended
        node.partition.follower_fetched(OTHER_NODE, 2)
        assert await answer_of(node, second) == "stored"
        assert shard(node).log == ["loaded", "a committed", "b committed"]


async def test_what_was_read_can_be_told_once_it_is_committed(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        assert node.runtime.unsettled("a") is None
        node.put(record("a", 1))
        read = node.runtime.unsettled("a")
        assert read is not None
        node.put(record("a", 2))
        node.partition.follower_fetched(OTHER_NODE, 1)
        assert await answer_of(node, read) is None
        late = node.runtime.unsettled("a")
        assert late is not None
        assert (await answer_of(node, late)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        node.partition.follower_fetched(OTHER_NODE, 2)
        assert node.runtime.unsettled("a") is None


async def test_who_reads_what_is_never_committed_here_looks_elsewhere(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        node.put(record("a", 1))
        read = node.runtime.unsettled("a")
        assert read is not None
        node.runtime.stop()
        assert (await answer_of(node, read)).code is ErrorCode.NOT_COORDINATOR


async def test_followers_that_lag_too_long_time_a_write_out(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        answer = node.put(record("a", 1))
        assert await answer_of(node, answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert trio.current_time() == 5
        node.partition.follower_fetched(OTHER_NODE, 1)
        await trio.sleep(1)
        assert shard(node).log == ["loaded", "a COORDINATOR_NOT_AVAILABLE"]


async def test_writes_under_way_fail_when_the_leader_resigns(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        written, parked = node.put(record("a", 1)), node.park()
        notebook = shard(node)
        node.do(Schedule("bell", 5000))
        node.node.controller.fence_broker(node_id=node.node.node_id, epoch=node.node.epoch)
        assert await answer_of(node, written) == ErrorCode.NOT_COORDINATOR
        assert await answer_of(node, parked) == "gone"
        await trio.sleep(100)
        assert notebook.log == ["loaded", "a NOT_COORDINATOR", "unloaded"]
        assert "late" not in notebook.numbers
        assert node.node.timer.count == 0
        with pytest.raises(KafkaError) as refused:
            shard(node)
        assert refused.value.code == ErrorCode.NOT_COORDINATOR


async def test_a_reply_waits_for_the_disk_where_that_is_configured(tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(flush_messages="2")
        assert node.put(record("a", 1)) == "stored"
        log = node.partition.log
        assert log.synced_offset == 0
        answers = [node.put(record("b", 1)), node.put(record("c", 1))]
        assert not any(answer.ended for answer in answers)
        assert [await answer_of(node, answer) for answer in answers] == ["stored", "stored"]
        assert log.synced_offset == 3
        assert shard(node).log == ["loaded", "a committed", "b committed", "c committed"]


async def test_a_flush_that_lacked_a_descriptor_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(flush_messages="1")
        sync_path, lacking = disk.sync_path, [errno.EMFILE, errno.ENFILE]

        def lacks_twice(path: str) -> None:
            if lacking:
                number = lacking.pop()
                raise OSError(number, os.strerror(number))
            sync_path(path)

        monkeypatch.setattr(disk, "sync_path", lacks_twice)
        assert await answer_of(node, node.put(record("a", 1))) == "stored"
        assert lacking == []
        assert node.partition.log.failure is None
