"""A member that its group goes on without: one line reports it, and none an ordinary rebalance."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.client.fake_brokers import FakeBrokers
from tests.client.groups.consumer_member import CONFIG as MODERN
from tests.client.groups.consumer_member import Heartbeat, refusal
from tests.client.groups.consumer_member import grouped as modern_group
from tests.client.groups.fake_group import FakeGroup
from tests.client.groups.grouped_consumer import CONFIG, COOPERATIVE, grouped, read

Group = Callable[[], AbstractAsyncContextManager[Any]]
AGAIN = "what it read and did not commit may be read again"
NO_MEMBER = f"this member lost its place in group `g`: the group has no such member; {AGAIN}"
FENCED = f"this member lost its place in group `g`: the coordinator fenced it; {AGAIN}"
NOT_POLLED = f"this member lost its place in group `g`: consumer poll timeout has expired; {AGAIN}"


@asynccontextmanager
async def subscribed(
    config: ConsumerConfig, topic: str = "orders", *, group: Group = grouped
) -> AsyncIterator[tuple[FakeBrokers, Consumer, Any, list[str]]]:
    """The only member of a group, which has joined it: brokers, the member, coordinator, warnings.

    It leaves the group at the end, which must cause no warning either.
    """
    warnings: list[str] = []
    async with group() as (brokers, client, coordinator):
        async with Consumer(client, config, warn=warnings.append) as consumer:
            consumer.subscribe([topic])
            await read(consumer, 1)
            yield brokers, consumer, coordinator, warnings
            told = list(warnings)
        assert warnings == told


def drop(group: FakeGroup) -> None:
    """Expire the session of the only member."""
    (member_id,) = group.members
    group.expire(member_id)


@pytest.mark.parametrize("config", [CONFIG, COOPERATIVE])
async def test_a_session_that_expired_is_told(
    config: ConsumerConfig, autojump_clock: trio.testing.MockClock
) -> None:
    async with subscribed(config) as (_, consumer, group, warnings):
        drop(group)
        await read(consumer, 10)
        assert warnings == [NO_MEMBER]
        drop(group)
        await read(consumer, 10)
        assert warnings == [NO_MEMBER, NO_MEMBER]


@pytest.mark.parametrize("code", [25, 110])
async def test_a_fenced_member_of_the_consumer_protocol_is_told(
    code: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with subscribed(MODERN, group=modern_group) as (brokers, consumer, _, warnings):
        brokers.script(Heartbeat, refusal(code))
        await read(consumer, 10)
        assert consumer.is_settled
        assert warnings == [FENCED]


@pytest.mark.parametrize(("config", "group"), [(CONFIG, grouped), (MODERN, modern_group)])
async def test_who_was_not_polled_is_told(
    config: ConsumerConfig, group: Group, autojump_clock: trio.testing.MockClock
) -> None:
    config = config.changed(max_poll_interval_ms=20_000)
    async with subscribed(config, group=group) as (_, consumer, _, warnings):
        await trio.sleep(30)
        assert warnings == []
        await read(consumer, 10)
        assert consumer.is_settled
        assert warnings == [NOT_POLLED]


@pytest.mark.parametrize("config", [CONFIG, COOPERATIVE])
async def test_a_rebalance_is_no_news(config: ConsumerConfig, autojump_clock: trio.testing.MockClock) -> None:
    async with subscribed(config) as (brokers, consumer, group, warnings):
        brokers.script(HeartbeatRequest, HeartbeatResponse(error_code=27))
        await read(consumer, 10)
        group.rebalance()
        await read(consumer, 10)
        await consumer.unsubscribe()
        consumer.subscribe(["orders"])
        await read(consumer, 10)
        assert warnings == []


async def test_who_has_nothing_to_lose_is_not_told(autojump_clock: trio.testing.MockClock) -> None:
    async with subscribed(CONFIG, "elsewhere") as (_, consumer, group, warnings):
        drop(group)
        await read(consumer, 10)
        assert len(group.members) == 1
        assert warnings == []
