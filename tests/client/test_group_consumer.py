"""A consumer in a group: joins, shares, gives up and takes partitions, commits, and leaves."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kcli.client.admin.group_types import CommittedOffset
from kcli.client.client import Client
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer import Consumer
from kcli.client.metadata import TopicPartition
from kcli.client.offset_commits import CommitFailed
from kcli.client.rebalance_listener import RebalanceListener
from kcli.client.subscription import NotAssigned
from kcli.client.topic_subscription import SubscriptionConflict
from kcli.errors import KcliError
from kcli.protocol.consumer_protocol import decode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster
from tests.client.fake_group import FakeGroup, commit_answer
from tests.client.test_consumer import batch

ORDERS = [TopicPartition("orders", index) for index in range(4)]
CONFIG = ConsumerConfig(group_id="g", auto_offset_reset="earliest")
COOPERATIVE = ConsumerConfig(
    group_id="g", auto_offset_reset="earliest", partition_assignment_strategy="cooperative-sticky"
)
Grouped = tuple[FakeBrokers, Client, FakeGroup]


@asynccontextmanager
async def grouped(config: ClientConfig | None = None, **topics: int) -> AsyncIterator[Grouped]:
    """Brokers with topics of ten records a partition, a client, and the group's coordinator."""
    async with fake_cluster(config, topics=topics or {"orders": 4}) as (brokers, client):
        for name in brokers.topics:
            fill(brokers, name, 10)
        yield brokers, client, FakeGroup(brokers)


def fill(brokers: FakeBrokers, topic: str, count: int) -> None:
    """Append records to every partition of a topic."""
    for partition in brokers.topics[topic]:
        partition.batches.append(batch(partition.end_offset, [b"x"] * count))
        partition.end_offset += count


class Diary(RebalanceListener):
    """What the listener of one member was told, in order: `+0,1` given, `-0,1` revoked, `!0,1` lost."""

    def __init__(self, *, during: Callable[[str], Any] | None = None) -> None:
        self.events: list[str] = []
        self._during = during

    async def _note(self, mark: str, partitions: Sequence[TopicPartition]) -> None:
        event = mark + ",".join(str(each.partition) for each in partitions)
        self.events.append(event)
        if self._during is not None:
            await self._during(event)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("+", partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("-", partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._note("!", partitions)


async def read(consumer: Consumer, seconds: float) -> list[tuple[TopicPartition, int]]:
    """Poll for a time; return what came."""
    records: list[tuple[TopicPartition, int]] = []
    with trio.move_on_after(seconds):
        while True:
            for part in await consumer.poll():
                records += [(part.partition, record.offset) for record in part.records]
    return records


def committed(group: FakeGroup) -> dict[int, int]:
    return {index: offset for (_, index), offset in sorted(group.offsets.items())}


async def test_the_first_member_gets_everything(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):
        group.offsets["orders", 2] = 7
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            records = await read(consumer, 1)
            assert consumer.assignment == set(ORDERS)
            assert consumer.subscription == {"orders"}
            assert consumer.group_metadata == ("g", 1, "member-1", None)
            assert consumer.is_settled
        assert len(records) == 33
        assert min(offset for partition, offset in records if partition.partition == 2) == 7
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert group.members == {}
        names = [type(row.request).__name__ for row in brokers.requests if row.node_id == 1]
        wanted = ["JoinGroupRequest", "JoinGroupRequest", "SyncGroupRequest", "OffsetFetchRequest"]
        assert [name for name in names if name in wanted] == wanted
        first, second = brokers.received(JoinGroupRequest)
        assert (first.member_id, second.member_id) == ("", "member-1")
        assert [each.name for each in first.protocols] == ["range", "cooperative-sticky"]
        assert (first.session_timeout_ms, first.rebalance_timeout_ms) == (45_000, 300_000)


async def test_partitions_are_shared_and_handed_over(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), trio.open_nursery() as nursery:
        first, second = Diary(), Diary()
        async with Consumer(client, CONFIG) as one:
            one.subscribe(["orders"], first)
            assert len(await read(one, 4)) == 40
            async with Consumer(client, CONFIG) as other:
                other.subscribe(["orders"], second)
                seen: list[Any] = []

                async def read_other() -> None:
                    seen.extend(await read(other, 5))

                nursery.start_soon(read_other)
                assert await read(one, 4) == []  # nothing twice: it was committed before it was given up
                fill(brokers, "orders", 5)
                again = await read(one, 3)
                assert {partition for partition, _ in again} == set(ORDERS[:2])
                assert {partition for partition, _ in seen} == set(ORDERS[2:])
                assert {offset for _, offset in again + seen} == set(range(10, 15))
        assert first.events == ["+0,1,2,3", "-0,1,2,3", "+0,1", "-0,1"]
        assert second.events == ["+2,3", "-2,3"]
        assert committed(group) == dict.fromkeys(range(4), 15)


@pytest.mark.parametrize(("rack", "version"), [("", 1), ("a", 3)])
async def test_a_member_tells_its_rack_if_it_has_one(
    rack: str, version: int, autojump_clock: trio.testing.MockClock
) -> None:
    config = ConsumerConfig(group_id="g", client_rack=rack)
    async with grouped() as (brokers, client, _), Consumer(client, config) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        assert consumer.assignment == set(ORDERS)
        for protocol in brokers.received(JoinGroupRequest)[-1].protocols:
            assert int.from_bytes(bytes(protocol.metadata)[:2], "big") == version
            assert decode_subscription(protocol.metadata).rack_id == (rack or None)


async def test_a_cooperative_member_keeps_what_does_not_move(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), trio.open_nursery() as nursery:
        first, second = Diary(), Diary()
        async with Consumer(client, COOPERATIVE) as one, Consumer(client, COOPERATIVE) as other:
            one.subscribe(["orders"], first)
            await read(one, 4)
            other.subscribe(["orders"], second)
            nursery.start_soon(read, other, 20)
            await read(one, 10)
            assert one.assignment == set(ORDERS[:2])
            # A rebalance that somebody holds up does not stop what is kept.
            held = trio.Event()

            async def hold(*_: Any) -> None:
                await held.wait()

            brokers.script(JoinGroupRequest, hold)
            group.rebalance()
            await read(one, 4)
            fill(brokers, "orders", 5)
            assert {partition for partition, _ in await read(one, 1)} == set(ORDERS[:2])
            held.set()
            await read(one, 4)
        assert first.events == ["+0,1,2,3", "-2,3", "+", "+", "+", "-0,1"]
        assert second.events == ["+", "+2,3", "+", "-2,3"]
        reasons = [row.reason for row in brokers.received(JoinGroupRequest)]
        assert "partitions were given up for other members" in reasons
        assert reasons[-1] == "the group is rebalancing"


# --- what goes wrong -------------------------------------------------------------------------------


def join_error(code: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, leader="", member_id="", members=[])


@pytest.mark.parametrize("code", [14, 15, 16, 25, 27, 7])
async def test_errors_of_a_join_that_pass(code: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(JoinGroupRequest, join_error(code), lambda *_: None, join_error(code))
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 3)) == 40
        # Only what says so has the coordinator looked up again.
        assert len(brokers.received(FindCoordinatorRequest)) == (3 if code in (15, 16) else 1)


@pytest.mark.parametrize("code", [23, 24, 26, 30, 81, 82, 35])
async def test_errors_of_a_join_that_do_not_pass(code: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(JoinGroupRequest, join_error(code))
        consumer.subscribe(["orders"])
        with pytest.raises(KafkaError, match="cannot join group `g`") as caught:
            await consumer.poll()
        assert caught.value.code == code
        # The next poll tries again.
        assert len(await read(consumer, 3)) == 40


@pytest.mark.parametrize(("code", "joins"), [(22, 3), (25, 4), (27, 3), (15, 3), (16, 3)])
async def test_errors_of_a_sync(code: int, joins: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(SyncGroupRequest, SyncGroupResponse(error_code=code, assignment=b""))
        consumer.subscribe(["orders"])

        await read(consumer, 1)
        member_ids = [request.member_id for request in brokers.received(JoinGroupRequest)]
        assert len(member_ids) == joins
        # Only an unknown member needs another id.
        assert ("" in member_ids[1:]) is (code == 25)


async def test_a_fatal_error_of_a_sync_is_raised(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(SyncGroupRequest, SyncGroupResponse(error_code=30, assignment=b""))
        consumer.subscribe(["orders"])
        with pytest.raises(KafkaError) as caught:
            await consumer.poll()
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_lost_connection_is_made_again(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(JoinGroupRequest, Disconnect)
        brokers.script(SyncGroupRequest, Disconnect)
        brokers.script(OffsetFetchRequest, Disconnect)
        brokers.script(HeartbeatRequest, Disconnect)
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 10)) == 40
        assert consumer.is_settled


async def test_a_cancelled_poll_leaves_its_join_on_the_way(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        held = trio.Event()

        async def hold(*_: Any) -> None:
            await held.wait()

        brokers.script(JoinGroupRequest, lambda *_: None, hold)
        consumer.subscribe(["orders"])
        for _ in range(5):
            assert await consumer.poll(timeout_ms=100) == []
        held.set()
        assert len(await read(consumer, 1)) == 40
        assert len(brokers.received(JoinGroupRequest)) == 2


@pytest.mark.parametrize(
    ("code", "events", "member_id"),
    [
        (27, ["+0,1,2,3", "-0,1,2,3", "+0,1,2,3"], "member-1"),
        (22, ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3"], "member-1"),
        (25, ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3"], "member-2"),
    ],
)
async def test_heartbeats_tell_of_rebalances_and_losses(
    code: int, events: list[str], member_id: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            await read(consumer, 1)
            if code == 25:
                group.members.clear()
            brokers.script(HeartbeatRequest, HeartbeatResponse(error_code=code))
            await read(consumer, 4)
            assert diary.events == events
            assert consumer.group_metadata.member_id == member_id


async def test_a_fenced_instance_is_told_by_every_poll(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(group_id="g", group_instance_id="i1")
    async with grouped() as (brokers, client, _), Consumer(client, config) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        brokers.script(HeartbeatRequest, HeartbeatResponse(error_code=82))
        for _ in range(2):
            with pytest.raises(KafkaError, match="cannot stay in group `g`"):
                await consumer.poll()


async def test_heartbeats_are_sent_one_at_a_time_in_their_interval(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 31)
        assert len(brokers.received(HeartbeatRequest)) == 10


async def test_a_silent_coordinator_is_looked_up_again_after_the_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    config = ConsumerConfig(group_id="g", session_timeout_ms=10_000)
    async with grouped() as (brokers, client, _), Consumer(client, config) as consumer:
        consumer.subscribe(["orders"])
        brokers.script(HeartbeatRequest, NoAnswer)
        await read(consumer, 9)
        assert len(brokers.received(FindCoordinatorRequest)) == 1
        await read(consumer, 5)
        assert len(brokers.received(FindCoordinatorRequest)) == 2
        assert len(brokers.received(HeartbeatRequest)) > 1


async def test_who_stops_to_poll_leaves_and_has_lost(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(group_id="g", max_poll_interval_ms=20_000)
    async with grouped() as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, config) as consumer:
            consumer.subscribe(["orders"], diary)
            # One long poll is polling all the time.
            await consumer.poll(timeout_ms=60_000)
            await trio.sleep(19)
            assert list(group.members) == ["member-1"]
            await trio.sleep(2)
            assert group.members == {}
            (left,) = brokers.received(LeaveGroupRequest)
            assert left.members[0].reason == "consumer poll timeout has expired"
            with pytest.raises(CommitFailed):
                await consumer.commit()
            await read(consumer, 1)
        assert diary.events == ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3", "-0,1,2,3"]


# --- positions and commits -------------------------------------------------------------------------


async def test_commits_and_what_was_committed(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    async with grouped() as (brokers, client, group), Consumer(client, config) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        assert group.offsets == {}
        await consumer.commit({ORDERS[0]: CommittedOffset(3, metadata="m")})
        (request,) = brokers.received(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (1, "member-1")
        assert request.topics[0].partitions[0].committed_metadata == "m"
        await consumer.commit()
        assert committed(group) == dict.fromkeys(range(4), 10)
        group.offsets.pop(("orders", 3))
        found = await consumer.committed([ORDERS[0], ORDERS[3]])
        assert found == {ORDERS[0]: CommittedOffset(10), ORDERS[3]: None}
        with pytest.raises(NotAssigned):
            await consumer.commit({TopicPartition("orders", 9): CommittedOffset(1)})


async def test_commits_keep_their_order_and_report(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        told: list[Any] = []

        async def slowly(*_: Any) -> None:
            await trio.sleep(1)

        brokers.script(OffsetCommitRequest, slowly, lambda _, request, __: commit_answer(request, 14))
        for offset in (1, 2, 3):
            consumer.commit_nowait(
                {ORDERS[0]: CommittedOffset(offset)},
                lambda offsets, error: told.append((offsets[ORDERS[0]].offset, error and error.message)),
            )
        await consumer.commit({ORDERS[0]: CommittedOffset(4)})
        sent = [
            each.topics[0].partitions[0].committed_offset for each in brokers.received(OffsetCommitRequest)
        ]
        assert sent == [1, 2, 3, 4]  # what does not wait is tried once
        assert [offset for offset, _ in told] == [1, 2, 3]
        assert [error is None for _, error in told] == [True, False, True]


@pytest.mark.parametrize("code", [3, 7, 14, 15, 16])
async def test_a_commit_that_waits_is_tried_again(code: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        refuse = lambda _, request, __: commit_answer(request, code)  # noqa: E731
        brokers.script(OffsetCommitRequest, refuse, refuse)
        await consumer.commit()
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert len(brokers.received(FindCoordinatorRequest)) == (3 if code in (7, 15, 16) else 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [(22, CommitFailed), (25, CommitFailed), (27, KafkaError), (12, KafkaError), (28, KafkaError),
     (30, KafkaError), (29, KafkaError), (82, KafkaError)],
)  # fmt: skip
async def test_errors_of_a_commit_that_are_raised(
    code: int, error: type[KafkaError], autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        if code == 25:
            group.members.clear()
        brokers.script(OffsetCommitRequest, lambda _, request, __: commit_answer(request, code))
        with pytest.raises(error) as caught:
            await consumer.commit()
        assert caught.value.code == code
        # Who was told to, joins again.
        await read(consumer, 1)
        joined = {"member-1": 2, "member-2": 4}[consumer.group_metadata.member_id]
        if code in (22, 25, 27):
            joined += 1 if code != 25 else 0
        assert len(brokers.received(JoinGroupRequest)) == joined


async def test_a_commit_during_a_join_is_refused_here(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, COOPERATIVE) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        held = trio.Event()

        async def hold(*_: Any) -> None:
            await held.wait()

        brokers.script(JoinGroupRequest, hold)
        group.rebalance()
        await read(consumer, 4)
        with pytest.raises(KafkaError) as caught:
            await consumer.commit()
        assert caught.value.code is ErrorCode.REBALANCE_IN_PROGRESS
        held.set()
        await read(consumer, 1)
        await consumer.commit()


async def test_positions_are_committed_in_their_interval(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 4.5)
        assert group.offsets == {}
        # What is handed out by a poll counts only when the next one begins.
        fill(brokers, "orders", 1)
        await consumer.poll(1, timeout_ms=400)
        await trio.sleep(2)
        assert group.offsets == {}
        await read(consumer, 1)
        assert sum(committed(group).values()) == 41
        await read(consumer, 20)
        assert sum(committed(group).values()) == 44
        # Nothing is committed twice.
        assert len(brokers.received(OffsetCommitRequest)) == 2


async def test_without_a_commit_the_reset_strategy_decides(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(group_id="g", auto_offset_reset="none", enable_auto_commit=False)
    async with grouped() as (_, client, group), Consumer(client, config) as consumer:
        group.offsets["orders", 0] = 4
        consumer.subscribe(["orders"])
        with pytest.raises(KcliError, match="no valid offset to read from: orders-1"):
            await read(consumer, 5)
        assert await consumer.position(ORDERS[0]) >= 4


async def test_offsets_of_open_transactions_are_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    unstable = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[], error_code=88)])
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(OffsetFetchRequest, unstable, unstable)
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 2)) == 40
        assert all(request.require_stable for request in brokers.received(OffsetFetchRequest))
        assert len(brokers.received(OffsetFetchRequest)) == 3


async def test_a_refused_look_up_of_offsets_is_raised(autojump_clock: trio.testing.MockClock) -> None:
    refused = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[], error_code=30)])
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(OffsetFetchRequest, refused)
        consumer.subscribe(["orders"])
        with pytest.raises(KafkaError) as caught:
            await consumer.poll()
        assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_a_seek_comes_before_what_is_committed(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1) as (_, client, group):
        group.offsets["orders", 0] = 4

        async def seek(event: str) -> None:
            if event == "+0":
                consumer.seek(ORDERS[0], 8)

        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], Diary(during=seek))
            assert [offset for _, offset in await read(consumer, 1)] == [8, 9]


async def test_assigned_partitions_of_a_group_begin_where_it_committed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped(orders=1) as (brokers, client, group):
        group.offsets["orders", 0] = 6
        async with Consumer(client, CONFIG) as consumer:
            consumer.assign(ORDERS[:1])
            assert [offset for _, offset in await read(consumer, 1)] == [6, 7, 8, 9]
        # It commits as nobody, and there is nothing to leave.
        (request,) = brokers.received(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        assert committed(group) == {0: 10}
        assert brokers.received(JoinGroupRequest) == brokers.received(LeaveGroupRequest) == []


# --- subscriptions ---------------------------------------------------------------------------------


async def test_ways_to_subscribe_exclude_each_other(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        for attempt in (
            lambda: consumer.assign(ORDERS),
            lambda: consumer.subscribe(re.compile("o.*")),
        ):
            with pytest.raises(SubscriptionConflict):
                attempt()
        await consumer.unsubscribe()
        consumer.assign(ORDERS)
        with pytest.raises(SubscriptionConflict):
            consumer.subscribe(["orders"])


async def test_a_group_needs_a_name(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client) as consumer:
        with pytest.raises(KafkaError, match="no group"):
            consumer.subscribe(["orders"])


async def test_another_subscription_joins_again(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1, bills=1, other=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, COOPERATIVE) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            await read(consumer, 1)
            consumer.subscribe(["orders", "other"])
            await read(consumer, 1)
            assert {partition.topic for partition in consumer.assignment} == {"orders", "other"}
            # Only the dropped topic is given up, and only the new one is news.
            assert diary.events == ["+0,0", "-0", "+0"]
        assert [each.reason for each in brokers.received(JoinGroupRequest)][
            -1
        ] == "the subscription has changed"


async def test_unsubscribing_leaves_the_group(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, group), Consumer(client, CONFIG) as consumer:
        diary = Diary()
        consumer.subscribe(["orders"], diary)
        await read(consumer, 1)
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription, group.members) == (set(), set(), {})
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert await consumer.poll(timeout_ms=100) == []
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        assert consumer.assignment == set(ORDERS)


async def test_a_pattern_follows_the_topics_there_are(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=5_000)
    async with grouped(config, log1=1, other=1, __consumer_offsets=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(re.compile("log.*|__.*"), diary)
            await read(consumer, 1)
            assert consumer.subscription == {"log1"}
            brokers.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            assert len(await read(consumer, 6)) == 6
            assert consumer.subscription == {"log1", "log2"}
            del brokers.topics["log1"]
            await read(consumer, 6)
            assert {partition.topic for partition in consumer.assignment} == {"log2"}
        assert diary.events == ["+0", "-0", "+0,0,1", "-0,0,1", "+0,1", "-0,1"]
        # Each change takes one round: the metadata was fresh.
        assert len(brokers.received(SyncGroupRequest)) == 3


async def test_added_partitions_and_late_topics_are_picked_up(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=5_000)
    async with grouped(config, orders=1) as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders", "late"])
        await read(consumer, 1)
        assert consumer.assignment == {ORDERS[0]}
        brokers.add_topic("late", 1)
        await read(consumer, 2)  # what is missing is asked for again and again
        assert consumer.assignment == {ORDERS[0], TopicPartition("late", 0)}
        brokers.topics["orders"] += brokers.topics["orders"]
        await read(consumer, 6)
        assert consumer.assignment == {*ORDERS[:2], TopicPartition("late", 0)}


# --- static members, leaving -----------------------------------------------------------------------


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
        # No bytes at all are no partitions.
        assert consumer.assignment == set()


async def test_the_end_of_the_block_is_not_cut_short(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, group):
        diary = Diary()
        with trio.CancelScope() as scope:
            async with Consumer(client, CONFIG) as consumer:
                consumer.subscribe(["orders"], diary)
                await read(consumer, 1)
                scope.cancel()
                await trio.sleep_forever()
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert group.members == {}


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
    """What a poll shields and the end of the block have their time together."""

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
        # The listener is told when everything is committed.
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

            # The join is answered just before the commit aside arrives.
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


async def test_fetches_and_searches_for_offsets_go_to_leaders(autojump_clock: trio.testing.MockClock) -> None:
    """Only the group's own requests go to the coordinator."""
    async with fake_cluster(nodes=3, topics={"orders": 3}) as (brokers, client):
        FakeGroup(brokers)
        brokers.coordinators = {"g": 3}
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 4)
        asked: dict[str, set[int]] = {}
        for row in brokers.requests:
            asked.setdefault(type(row.request).__name__, set()).add(row.node_id)
        for request in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetFetchRequest,
                        OffsetCommitRequest, LeaveGroupRequest):  # fmt: skip
            assert asked[request.__name__] == {3}, request
        assert asked[FetchRequest.__name__] == asked[ListOffsetsRequest.__name__] == {1, 2, 3}
