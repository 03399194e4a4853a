"""Responses for which the socket has no room: they continue when it has, complete and in order."""

from __future__ import annotations

import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.network import socket_server as listener
from tests.broker.network.frames import all_metadata, frame
from tests.broker.records import batch, fetch_request, fetched, fill, produce_request, produced, values
from tests.broker.single_node import Client, connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from kcli.broker.network.connection import Connection
    from tests.broker.single_node import Node

METADATA, FETCH, PRODUCE = 3, 1, 0
SMALL_BUFFERS = {"socket.send.buffer.bytes": "20000"}
VALUE = bytes(range(256)) * 4000
"""About a megabyte, more than the sockets of a slow reader hold."""


@pytest.fixture(params=[True, False], ids=["reactor", "task"])
def with_reactor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways to wait for room."""
    if not request.param:
        monkeypatch.setattr(listener, "new_reactor", lambda _gate: None)
    return bool(request.param)


@asynccontextmanager
async def slow(node: Node) -> AsyncIterator[Client]:
    """A client whose socket takes little."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
    sock.connect(("127.0.0.1", node.port))
    sock.setblocking(False)
    async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
        yield Client(stream)


@asynccontextmanager
async def node_with_values(path: Path, count: int = 1, **properties: str) -> AsyncIterator[Node]:
    """A node that has large records in a topic, and small send buffers."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    async with running_node(path, SMALL_BUFFERS | named) as node:
        node.create_topic("t")
        async with connected(node) as client:
            await fill(client, "t", *[VALUE] * count)
        await until(lambda: not connections(node))
        yield node


def connections(node: Node) -> set[Connection]:
    found: set[Connection] = node.server.connections  # type: ignore[attr-defined]
    return found


def blocked(node: Node) -> list[Connection]:
    """The connections with bytes that their sockets did not take."""
    return [each for each in connections(node) if each._out.parts]


def wanted(correlation_id: int, max_bytes: int = 10 << 20, **options: Any) -> bytes:
    return frame(fetch_request("t", max_bytes=max_bytes, **options), 12, correlation_id)


async def receive_values(client: Client, correlation_id: int, count: int = 1) -> None:
    found, response = await client.receive(FETCH, 12)
    assert found == correlation_id
    assert values(fetched(response)) == [(number, VALUE) for number in range(count)]


async def receive_all(client: Client) -> None:
    while True:
        await client.receive_frame()


async def test_a_slow_reader_gets_everything_in_order(with_reactor: bool, tmp_path: Path) -> None:
    async with node_with_values(tmp_path, 3) as node, slow(node) as client:
        asked = [wanted(number) + frame(all_metadata(), 9, number + 1) for number in range(0, 40, 2)]
        await client.stream.send_all(b"".join(asked))
        for number in range(0, 40, 2):
            await receive_values(client, number, 3)
            correlation_id, response = await client.receive(METADATA, 9)
            assert (correlation_id, response.topics[0].name) == (number + 1, "t")
        await until(lambda: not blocked(node))


async def test_what_is_asked_while_an_answer_is_blocked_is_answered_behind_it(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with node_with_values(tmp_path) as node, slow(node) as client:
        await client.stream.send_all(wanted(0))
        await until(lambda: len(blocked(node)) == 1)
        for number in range(1, 4):
            await client.stream.send_all(frame(all_metadata(), 9, number))
            await trio.testing.wait_all_tasks_blocked()
        await client.stream.send_all(frame(produce_request("t", batch(b"late")), 9, 4))
        await trio.testing.wait_all_tasks_blocked()
        assert node.replica_manager.partition("t", 0).log.log_end_offset == 1
        await receive_values(client, 0)
        for number in range(1, 4):
            assert (await client.receive(METADATA, 9))[0] == number
        correlation_id, response = await client.receive(PRODUCE, 9)
        assert (correlation_id, produced(response).base_offset) == (4, 1)


async def test_an_answer_that_comes_while_another_is_blocked_is_sent_behind_it(
    with_reactor: bool, tmp_path: Path
) -> None:
    value = VALUE[:150_000]  # Behind more than that nothing is handled before it is sent.
    async with running_node(tmp_path, SMALL_BUFFERS) as node, slow(node) as client, connected(node) as other:
        node.create_topic("t")
        await fill(other, "t", value)
        await client.stream.send_all(wanted(0) + frame(fetch_request("t", 1, max_wait_ms=60_000), 12, 1))
        await until(lambda: len(blocked(node)) == node.purgatory.parked == 1)
        await fill(other, "t", b"news")
        await until(lambda: node.purgatory.parked == 0)
        await trio.testing.wait_all_tasks_blocked()
        for number, expected in enumerate((value, b"news")):
            correlation_id, response = await client.receive(FETCH, 12)
            assert (correlation_id, values(fetched(response))) == (number, [(number, expected)])


async def test_a_parked_fetch_that_gets_much_goes_on_when_there_is_room(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with running_node(tmp_path, SMALL_BUFFERS) as node, slow(node) as client, connected(node) as other:
        node.create_topic("t")
        await client.stream.send_all(wanted(7, max_wait_ms=60_000))
        await until(lambda: node.purgatory.parked == 1)
        await fill(other, "t", VALUE)
        await until(lambda: len(blocked(node)) == 1)
        await receive_values(client, 7)
        await client.stream.send_all(frame(all_metadata(), 9, 8))
        assert (await client.receive(METADATA, 9))[0] == 8


async def test_many_that_are_blocked_at_once_all_get_theirs(with_reactor: bool, tmp_path: Path) -> None:
    count = 40

    async def read(client: Client, number: int) -> None:
        for _ in range(2):
            await receive_values(client, number)

    async with node_with_values(tmp_path) as node, trio.open_nursery() as nursery:
        clients = [await nursery.start(_hold, node) for _ in range(count)]
        for number, (client, _) in enumerate(clients):
            await client.stream.send_all(wanted(number) * 2)
        await until(lambda: len(blocked(node)) == count)
        async with trio.open_nursery() as readers:
            for number, (client, _) in enumerate(clients):
                readers.start_soon(read, client, number)
        assert blocked(node) == []
        for _, release in clients:
            release.set()


async def _hold(
    node: Node, *, task_status: trio.TaskStatus[tuple[Client, trio.Event]] = trio.TASK_STATUS_IGNORED
) -> None:
    release = trio.Event()
    async with slow(node) as client:
        task_status.started((client, release))
        await release.wait()


async def test_one_that_never_reads_delays_nobody_and_is_closed_when_idle(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with (
        node_with_values(tmp_path, connections_max_idle_ms="60000") as node,
        slow(node) as client,
        connected(node) as other,
    ):
        await client.stream.send_all(wanted(0) * 10)
        await until(lambda: len(blocked(node)) == 1)
        now = trio.current_time()
        for seconds in (0, 59, 130):
            assert len(connections(node)) == 2
            await other.ask(all_metadata(), 9)
            await node.server.sweep_once(now + seconds)  # type: ignore[attr-defined]
        await until(lambda: len(connections(node)) == 1)
        await other.ask(all_metadata(), 9)


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_a_client_that_leaves_while_its_answer_is_blocked_is_let_go(
    how: str, with_reactor: bool, tmp_path: Path
) -> None:
    async with node_with_values(tmp_path) as node:
        async with slow(node) as client:
            await client.stream.send_all(wanted(0) * 3)
            await until(lambda: len(blocked(node)) == 1)
            if how == "reset":
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: not connections(node))
        async with connected(node) as other:
            await other.ask(all_metadata(), 9)


async def test_a_client_that_ends_its_side_gets_the_blocked_answers_first(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with node_with_values(tmp_path) as node, slow(node) as client:
        await client.stream.send_all(wanted(0) + wanted(1) + frame(all_metadata(), 9, 2))
        await until(lambda: len(blocked(node)) == 1)
        await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        await receive_values(client, 0)
        await receive_values(client, 1)
        assert (await client.receive(METADATA, 9))[0] == 2
        assert await client.is_closed()
        await until(lambda: not connections(node))


async def test_nonsense_behind_a_blocked_answer_closes_behind_that(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with node_with_values(tmp_path) as node, slow(node) as client:
        await client.stream.send_all(wanted(0))
        await until(lambda: len(blocked(node)) == 1)
        await client.stream.send_all(struct.pack(">i", -5))
        await receive_values(client, 0)
        assert await client.is_closed()


async def test_a_connection_that_the_node_closes_does_not_wait_for_room(
    with_reactor: bool, tmp_path: Path
) -> None:
    async with node_with_values(tmp_path) as node, slow(node) as client:
        await client.stream.send_all(wanted(0) * 3)
        await until(lambda: len(blocked(node)) == 1)
        (connection,) = connections(node)
        connection.close()
        await until(lambda: not connections(node))


async def test_a_node_stops_while_answers_are_blocked(with_reactor: bool, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with node_with_values(tmp_path) as node:
            clients = [await nursery.start(_hold, node) for _ in range(5)]
            for client, _ in clients:
                await client.stream.send_all(wanted(0) * 3)
            await until(lambda: len(blocked(node)) == 5)
        for client, release in clients:
            with pytest.raises((EOFError, trio.BrokenResourceError)):
                await receive_all(client)
            release.set()
    assert (node.purgatory.parked, node.purgatory.watched_keys) == (0, 0)
