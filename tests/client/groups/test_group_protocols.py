"""Properties of a consumer in a group of either protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import trio

from kcli.client.config import ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from tests.client.groups import consumer_member, grouped_consumer
from tests.client.groups.grouped_consumer import ORDERS, Diary, read


class Protocol(NamedTuple):
    """How a group of a protocol is made, and its properties."""

    config: ConsumerConfig
    grouped: Callable[..., Any]
    committed: Callable[[Any], dict[int, int]]
    members: Callable[[Any], dict[str, Any]]


CLASSIC = Protocol(
    grouped_consumer.CONFIG, grouped_consumer.grouped, grouped_consumer.committed, lambda group: group.members
)
CONSUMER = Protocol(
    consumer_member.CONFIG,
    consumer_member.grouped,
    consumer_member.committed,
    lambda group: group.consumer_group().members,
)
either = pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER], ids=["classic", "consumer"])


@either
async def test_unsubscribing_leaves_the_group(
    protocol: Protocol, autojump_clock: trio.testing.MockClock
) -> None:
    async with protocol.grouped() as (_, client, group), Consumer(client, protocol.config) as consumer:
        diary = Diary()
        consumer.subscribe(["orders"], diary)
        await read(consumer, 1)
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription, protocol.members(group)) == (set(), set(), {})
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert protocol.committed(group) == dict.fromkeys(range(4), 10)
        assert await consumer.poll(timeout_ms=100) == []
        consumer.subscribe(["orders"])
        await read(consumer, 1)
        assert consumer.assignment == set(ORDERS)


@either
async def test_the_end_of_the_block_is_not_cut_short(
    protocol: Protocol, autojump_clock: trio.testing.MockClock
) -> None:
    async with protocol.grouped() as (_, client, group):
        diary = Diary()
        with trio.CancelScope() as scope:
            async with Consumer(client, protocol.config) as consumer:
                consumer.subscribe(["orders"], diary)
                await read(consumer, 1)
                scope.cancel()
                await trio.sleep_forever()
        assert diary.events == ["+0,1,2,3", "-0,1,2,3"]
        assert protocol.committed(group) == dict.fromkeys(range(4), 10)
        assert protocol.members(group) == {}
