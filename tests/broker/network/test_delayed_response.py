"""DelayedResponse: a response waits for each of its pending partitions once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import trio
import trio.testing

from kcli.broker.network.responses import DelayedResponse, once_settled
from kcli.broker.waiting.purgatory import Purgatory
from kcli.broker.waiting.timer import Timer

if TYPE_CHECKING:
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.topics import TopicPartition


class FakeManager:
    """The part of a replica manager that a delayed response uses."""

    def __init__(self) -> None:
        self.purgatory = Purgatory(Timer())
        self.settled: set[TopicPartition] = set()

    def settle(self, key: TopicPartition) -> None:
        self.settled.add(key)
        self.purgatory.touch(key)


class FakePending:
    """A partition that the manager settles."""

    def __init__(self, index: int) -> None:
        self.key: TopicPartition = ("t", index)
        self.tries = 0

    def settle(self, manager: ReplicaManager) -> bool:
        self.tries += 1
        return self.key in cast("FakeManager", manager).settled


async def test_a_response_with_nothing_pending_is_there_at_once() -> None:
    manager = FakeManager()
    pending = [FakePending(0), FakePending(1)]
    manager.settled.update(each.key for each in pending)
    assert once_settled(cast("ReplicaManager", manager), "done", pending=pending, timeout_ms=100) == "done"
    assert once_settled(cast("ReplicaManager", manager), "nothing", pending=[], timeout_ms=100) == "nothing"
    assert manager.purgatory.parked == 0


async def test_a_partition_that_is_settled_is_not_asked_again(autojump_clock: trio.testing.MockClock) -> None:
    manager = FakeManager()
    first, second = FakePending(0), FakePending(1)
    async with trio.open_nursery() as nursery:
        await nursery.start(manager.purgatory.timer.run)
        delayed = once_settled(
            cast("ReplicaManager", manager), "done", pending=[first, second], timeout_ms=1000
        )
        assert isinstance(delayed, DelayedResponse)
        assert delayed.keys == (first.key, second.key)
        for pending in (first, second):
            await trio.sleep(0.1)
            manager.settle(pending.key)
        await manager.purgatory.wait(delayed)
        assert (trio.current_time(), delayed.expired, delayed.finish()) == (0.2, False, "done")
        assert (first.tries, second.tries) == (2, 3)
        nursery.cancel_scope.cancel()


async def test_what_is_late_is_answered_as_it_stands(autojump_clock: trio.testing.MockClock) -> None:
    manager = FakeManager()
    async with trio.open_nursery() as nursery:
        await nursery.start(manager.purgatory.timer.run)
        delayed = once_settled(
            cast("ReplicaManager", manager), "late", pending=[FakePending(0)], timeout_ms=300
        )
        assert isinstance(delayed, DelayedResponse)
        await manager.purgatory.wait(delayed)
        assert (round(trio.current_time(), 3), delayed.expired, delayed.finish()) == (0.3, True, "late")
        nursery.cancel_scope.cancel()
