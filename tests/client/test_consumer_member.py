"""A consumer as a member of the consumer protocol: joins, reconciles, is fenced, commits, and leaves."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
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
from kcli.client.topic_subscription import SubscriptionConflict, SubscriptionPattern
from kcli.client.versions import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from kcli.protocol.schema import message_info
from tests.client.fake_brokers import Disconnect, FakeBrokers, NoAnswer, fake_cluster
from tests.client.fake_consumer_group import FakeConsumerGroup
from tests.client.fake_group import commit_answer
from tests.client.test_group_consumer import Diary, fill, read

ORDERS = [TopicPartition("orders", index) for index in range(4)]
CONFIG = ConsumerConfig(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
STATIC = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", group_instance_id="i1"
)
MANUAL = ConsumerConfig(
    group_id="g", group_protocol="consumer", auto_offset_reset="earliest", enable_auto_commit=False
)
Grouped = tuple[FakeBrokers, Client, FakeConsumerGroup]
Heartbeat = ConsumerGroupHeartbeatRequest


@asynccontextmanager
async def grouped(config: ClientConfig | None = None, **topics: int) -> AsyncIterator[Grouped]:
    """Brokers with topics of ten records a partition, a client, and the group's coordinator."""
    async with fake_cluster(config, topics=topics or {"orders": 4}) as (brokers, client):
        for name in brokers.topics:
            fill(brokers, name, 10)
        yield brokers, client, FakeConsumerGroup(brokers)


def committed(group: FakeConsumerGroup) -> dict[int, int]:
    return {index: offset for (_, index), offset in sorted(group.offsets().items())}


def refusal(code: int, why: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=why)


def epochs(brokers: FakeBrokers) -> list[int]:
    return [request.member_epoch for request in brokers.received(Heartbeat)]


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
            assert (name, epoch, instance_id) == ("g", 1, None)
            assert group.outline() == {member_id: "1 stable orders0 orders1 orders2 orders3"}
            assert consumer.is_settled
        assert len(records) == 33
        assert min(offset for partition, offset in records if partition.partition == 2) == 7
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert group.consumer_group().members == {}
        joining, acknowledging, leaving = brokers.received(Heartbeat)
        assert (joining.member_epoch, joining.subscribed_topic_names) == (0, ["orders"])
        assert (joining.rebalance_timeout_ms, joining.topic_partitions) == (300_000, [])
        assert (acknowledging.member_epoch, acknowledging.subscribed_topic_names) == (1, None)
        assert [sorted(entry.partitions) for entry in acknowledging.topic_partitions] == [[0, 1, 2, 3]]
        assert (leaving.member_epoch, leaving.topic_partitions) == (-1, None)
        assert {each.member_id for each in brokers.received(Heartbeat)} == {member_id}
        # What is committed and read is so in the member's name and epoch.
        (commit,) = brokers.received(OffsetCommitRequest)
        assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, member_id)
        (fetch,) = brokers.received(OffsetFetchRequest)
        assert (fetch.groups[0].member_epoch, fetch.groups[0].member_id) == (1, member_id)


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
        # They say nothing but that the member lives.
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
                # Nothing is free yet, and the member knows that it may be given something later.
                assert (other.assignment, other.is_settled) == (set(), False)
                assert await read(one, 12) == []  # nothing twice: it was committed before it was given up
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
        # Where commits do not happen by themselves, giving up is no reason for one.
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
        # It is not known what the coordinator heard, so it is told all again.
        again = brokers.received(Heartbeat)[3]
        assert (again.member_epoch, again.subscribed_topic_names) == (1, ["orders"])
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
        assert "`group.protocol` classic" in (caught.value.hint or "")


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
            # One long poll is polling all the time.
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


# --- positions and commits -------------------------------------------------------------------------


async def test_a_stale_epoch_is_committed_again_in_the_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        # Another member comes, so the coordinator goes on to epochs that this one has yet to hear of.
        brokers.script(OffsetCommitRequest, *[lambda _, request, __: commit_answer(request, 113)] * 3)
        await consumer.commit({ORDERS[0]: CommittedOffset(3)})
        assert committed(group) == {0: 3}
        assert len(brokers.received(OffsetCommitRequest)) == 4


@pytest.mark.parametrize(
    ("code", "error"),
    [(25, CommitFailed), (110, CommitFailed), (12, KafkaError), (28, KafkaError), (30, KafkaError)],
)
async def test_errors_of_a_commit_that_are_raised(
    code: int, error: type[KafkaError], autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        diary = Diary()
        consumer.subscribe(["orders"], diary)
        await read(consumer, 1)
        brokers.script(OffsetCommitRequest, lambda _, request, __: commit_answer(request, code))
        with pytest.raises(error) as caught:
            await consumer.commit()
        assert caught.value.code == code
        await read(consumer, 1)
        again = ["!0,1,2,3", "+0,1,2,3"] if error is CommitFailed else []
        assert diary.events == ["+0,1,2,3", *again]


@pytest.mark.parametrize("code", [113, 25, 14])
async def test_a_look_up_of_offsets_in_an_old_epoch_passes(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    refused = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[], error_code=code)])
    async with grouped() as (brokers, client, _), Consumer(client, CONFIG) as consumer:
        brokers.script(OffsetFetchRequest, refused, refused)
        consumer.subscribe(["orders"])
        assert len(await read(consumer, 2)) == 40
        brokers.script(OffsetFetchRequest, refused)
        assert await consumer.committed(ORDERS[:1]) == {ORDERS[0]: None}


async def test_positions_are_committed_in_their_interval(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders"])
        await read(consumer, 4.5)
        assert group.offsets() == {}
        await read(consumer, 1)
        assert committed(group) == dict.fromkeys(range(4), 10)
        await read(consumer, 20)
        assert len(brokers.received(OffsetCommitRequest)) == 1


async def test_assigned_partitions_commit_as_nobody(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1) as (brokers, client, group):
        group.commit({("orders", 0): 6})
        async with Consumer(client, CONFIG) as consumer:
            consumer.assign(ORDERS[:1])
            assert [offset for _, offset in await read(consumer, 1)] == [6, 7, 8, 9]
        (request,) = brokers.received(OffsetCommitRequest)
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
        assert committed(group) == {0: 10}
        assert brokers.received(Heartbeat) == []


# --- subscriptions ---------------------------------------------------------------------------------


async def test_another_subscription_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1, bills=1, other=1) as (brokers, client, _):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            await read(consumer, 1)
            consumer.subscribe(["orders", "other"])
            await read(consumer, 1)
            assert {partition.topic for partition in consumer.assignment} == {"orders", "other"}
            # Only the dropped topic is given up, and only the new one is news.
            assert diary.events == ["+0,0", "-0", "+", "+0"]
        names = [request.subscribed_topic_names for request in brokers.received(Heartbeat)]
        assert [each for each in names if each] == [["bills", "orders"], ["orders", "other"]]


async def test_a_pattern_is_matched_here(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=3_000)
    async with grouped(config, log1=1, other=1, __consumer_offsets=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(re.compile("log.*|__.*"), diary)
            await read(consumer, 1)
            assert consumer.subscription == {"log1"}
            group.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            assert len(await read(consumer, 4)) == 6
            assert consumer.subscription == {"log1", "log2"}
            group.delete_topic("log1")
            await read(consumer, 10)
            assert {partition.topic for partition in consumer.assignment} == {"log2"}
        assert diary.events == ["+0", "+0,1", "-0", "+", "-0,1"]


async def test_an_expression_is_matched_by_the_broker(autojump_clock: trio.testing.MockClock) -> None:
    config = ClientConfig(metadata_max_age_ms=100_000)
    async with grouped(config, log1=1, other=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(SubscriptionPattern("log[0-9]"), diary)
            assert len(await read(consumer, 1)) == 10
            assert consumer.subscription == {"log1"}
            group.add_topic("log2", 2)
            fill(brokers, "log2", 3)
            # Long before the metadata is old: a topic that it does not know is asked for.
            assert len(await read(consumer, 8)) == 6
            assert consumer.subscription == {"log1", "log2"}
        assert diary.events == ["+0", "+0,1", "-0,0,1"]
        told = [request.subscribed_topic_regex for request in brokers.received(Heartbeat)]
        assert [each for each in told if each] == ["log[0-9]"]


async def test_an_expression_needs_a_broker_that_knows_it(autojump_clock: trio.testing.MockClock) -> None:
    async with fake_cluster(topics={"orders": 1}) as (brokers, client):
        FakeConsumerGroup(brokers)
        brokers.max_versions[message_info(Heartbeat).key] = 0
        async with Consumer(client, CONFIG) as consumer:
            brokers.disconnect(1)
            consumer.subscribe(SubscriptionPattern("log.*"))
            with pytest.raises(UnsupportedVersion, match="needed is 1"):
                await consumer.poll()


async def test_an_expression_that_is_none_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(SubscriptionPattern("log("))
        with pytest.raises(KafkaError) as caught:
            await consumer.poll()
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_ways_to_subscribe_exclude_each_other(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(SubscriptionPattern("o.*"))
        for attempt in (
            lambda: consumer.assign(ORDERS),
            lambda: consumer.subscribe(["orders"]),
            lambda: consumer.subscribe(re.compile("o.*")),
        ):
            with pytest.raises(SubscriptionConflict):
                attempt()
        await consumer.unsubscribe()
        consumer.assign(ORDERS)
        classic = ConsumerConfig(group_id="g")
        async with Consumer(client, classic) as other:
            with pytest.raises(KcliError, match="members of the consumer protocol"):
                other.subscribe(SubscriptionPattern("o.*"))


async def test_added_partitions_and_late_topics_are_picked_up(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped(orders=1) as (brokers, client, group), Consumer(client, CONFIG) as consumer:
        consumer.subscribe(["orders", "late"])
        await read(consumer, 1)
        assert consumer.assignment == {ORDERS[0]}
        group.add_topic("late", 1)
        await read(consumer, 6)
        assert consumer.assignment == {ORDERS[0], TopicPartition("late", 0)}
        brokers.topics["orders"] += brokers.topics["orders"]
        group.topics(orders=2)
        await read(consumer, 6)
        assert consumer.assignment == {*ORDERS[:2], TopicPartition("late", 0)}


async def test_a_topic_created_anew_is_read_from_its_beginning(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped(orders=1) as (brokers, client, group):
        diary = Diary()
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders"], diary)
            assert len(await read(consumer, 1)) == 10
            group.delete_topic("orders")
            group.add_topic("orders", 1)
            fill(brokers, "orders", 3)
            assert [offset for _, offset in await read(consumer, 8)] == [0, 1, 2]
        assert diary.events[:4] == ["+0", "-0", "+", "+0"]


# --- static members, leaving -----------------------------------------------------------------------


async def test_a_static_member_comes_back_without_having_left(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):
        for _ in range(2):
            async with Consumer(client, STATIC) as consumer:
                consumer.subscribe(["orders"])
                await read(consumer, 4)
                assert consumer.group_metadata.instance_id == "i1"
                assert consumer.assignment == set(ORDERS)
        assert [epoch for epoch in epochs(brokers) if epoch < 0] == [-2, -2]
        assert {each.instance_id for each in brokers.received(Heartbeat)} == {"i1"}
        assert len(group.consumer_group().members) == 1
        assert {each.group_instance_id for each in brokers.received(OffsetCommitRequest)} == {"i1"}


async def test_an_instance_that_is_in_use_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, _), Consumer(client, STATIC) as one:
        one.subscribe(["orders"])
        await read(one, 1)
        async with Consumer(client, STATIC) as other:
            other.subscribe(["orders"])
            with pytest.raises(KafkaError) as caught:
                await other.poll()
            assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
            assert caught.value.hint == "every member needs a `group.instance.id` of its own"


async def test_unsubscribing_leaves_the_group(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (_, client, group), Consumer(client, CONFIG) as consumer:
        diary = Diary()
        consumer.subscribe(["orders"], diary)
        await read(consumer, 1)
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription) == (set(), set())
        assert group.consumer_group().members == {}
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert committed(group) == dict.fromkeys(range(4), 10)
        assert await consumer.poll(timeout_ms=100) == []
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        assert consumer.assignment == set(ORDERS)


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
        assert group.consumer_group().members == {}


@pytest.mark.parametrize("request_class", [OffsetCommitRequest, Heartbeat])
async def test_the_end_of_the_block_does_not_take_for_ever(
    request_class: type[Any], autojump_clock: trio.testing.MockClock
) -> None:
    async with grouped() as (brokers, client, _):
        async with Consumer(client, CONFIG, close_seconds=5) as consumer:
            consumer.subscribe(["orders"])
            await read(consumer, 1)
            brokers.script(request_class, NoAnswer)
            start = trio.current_time()
        assert trio.current_time() - start == pytest.approx(5)


async def test_a_block_that_is_cancelled_while_it_reconciles_ends_in_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with grouped(orders=4, bills=1) as (brokers, client, _):
        warnings: list[str] = []
        with trio.CancelScope() as scope:
            async with Consumer(client, CONFIG, close_seconds=5, warn=warnings.append) as consumer:
                consumer.subscribe(["orders", "bills"])
                await read(consumer, 1)
                brokers.script(OffsetCommitRequest, NoAnswer)
                consumer.subscribe(["orders"])
                scope.deadline = trio.current_time() + 1
                await read(consumer, 20)
        assert trio.current_time() - scope.deadline == pytest.approx(5)
        assert len(warnings) == 1


async def test_who_ends_while_it_joins_has_left(autojump_clock: trio.testing.MockClock) -> None:
    async with grouped() as (brokers, client, group):

        async def slowly(*_: Any) -> None:
            await trio.sleep(2)

        async with Consumer(client, CONFIG) as consumer:
            brokers.script(Heartbeat, slowly)
            consumer.subscribe(["orders"])
            await read(consumer, 1)
        assert epochs(brokers) == [0, -1]
        assert group.consumer_group().members == {}


async def test_a_listener_that_fails_leaves_the_member_whole(autojump_clock: trio.testing.MockClock) -> None:
    async def fail(event: str) -> None:
        if len(diary.events) < 3:
            raise KcliError(f"refused {event}")

    async with grouped(orders=4, bills=1) as (_, client, group):
        diary = Diary(during=fail)
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            with pytest.raises(KcliError, match=r"refused \+0,0,1,2,3"):
                await read(consumer, 1)
            assert len(await read(consumer, 1)) == 50
            consumer.subscribe(["orders"])
            with pytest.raises(KcliError, match="refused -0"):
                await read(consumer, 1)
            await read(consumer, 1)
            assert consumer.assignment == set(ORDERS)
            member_id = consumer.group_metadata.member_id
            assert group.outline()[member_id].endswith("stable orders0 orders1 orders2 orders3")
        assert diary.events == ["+0,0,1,2,3", "-0", "-0,1,2,3"]


async def test_a_member_fenced_while_it_gives_up_has_lost_the_rest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def dawdle(event: str) -> None:
        if event == "-0":
            brokers.script(Heartbeat, refusal(110))
            await trio.sleep(6)

    async with grouped(orders=4, bills=1) as (brokers, client, _):
        diary = Diary(during=dawdle)
        async with Consumer(client, CONFIG) as consumer:
            consumer.subscribe(["orders", "bills"], diary)
            await read(consumer, 1)
            consumer.subscribe(["orders"])
            await read(consumer, 8)
            assert consumer.assignment == set(ORDERS)
        assert diary.events == ["+0,0,1,2,3", "-0", "!0,1,2,3", "+0,1,2,3", "-0,1,2,3"]
