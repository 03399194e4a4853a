"""A member of the consumer protocol: it joins, reconciles, is fenced, and fails."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.admin.group_offsets import CommitFailed
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.client.network.connection import UnsupportedVersion
from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.client.fake_brokers import Disconnect, NoAnswer
from tests.client.groups.consumer_member import (
    CONFIG,
    MANUAL,
    STATIC,
    Heartbeat,
    committed,
    epochs,
    grouped,
    refusal,
)
from tests.client.groups.grouped_consumer import ORDERS, Diary, fill, read


async def test_the_first_member_gets_everything(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):
        group.commit({("orders", 2): 7})
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            records = await read(consumer, 1)
            assert consumer.assignment == set(ORDERS)
            assert consumer.subscription == {"orders"}
            name, epoch, member_id, instance_id = consumer.group_metadata
            assert (name, epoch, instance_id) == ("g", 2, None)
            assert group.outline() == {member_id: "2 stable orders0 orders1 orders2 orders3"}
            assert consumer.is_settled
        assert len(records) == 33
        assert min(offset for partition, offset in records if partition.partition == 2) == 7
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert group.consumer_group().members == {}
        joining, acknowledging, leaving = brokers.received(Heartbeat)
        assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["orders"])
        assert (joining.rebalance_timeout_ms, joining.topic_partitions) == (300_000, [])
        assert (acknowledging.member_epoch, acknowledging.subscribed_topic_names) == (2, None)
        assert [sorted(entry.partitions) for entry in acknowledging.topic_partitions] == [[0, 1, 2, 3]]
        assert (leaving.member_epoch, leaving.topic_partitions) == (-1, None)
        assert {each.member_id for each in brokers.received(Heartbeat)} == {member_id}
        # Commits and reads carry the member's id and epoch.
        (commit,) = brokers.received(OffsetCommitRequest)
        assert (commit.generation_id_or_member_epoch, commit.member_id) == (2, member_id)
        (fetch,) = brokers.received(OffsetFetchRequest)
        assert (fetch.groups[0].member_epoch, fetch.groups[0].member_id) == (2, member_id)


async def test_heartbeats_keep_the_interval_of_the_coordinator(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        told = len(brokers.received(Heartbeat))
        await read(consumer, 50)
        later = brokers.received(Heartbeat)[told:]
        assert len(later) == 10
        # They carry no changes.
        assert {each.topic_partitions for each in later} == {None}
        assert {each.subscribed_topic_names for each in later} == {None}


async def test_partitions_move_once_they_are_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), trio.open_nursery() as nursery:
        first, second = Diary(), Diary()
        async with Consumer(client, CONFIG) as one:
            one.subscribe(["orders"], first)
            assert len(await read(one, 4)) == 40
            async with Consumer(client, CONFIG) as other:
                other.subscribe(["orders"], second)
                seen: list[Any] = []

                async def read_other() -> None:
                    seen.extend(await read(other, 15))

                nursery.start_soon(read_other)
                await trio.sleep(0.1)
                # No partition is free yet, and the member knows that it may get some later.
                assert (other.assignment, other.is_settled) == (set(), False)
                assert (
                    await read(one, 12) == []
                )  # nothing twice: positions were committed before the revocation
                assert other.is_settled
                fill(brokers, "orders", 5)
                again = await read(one, 3)
                assert {partition for partition, _ in again} == one.assignment
                assert {partition for partition, _ in seen} == other.assignment
                assert {offset for _, offset in again + seen} == set(range(10, 15))
                assert one.assignment | other.assignment == set(ORDERS)
                assert len(one.assignment) == len(other.assignment) == 2
        assert first.events[0] == "+0,1,2,3"
        assert [event[0] for event in first.events] == ["+", "-", "+", "-"]
        assert [event[0] for event in second.events] == ["+", "+", "-"]
        assert (first.events[2], second.events[0]) == ("+", "+")
        assert committed(group) == dict.fromkeys(range(4), 15)


async def test_what_stays_is_read_all_the_while(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        grouped() as (_, client, group),
        trio.open_nursery() as nursery,
        Consumer(client, MANUAL) as one,
        Consumer(client, MANUAL) as other,
    ):
        one.subscribe(["orders"])
        await read(one, 1)
        other.subscribe(["orders"])
        nursery.start_soon(read, other, 12)
        await read(one, 12)
        assert len(one.assignment) == len(other.assignment) == 2
        assert all(one.position_nowait(partition) == 10 for partition in one.assignment)
        # Without auto-commit, a revocation does not commit.
        assert committed(group) == {}


async def test_a_session_that_ended_is_begun_anew(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            await read(consumer, 1)
            member_id = consumer.group_metadata.member_id
            group.advance(50_000)
            assert await read(consumer, 6) != []
            assert consumer.group_metadata.member_id == member_id
            assert consumer.assignment == set(ORDERS)
        assert diary.events == ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3", "-0,1,2,3"]
        assert 0 in epochs(brokers)[1:]


@pytest.mark.parametrize("code", [110, 25])
async def test_a_fenced_member_has_lost_and_joins_again_at_once(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            await read(consumer, 1)
            brokers.script(Heartbeat, refusal(code))
            await read(consumer, 4.5)
            assert diary.events == ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3"]
            assert consumer.is_settled


@pytest.mark.parametrize("code", [14, 15, 16, 7])
async def test_errors_of_a_heartbeat_that_pass(code: int, autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(Heartbeat, refusal(code), lambda *_: None, refusal(code))
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 3)) == 40
        assert len(brokers.received(FindCoordinatorRequest)) == (3 if code in (15, 16) else 1)
        # The coordinator may have missed fields, so all are sent again.
        again = brokers.received(Heartbeat)[3]
        assert (again.member_epoch, again.subscribed_topic_names) == (2, ["orders"])
        assert [sorted(entry.partitions) for entry in again.topic_partitions] == [[0, 1, 2, 3]]


@pytest.mark.parametrize("code", [24, 30, 35, 42, 69, 81, 82, 111, 112, 128])
async def test_errors_of_a_heartbeat_that_do_not_pass(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(Heartbeat, refusal(code, "for a reason"))
        consumer.subscribe(["orders"])
        for _ in range(2):
            with pytest.raises(KafkaError, match="cannot join group `g`: for a reason") as caught:
                await consumer.poll()
            assert caught.value.code == code
        assert len(brokers.received(Heartbeat)) == 1


async def test_a_member_that_fails_has_lost_what_it_had(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, STATIC) as consumer:
            consumer.subscribe(["orders"], diary)
            await read(consumer, 1)
            brokers.script(Heartbeat, refusal(82))
            with pytest.raises(KafkaError, match="cannot stay in group `g`"):
                await read(consumer, 10)
            with pytest.raises(CommitFailed):
                await consumer.commit()
        assert diary.events == ["+0,1,2,3", "!0,1,2,3"]


async def test_a_broker_without_the_protocol_is_named(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.hidden.add(Heartbeat)
        brokers.disconnect(1)
        consumer.subscribe(["orders"])
        with pytest.raises(UnsupportedVersion, match="does not support ConsumerGroupHeartbeat") as caught:
            await consumer.poll()
        assert "`group.protocol` to classic" in (caught.value.hint or "")


async def test_a_lost_connection_is_made_again(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(Heartbeat, Disconnect, lambda *_: None, Disconnect, lambda *_: None, Disconnect)
        brokers.script(OffsetFetchRequest, Disconnect)
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 10)) == 40
        assert consumer.is_settled


async def test_a_silent_coordinator_is_looked_up_again(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(request_timeout_ms=4_000)
    async with grouped(config) as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        brokers.script(Heartbeat, NoAnswer)
        await read(consumer, 10)
        assert len(brokers.received(FindCoordinatorRequest)) == 2
        assert consumer.is_settled


async def test_who_stops_to_poll_leaves_and_has_lost(autojump_clock: trio.testing.MockClock) -> None:
    config = ConsumerConfig(
        group_id="g", group_protocol="consumer", max_poll_interval_ms=20_000, auto_offset_reset="earliest"
    )
    async with grouped() as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, config) as consumer:
            consumer.subscribe(["orders"], diary)
            await read(consumer, 1)
            # One long poll counts as polling.
            await consumer.poll(timeout_ms=60_000)
            await trio.sleep(19)
            assert len(group.consumer_group().members) == 1
            await trio.sleep(2)
            assert group.consumer_group().members == {}
            assert epochs(brokers)[-1] == -1
            assert consumer.group_metadata.generation_id == -1
            with pytest.raises(CommitFailed):
                await consumer.commit()
            await read(consumer, 1)
            assert consumer.assignment == set(ORDERS)
        assert diary.events == ["+0,1,2,3", "!0,1,2,3", "+0,1,2,3", "-0,1,2,3"]
