"""Partitions without a leader: commands tell what they wait for, and give up at their timeout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kcli.client.client import Client
from kcli.client.config import ClientConfig, ConsumerConfig
from kcli.client.consumer.consumer import Consumer
from kcli.commands.consume.formatters import make_formatter
from kcli.commands.consume.reading import Choice, End, Reading, Start, ends_in_time, print_records
from kcli.commands.shared.options import ClusterAddress
from kcli.commands.shared.runner import flatten
from kcli.commands.topics.offsets import get_offsets
from kcli.errors import KcliError
from tests.client.fake_brokers import fake_cluster
from tests.client.fetch.fetched_batches import ORDERS_0

NO_LEADER = "the partition has no leader at the moment"
WARNING = f"warning: orders-0: still trying: LEADER_NOT_AVAILABLE: {NO_LEADER}\n"
HINT = "`kcli topics describe --unavailable-partitions` shows where there is no leader"


@asynccontextmanager
async def leaderless() -> AsyncIterator[Client]:
    """A client of a cluster that has a partition without a leader and one with."""
    config = ClientConfig(default_api_timeout_ms=10_000)
    async with fake_cluster(config, topics={"orders": 2}) as (brokers, client):
        brokers.topics["orders"][0].leader = -1
        yield client


async def consume(client: Client, end: End) -> None:
    await print_records(
        client,
        ConsumerConfig(auto_offset_reset="earliest"),
        Reading(Choice("orders"), Start(from_beginning=True), end),
        format_record=make_formatter("default", {}),
        skip_errors=False,
        verbose=False,
    )


@pytest.mark.parametrize("until_end", [True, False])
async def test_consume_tells_and_gives_up(
    until_end: bool, capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with leaderless() as client:
        start = trio.current_time()
        with pytest.raises(ExceptionGroup) as raised:
            await consume(client, End(now=until_end))
        assert 8 < trio.current_time() - start <= 10.5
    [error] = flatten(raised.value)
    assert isinstance(error, KcliError)
    assert (error.message, error.hint) == (f"orders-0: {NO_LEADER}", HINT)
    err = capsys.readouterr().err
    assert err.startswith(WARNING)
    assert err.count("still trying") == 1


@pytest.mark.parametrize("until_end", [True, False])
async def test_consume_ends_when_its_time_is_over(
    until_end: bool, capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with leaderless() as client:
        start = trio.current_time()
        await consume(client, End(timeout_ms=2000, now=until_end))
        assert trio.current_time() - start == pytest.approx(2, abs=0.1)
    unknown = "warning: nothing is read: the begin or end offsets are unknown: orders-0: LEADER_NOT_AVAILABLE"
    told = f"{unknown}: {NO_LEADER}\n" if until_end else ""
    assert capsys.readouterr().err == f"{told}Processed a total of 0 messages\n"


async def test_get_offsets_tells_and_gives_up(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    monkeypatch.setattr("kcli.commands.shared.session.open_client", lambda *_, **__: leaderless())
    start = trio.current_time()
    result = await get_offsets("orders", cluster=ClusterAddress())
    assert 8 < trio.current_time() - start <= 10
    assert [*result.lines()] == ["orders:1:0"]
    [error] = result.failures
    assert error.message == f"cannot get the offset of orders-0: {NO_LEADER}"
    assert error.hint == HINT
    assert capsys.readouterr().err == WARNING


async def test_ends_that_a_group_wants_are_given_up_when_the_time_is_over(
    capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with leaderless() as client, Consumer(client) as consumer:
        start = trio.current_time()
        ends = await ends_in_time(consumer, [ORDERS_0], End(timeout_ms=2000, now=True))
        assert trio.current_time() - start == pytest.approx(2)
    assert ends == {ORDERS_0: 0}
    assert capsys.readouterr().err.startswith("warning: nothing is read: ")


async def test_a_leader_that_is_away_is_told(
    capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    async with fake_cluster(nodes=2, topics={"orders": 2}) as (brokers, client):
        brokers.down.add("broker-2")
        brokers.disconnect(2)
        await consume(client, End(timeout_ms=5000, now=True))
    refused = "broker 2: still trying: NETWORK_EXCEPTION: cannot connect to broker-2:9092: connection refused"
    first, second, _ = capsys.readouterr().err.splitlines()
    assert first == f"warning: {refused}"
    assert second.endswith(
        "unknown: broker 2: NETWORK_EXCEPTION: cannot connect to broker-2:9092: connection refused"
    )
