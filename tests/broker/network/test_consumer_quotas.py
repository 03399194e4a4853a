"""Quotas for reading: a client above its quota gets nothing for a while, and then the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.protocol.messages.fetch import FetchRequest
from tests.broker.network.limited_node import LIMIT, has_no_answer, held, limited_node, pause_of, set_quotas
from tests.broker.records import batch, fetch_request, produce_request
from tests.broker.single_node import connected, running_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.broker.single_node import Client, Node

FETCH_KEY = 1
MOST_PAUSES = 3


async def read(
    client: Client, request: FetchRequest, version: int, clock: trio.testing.MockClock, *, pause_ms: int = 0
) -> Any:
    """Pause and fetch until there are records, as a consumer does."""
    for _ in range(MOST_PAUSES):
        clock.jump((pause_ms + 1) / 1000 if pause_ms else 0)
        response = await client.ask(request, version)
        pause_ms = pause_of(response)
        if not pause_ms:
            return response
        if request.session_epoch > 0:
            request.session_epoch += 1
    raise AssertionError("it has to pause for ever")


async def filled(node: Node, *sizes: int) -> None:
    """Write records to the topic as a client without a quota."""
    async with connected(node) as writer:
        for size in sizes:
            await writer.ask(produce_request("t", batch(b"v" * size)), 7, client_id="writer")


def rows(response: Any) -> list[Any]:
    return [row for topic in response.responses for row in topic.partitions]


@pytest.mark.parametrize("version", [3, 4, 7, 11, 12])
async def test_who_reads_too_much_gets_nothing_for_a_while_and_then_the_same(
    tmp_path: Path, clock: trio.testing.MockClock, version: int
) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, 9000, 9000)
        first = await client.ask(fetch_request("t", max_bytes=9200), version)
        assert (pause_of(first), len(rows(first))) == (0, 1)
        assert rows(first)[0].records
        nothing = await client.ask(fetch_request("t", 1, max_bytes=9200), version)
        assert (nothing.error_code if version >= 7 else 0, rows(nothing)) == (0, [])
        pause_ms = pause_of(nothing)
        assert pause_ms > 0
        await client.send(fetch_request("t", 1, max_bytes=9200), version)
        await held(node)
        clock.jump((pause_ms - 1) / 1000)
        assert await has_no_answer(client)
        clock.jump(0.002)
        _, second = await client.receive(FETCH_KEY, version)
        # The rate is that of ten seconds at least, so that one pause is not enough.
        assert (pause_of(second) > 0, rows(second)) == (True, [])
        request = fetch_request("t", 1, max_bytes=9200)
        second = await read(client, request, version, clock, pause_ms=pause_of(second))
        assert rows(second)[0].records


async def test_more_than_the_quota_ever_lets_through_is_not_read_at_once(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, *[3000] * 8)
        response = await read(client, fetch_request("t"), 11, clock)
        assert 6000 < len(rows(response)[0].records) <= 10_000


async def test_a_long_poll_finds_out_when_it_is_answered(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, 9000)
        assert rows(await client.ask(fetch_request("t"), 11))[0].records
        await client.send(fetch_request("t", 1, max_wait_ms=5000), 11)
        await held(node)
        await filled(node, 9000)
        _, response = await client.receive(FETCH_KEY, 11)
        assert (pause_of(response) > 0, rows(response)) == (True, [])
        assert rows(await read(client, fetch_request("t", 1), 11, clock, pause_ms=pause_of(response)))[
            0
        ].records


async def test_followers_read_what_they_like(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        set_quotas(node, ("client-id", None), consumer_byte_rate=1)
        await filled(node, 9000)
        for _ in range(3):
            response = await client.ask(fetch_request("t", replica_id=1), 11)
            assert pause_of(response) == 0
            assert rows(response)


async def test_a_session_loses_nothing_by_a_pause(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, 9000)
        opened = await client.ask(fetch_request("t", session_epoch=0), 11)
        assert (opened.session_id > 0, rows(opened)[0].high_watermark) == (True, 1)
        await filled(node, 9000)

        async def go_on(epoch: int, offset: int) -> Any:
            request = fetch_request("t", offset, session_id=opened.session_id, session_epoch=epoch)
            return await client.ask(request, 11)

        paused = await go_on(1, 1)
        assert (paused.error_code, paused.session_id, rows(paused)) == (0, opened.session_id, [])
        # What the request said of the partition counts, and what it was not told of comes now.
        rest = FetchRequest(
            max_wait_ms=0, min_bytes=1, topics=[], session_id=opened.session_id, session_epoch=2
        )
        again = await read(client, rest, 11, clock, pause_ms=pause_of(paused))
        (row,) = rows(again)
        assert (row.high_watermark, bool(row.records)) == (2, True)


async def test_a_session_is_not_opened_while_there_is_a_pause(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, 9000)
        await client.ask(fetch_request("t"), 11)
        paused = await client.ask(fetch_request("t", session_epoch=0), 11)
        assert (paused.error_code, paused.session_id, rows(paused)) == (0, 0, [])
        assert pause_of(paused) > 0
        assert len(node.fetch_sessions) == 0


async def test_what_a_session_has_heard_of_before_costs_next_to_nothing(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, consumer_byte_rate=LIMIT) as node, connected(node) as client:
        await filled(node, 5000)
        opened = await client.ask(fetch_request("t", session_epoch=0), 11)
        for epoch in range(1, 100):
            request = fetch_request("t", 1, session_id=opened.session_id, session_epoch=epoch)
            assert pause_of(await client.ask(request, 11)) == 0
