"""Quotas at work: a client that wrote or read too much is told so at once, then its connection is mute."""

from __future__ import annotations

import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.controller.client_quota_control import QuotaAlteration
from kcli.broker.quota_engine import QuotaEngine
from kcli.broker.registrations import PartitionRegistration
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.headers import RequestHeader, encode_request
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.messages.produce import ProduceRequest
from kcli.protocol.schema import message_info
from tests.broker.node import NODE_ID, connected, running_node
from tests.broker.records import batch, fetch_request, produce_request, produced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.broker.node import Client, Node

PRODUCE_KEY, FETCH_KEY, METADATA_KEY = 0, 1, 3
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
LIMIT = 1000
"""Bytes a second: ten thousand at once are allowed."""
VALUE = b"v" * 12_000
MOST_SECONDS = 60
MOST_PAUSES = 3
MANY_ROUNDS = 100_000
"""So often the broker may be given its turn until it has done what is waited for."""


@pytest.fixture
def clock() -> Iterator[trio.testing.MockClock]:
    """A clock that only goes on when the test says so, while sockets work as ever.

    An answer that never comes must not hang the test, whose time stands still.
    """

    def give_up(*_: object) -> None:
        raise TimeoutError("an answer never came")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(MOST_SECONDS)
    yield trio.testing.MockClock()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@asynccontextmanager
async def limited_node(directory: Path, **quotas: float) -> AsyncIterator[Node]:
    """Run a node whose client `test` has quotas."""
    async with running_node(directory) as node:
        node.create_topic("t", partitions=2)
        set_quotas(node, **quotas)
        yield node


def set_quotas(node: Node, entity: tuple[str, str | None] = ("client-id", "test"), **quotas: Any) -> None:
    outcomes = node.controller.alter_client_quotas([QuotaAlteration([entity], [*quotas.items()])])
    assert outcomes == [None]


async def until(is_so: Any) -> None:
    """Give others their turn until something is so, without any time going by."""
    for _ in range(MANY_ROUNDS):
        if is_so():
            return
        await trio.lowlevel.checkpoint()
    raise AssertionError("it did not come to pass")


async def held(node: Node, count: int = 1) -> None:
    """Return when requests wait for their connection to speak again."""
    await until(lambda: node.timer.count == count)


async def has_no_answer(client: Client) -> bool:
    """Whether nothing has come, now that the broker has done all it could."""
    await trio.testing.wait_all_tasks_blocked()
    with trio.move_on_after(0):
        await client.stream.receive_some()
        return False
    return True


def pause_of(response: Any) -> int:
    pause_ms: int = response.throttle_time_ms
    return pause_ms


def expected_pause(size: int, limit: int = LIMIT) -> int:
    """Return the pause after so many bytes at once: ten seconds are allowed in advance."""
    return round(size * 1000 / limit - 10_000)


def size_of(request: object, version: int) -> int:
    """Return the size of a request of client `test` without its length."""
    header = RequestHeader(message_info(type(request)).key, version, 1, "test")
    return len(encode_request(header, request)) - 4


@pytest.mark.parametrize("version", [3, 7, 8, 9, 12])
@pytest.mark.parametrize("acks", [1, -1])
async def test_who_writes_too_much_is_answered_at_once_and_heard_later(
    tmp_path: Path, clock: trio.testing.MockClock, version: int, acks: int
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE), acks=acks)
        response = await client.ask(request, version)
        assert produced(response).error_code == 0
        pause_ms = pause_of(response)
        assert pause_ms == expected_pause(size_of(request, version))
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        clock.jump((pause_ms - 1) / 1000)
        assert await has_no_answer(client)
        clock.jump(0.002)
        await client.receive(METADATA_KEY, 4)
        # By now the rate is within its limit, and little more is.
        response = await client.ask(produce_request("t", batch(b"small"), acks=acks), version)
        assert produced(response).base_offset == 1


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_large_request_that_is_handled_in_turns_is_told_of_its_pause(
    tmp_path: Path, clock: trio.testing.MockClock, acks: int
) -> None:
    async with running_node(tmp_path, {"message.max.bytes": "4000000"}) as node, connected(node) as client:
        node.create_topic("t")
        set_quotas(node, producer_byte_rate=100_000)
        request = produce_request("t", batch(bytes(2_000_000)), acks=acks)
        response = await client.ask(request, 9)
        assert produced(response).error_code == 0
        assert pause_of(response) == expected_pause(size_of(request, 9), 100_000)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)


async def test_a_write_that_fails_counts_as_well(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("missing", batch(VALUE))
        response = await client.ask(request, 9)
        assert produced(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert pause_of(response) == expected_pause(size_of(request, 9))


async def test_the_oldest_producers_cannot_be_told_but_have_to_wait_too(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=produce_request("t", b"").topic_data)
        await client.ask(request, 0)
        set_quotas(node, producer_byte_rate=1)
        await client.ask(request, 0)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        clock.jump(600)
        await client.receive(METADATA_KEY, 4)


async def test_without_an_answer_there_is_a_pause_and_nothing_is_lost(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE), acks=0)
        for _ in range(3):
            await client.send(request, 7)
        await client.stream.send_eof()
        log = node.replica_manager.partition("t", 0).log
        await held(node)
        for count in (1, 2):
            assert log.log_end_offset == count
            await held(node)
            # The next is counted when it is heard, a window after the first was sent.
            clock.jump(13)
            await until(lambda count=count: log.log_end_offset > count)
        assert await client.is_closed()
        assert log.log_end_offset == 3


async def test_what_others_send_is_heard_and_other_connections_of_the_client_are_not_mute(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        request = produce_request("t", batch(VALUE))
        assert pause_of(await client.ask(request, 7)) > 0
        async with connected(node) as other:
            assert pause_of(await other.ask(request, 7, client_id="another")) == 0
            await other.ask(MetadataRequest(topics=[]), 4)
            # But what they write counts.
            assert pause_of(await other.ask(produce_request("t", batch(b"v")), 7)) > 0


async def test_every_request_behind_a_pause_waits_in_its_order(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        first = await client.send(produce_request("t", batch(VALUE)), 7)
        groups = await client.send(ListGroupsRequest(), 1)
        second = await client.send(produce_request("t", batch(b"v")), 7)
        metadata = await client.send(MetadataRequest(topics=[]), 4)
        correlation_id, response = await client.receive(PRODUCE_KEY, 7)
        assert correlation_id == first
        await held(node)
        assert await has_no_answer(client)
        clock.jump(pause_of(response) / 1000)
        assert (await client.receive(16, 1))[0] == groups
        correlation_id, response = await client.receive(PRODUCE_KEY, 7)
        assert correlation_id == second
        clock.jump(pause_of(response) / 1000 + 0.001)
        assert (await client.receive(METADATA_KEY, 4))[0] == metadata


async def test_a_write_that_waits_for_replicas_tells_of_the_pause_when_it_is_answered(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        partition = node.replica_manager.partition("t", 0)
        # A replica that is in sync and never follows.
        partition.apply(
            PartitionRegistration(
                replicas=(NODE_ID, 2), isr=(NODE_ID, 2), leader=NODE_ID, leader_epoch=0, partition_epoch=1
            )
        )
        await client.send(produce_request("t", batch(VALUE), acks=-1, timeout_ms=500), 7)
        await held(node)
        assert partition.log.log_end_offset == 1
        clock.jump(0.501)
        _, response = await client.receive(PRODUCE_KEY, 7)
        assert produced(response).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert pause_of(response) == expected_pause(size_of(produce_request("t", batch(VALUE)), 7))


# --- reading -------------------------------------------------------------------------------------------


async def read(
    client: Client, request: FetchRequest, version: int, clock: trio.testing.MockClock, *, pause_ms: int = 0
) -> Any:
    """Pause as told and ask until there is something, as any consumer does."""
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
    """Write records to the topic as somebody without a quota."""
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


# --- ends ----------------------------------------------------------------------------------------------


async def test_a_node_without_quotas_has_nothing_before_its_engine(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await client.ask(MetadataRequest(topics=[]), 4)
        (connection,) = node.server.connections  # type: ignore[attr-defined]
        assert not isinstance(connection._engine, QuotaEngine)
        set_quotas(node, producer_byte_rate=1)
        assert isinstance(connection._engine, QuotaEngine)
        assert pause_of(await client.ask(produce_request("t", batch(b"v")), 7)) > 0
        set_quotas(node, producer_byte_rate=None)
        assert not isinstance(connection._engine, QuotaEngine)
        await client.ask(MetadataRequest(topics=[]), 4)


async def test_what_waits_is_heard_in_its_time_when_all_quotas_are_gone(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=LIMIT) as node, connected(node) as client:
        response = await client.ask(produce_request("t", batch(VALUE)), 7)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        set_quotas(node, producer_byte_rate=None)
        clock.jump(pause_of(response) / 1000 + 0.001)
        await client.receive(METADATA_KEY, 4)


async def test_a_connection_that_is_closed_takes_what_waits_with_it(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        await client.ask(produce_request("t", batch(VALUE)), 7)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        (connection,) = node.server.connections  # type: ignore[attr-defined]
        connection.close()
        await until(lambda: not node.server.connections)  # type: ignore[attr-defined]
        assert node.timer.count == 0
        assert await client.is_closed()


async def test_a_broker_that_stops_waits_for_no_pause(tmp_path: Path, clock: trio.testing.MockClock) -> None:
    before = trio.current_time()
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        await client.ask(produce_request("t", batch(VALUE)), 7)
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
    # The node is stopped by now, while the client still waited.
    assert trio.current_time() == before
    assert node.timer.count == 0


async def test_the_sweep_of_idle_connections_spares_those_that_have_to_pause(
    tmp_path: Path, clock: trio.testing.MockClock
) -> None:
    async with limited_node(tmp_path, producer_byte_rate=1) as node, connected(node) as client:
        response = await client.ask(produce_request("t", batch(VALUE)), 7)
        server = node.server  # type: ignore[attr-defined]
        for _ in range(pause_of(response) // 600_000 - 1):
            clock.jump(599)
            await server.sweep_once(trio.current_time())
        (connection,) = server.connections
        assert not connection.is_closing
        await client.send(MetadataRequest(topics=[]), 4)
        await held(node)
        await server.sweep_once(trio.current_time())
        assert not connection.is_closing
        clock.jump(1300)
        await client.receive(METADATA_KEY, 4)
        # Then it is as idle as any other.
        for seconds in (1, 601):
            clock.jump(seconds)
            await server.sweep_once(trio.current_time())
        assert await client.is_closed()
