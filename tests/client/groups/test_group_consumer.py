"""A consumer in a group: it joins, shares and hands over partitions, and meets errors."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.admin.group_offsets import CommitFailed
from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.consumer_protocol import decode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest
from kcli.protocol.messages.list_offsets import ListOffsetsRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.fake_brokers import Disconnect, NoAnswer, fake_cluster
from tests.client.groups.fake_group import FakeGroup
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
                assert (
                    await read(one, 4) == []
                )  # nothing twice: positions were committed before the revocation
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
            # A delayed rebalance does not stop reading of kept partitions.
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


# --- what goes wrong -------------------------------------------------------------------------------


def join_error(code: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, leader="", member_id="", members=[])


@pytest.mark.parametrize("code", [14, 15, 16, 25, 27, 7])
async def test_errors_of_a_join_that_pass(code: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(JoinGroupRequest, join_error(code), lambda *_: None, join_error(code))
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 3)) == 40
        # Only these errors look up the coordinator again.
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
            # One long poll counts as polling.
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
