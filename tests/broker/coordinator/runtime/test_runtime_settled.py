"""A batch is settled once the high watermark has passed it; messages leave the coordinator."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.coordinator.effects import Append, Effect, Now, Reply, Send
from kcli.broker.coordinator.runtime.shard_host import CoordinatorSettings, LateAppend
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.broker.coordinator.runtime.notebook import (
    OTHER_NODE,
    answer_of,
    notebook_node,
    record,
    shard,
)
from tests.broker.coordinator.runtime.test_coordinator_runtime import replicated

if TYPE_CHECKING:
    from pathlib import Path

Clock = trio.testing.MockClock


def settling(name: str, *effects: Effect) -> Append:
    """Return an append that notes when it is answered and when it is settled."""

    def settled(now: Now) -> list[Effect]:
        return [Append((record(f"{name} settled", now.ms),)), *effects]

    def then(now: Now, error: Any) -> list[Effect]:
        result = "committed" if error is None else error.code.name
        return [Append((record(f"{name} {result}", now.ms),))]

    return Append((record(name, 1),), then, settled)


def late_appends() -> int:
    """Return how many batches wait for a late commit, or are kept although they do not."""
    gc.collect()
    # `isinstance` asks an object for its class, which a dead proxy of some other test refuses.
    return sum(type(each) is LateAppend for each in gc.get_objects())


async def test_one_replica_settles_at_once_and_after_the_response(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        node.do(settling("a"))
        assert list(shard(node).numbers) == ["a", "a committed", "a settled"]


async def test_a_batch_settles_when_the_followers_have_it(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        node.do(settling("a"))
        assert list(shard(node).numbers) == ["a"]
        node.partition.follower_fetched(OTHER_NODE, 1)
        await trio.sleep(0.01)
        assert list(shard(node).numbers) == ["a", "a committed", "a settled"]


async def test_a_batch_that_was_answered_with_a_time_out_settles_later(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    before = late_appends()
    async with notebook_node(tmp_path) as node:
        replicated(node)
        node.do(settling("a"))
        await trio.sleep(8000)  # longer than the batch is parked at a time
        assert shard(node).numbers == {"a": 1, "a COORDINATOR_NOT_AVAILABLE": 5000}
        assert late_appends() == before + 1
        node.partition.follower_fetched(OTHER_NODE, 1)
        await trio.sleep(0.01)
        assert list(shard(node).numbers) == ["a", "a COORDINATOR_NOT_AVAILABLE", "a settled"]
        assert node.node.purgatory.parked == 0


async def test_a_closed_shard_settles_nothing(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        replicated(node)
        notes = shard(node)
        node.do(settling("early"))
        await trio.sleep(6)
        node.do(settling("late"))
        node.delete()
        await trio.sleep(1)
        assert list(notes.numbers) == ["early", "early COORDINATOR_NOT_AVAILABLE", "late"]
        assert node.node.purgatory.parked == 0


async def test_a_batch_that_is_not_written_is_never_settled(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(max_message_bytes="100")
        answers: list[Any] = []
        append = Append(
            (record("x" * 200, 1),),
            lambda now, error: answers.append(error.code) or [],
            lambda now: answers.append("settled") or [],
        )
        node.do(append)
        assert answers == [ErrorCode.UNKNOWN_SERVER_ERROR]


async def test_messages_leave_in_order_even_when_the_shard_ends(
    autojump_clock: Clock, tmp_path: Path
) -> None:
    sent: list[Any] = []
    async with notebook_node(tmp_path, send=sent.append) as node:
        node.create()
        node.do(Send("first"), settling("a", Send("settled")), Send("last"))
        shard(node).on_unload = [Send("unloaded")]
        node.delete()
        assert sent == ["first", "settled", "last", "unloaded"]


async def test_a_shard_is_told_what_no_request_waits_for(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        epoch = node.partition.leader_epoch
        answer = node.park()
        tell = node.runtime.perform_on
        tell(0, lambda shard, now: [Append((record("told", 1),))])
        tell(0, lambda shard, now: [Append((record("this epoch", 1),))], leader_epoch=epoch)
        tell(0, lambda shard, now: [Append((record("old epoch", 1),))], leader_epoch=epoch - 1)
        tell(1, lambda shard, now: pytest.fail("there is no such shard"))
        assert list(shard(node).numbers) == ["told", "this epoch"]
        tell(0, lambda shard, now: [Reply(answer, "told")])
        assert await answer_of(node, answer) == "told"


async def test_a_new_shard_knows_its_partition_and_epoch(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create(partitions=2)
        assert [shard(node, index).opened_as for index in (0, 1)] == [(0, 0), (1, 0)]


async def test_another_number_of_partitions_stops_a_coordinator_that_keeps_it(
    autojump_clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with notebook_node(tmp_path, CoordinatorSettings(keeps_partition_count=True)) as node:
        node.create(partitions=2)
        assert node.put(record("a", 1)) == "stored"
        node.add_partition(3)
        why = "the number of partitions of __notebook has changed from 2 to 3"
        for index in range(3):
            with pytest.raises(KafkaError, match=why) as refused:
                node.put(record("a", 2), index=index)
            assert refused.value.code == ErrorCode.NOT_COORDINATOR
        node.add_partition(4)
        assert [line for line in caplog.messages if "number" in line] == [
            f"{why}: its coordinator refuses all requests until the next start"
        ]
        node.delete()
        node.create(partitions=4)
        assert node.put(record("a", 3), index=3) == "stored"


async def test_another_number_of_partitions_adds_shards(autojump_clock: Clock, tmp_path: Path) -> None:
    async with notebook_node(tmp_path) as node:
        node.create()
        node.add_partition(2)
        assert node.put(record("a", 1), index=1) == "stored"
