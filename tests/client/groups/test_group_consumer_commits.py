"""A consumer in a group: the positions it commits, and those it starts at."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.admin.group_offsets import CommitFailed
from kcli.client.admin.types import CommittedOffset
from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.fetch.subscription_state import NotAssigned
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kcli.protocol.topics import TopicPartition
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
        assert sent == [1, 2, 3, 4]  # an unawaited commit is tried once
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
        # The member joins again.
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
        # Records of a poll count as read when the next poll begins.
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
        # It commits without a member id, and there is no group to leave.
        (request,) = brokers.received(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        assert committed(group) == {0: 10}
        assert brokers.received(JoinGroupRequest) == brokers.received(LeaveGroupRequest) == []
