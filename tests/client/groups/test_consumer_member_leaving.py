"""A member of the consumer protocol: how it leaves, and how a static one returns."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kcli.client.consumer.consumer import Consumer
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from tests.client.fake_brokers import NoAnswer
from tests.client.groups.consumer_member import CONFIG, STATIC, Heartbeat, epochs, grouped, refusal
from tests.client.groups.grouped_consumer import ORDERS, Diary, read


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
