"""A consumer in a group: how it leaves at any moment, and how a static one returns."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.errors import KcliError
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from tests.client.fake_brokers import NoAnswer
from tests.client.groups.fake_group import commit_answer
from tests.client.groups.grouped_consumer import (
    CONFIG,
    COOPERATIVE,
    ORDERS,
    Diary,
    committed,
    fill,
    grouped,
    read,
)


async def test_a_static_member_comes_back_without_having_left(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(group_id="g", group_instance_id="i1")
    async with grouped() as (brokers, client, group):
        for _ in range(2):
            async with Consumer(client, config) as consumer:
                consumer.subscribe(["orders"])
                await read(consumer, 4)
                assert consumer.group_metadata.instance_id == "i1"
        assert brokers.received(LeaveGroupRequest) == []
        assert list(group.members) == ["member-2"]
        for request in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest):
            assert {each.group_instance_id for each in brokers.received(request)} == {"i1"}


async def test_a_returning_static_leader_may_be_told_not_to_assign(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        group.skips_assignment = True
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        (request,) = brokers.received(SyncGroupRequest)
        assert request.assignments == []
        # Empty bytes mean no partitions.
        assert consumer.assignment == set()


async def test_the_end_of_the_block_does_not_take_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _):
        async with Consumer(client, CONFIG, close_seconds=5) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            brokers.script(OffsetCommitRequest, NoAnswer)
            start = trio.current_time()
        assert trio.current_time() - start == pytest.approx(5)


@pytest.mark.parametrize("during", ["a commit", "the listener"])
async def test_a_block_that_is_cancelled_during_a_rebalance_ends_in_time(
    during: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The shielded part of a poll and the end of the block share their time."""

    async def dawdle(event: str) -> None:
        if during == "the listener" and event.startswith("-"):
            await trio.sleep_forever()

    async with grouped() as (brokers, client, group):
        warnings: list[str] = []
        with trio.CancelScope() as scope:
            async with Consumer(client, CONFIG, close_seconds=5, warn=warnings.append) as consumer:
                consumer.subscribe(["orders"], Diary(during=dawdle))
                await read(consumer, 1)
                if during == "a commit":
                    brokers.script(OffsetCommitRequest, NoAnswer)
                group.rebalance()
                await read(consumer, 1.5)
                scope.deadline = trio.current_time() + 1
                await read(consumer, 20)
        assert trio.current_time() - scope.deadline == pytest.approx(5)
        # The listener is called after the commit.
        lines = ["the coordinator did not answer in time: what was read last may be read again"]
        assert warnings == (lines if during == "a commit" else [])


async def test_what_is_committed_need_not_be_committed_again_at_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, _):
        warnings: list[str] = []
        async with Consumer(client, CONFIG, close_seconds=5, warn=warnings.append) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 6)
            brokers.script(LeaveGroupRequest, NoAnswer)
            start = trio.current_time()
        assert trio.current_time() - start == pytest.approx(5)
        assert len(brokers.received(OffsetCommitRequest)) == 1
        assert warnings == []


async def test_a_failed_commit_at_the_end_is_warned_of(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _):
        warnings: list[str] = []
        async with Consumer(client, CONFIG, warn=warnings.append) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            brokers.script(OffsetCommitRequest, lambda _, request, __: commit_answer(request, 30))
        (warning,) = warnings
        assert warning.startswith("offsets are not committed: cannot commit the offset of orders-")


async def test_leaving_during_a_join_commits_and_does_not_wait_for_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, group):
        async with Consumer(client, COOPERATIVE) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            brokers.script(JoinGroupRequest, NoAnswer)
            group.rebalance()
            await read(consumer, 3.5)
            start = trio.current_time()
        assert trio.current_time() - start < 1
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert group.members == {}


async def test_who_ends_during_its_first_join_has_left(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):
        async with Consumer(client, CONFIG) as consumer:
            brokers.script(JoinGroupRequest, lambda *_: None, NoAnswer)
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            assert group.pending == {"member-1"}
        assert group.pending == set()


async def test_who_ends_when_a_round_does_commits_in_the_new_generation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, group):
        async with Consumer(client, COOPERATIVE) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            group.rebalance()
            held = trio.Event()

            async def hold(*_: Any) -> None:
                await held.wait()

            def complete(*_: Any) -> None:
                held.set()

            # The join is answered just before the commit on the other connection arrives.
            brokers.script(JoinGroupRequest, hold)
            await read(consumer, 3.5)
            fill(brokers, "orders", 1)
            await read(consumer, 1)
            brokers.script(
                OffsetCommitRequest, lambda _, request, __: complete() or commit_answer(request, 22)
            )
        assert committed(group) == dict.fromkeys(range(4), 11)
        generations = [each.generation_id_or_member_epoch for each in brokers.received(OffsetCommitRequest)]
        assert generations == [1, 1, 2]
        assert group.members == {}


async def test_a_block_that_is_cancelled_at_its_beginning_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (_, client, _):
        for delay in range(4):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    async def cancel(turns: int, scope: trio.CancelScope) -> None:
                        for _ in range(turns):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    nursery.start_soon(cancel, delay, scope)
                    async with Consumer(client, CONFIG):
                        await trio.sleep_forever()
            assert scope.cancelled_caught


async def test_a_listener_that_fails_leaves_the_member_whole(autojump_clock: trio.testing.MockClock) -> None:
    async def fail(event: str) -> None:
        if len(diary.events) < 3:
            raise KcliError(f"refused {event}")

    async with grouped() as (_, client, group):
        diary = Diary(during=fail)
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            with pytest.raises(KcliError, match=r"refused \+0,1,2,3"):
                await read(consumer, 1)
            assert len(await read(consumer, 1)) == 40
            group.rebalance()
            with pytest.raises(KcliError, match="refused -0,1,2,3"):
                await read(consumer, 4)
            await read(consumer, 1)
            assert consumer.assignment == set(ORDERS)
        assert diary.events == ["+0,1,2,3", "-0,1,2,3", "+0,1,2,3", "-0,1,2,3"]
