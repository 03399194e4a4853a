"""Connections: their number, their idle time, and clients that leave."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.handlers.fetch.delayed_fetch import DelayedFetch
from kcli.broker.network import socket_server
from tests.broker.network.frames import all_metadata, frame
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import Client, connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Hashable
    from pathlib import Path


async def test_an_address_has_at_most_its_connections(tmp_path: Path) -> None:
    async with running_node(tmp_path, {"max.connections.per.ip": "2"}) as node:
        async with connected(node) as first, connected(node) as second:
            await first.ask(all_metadata(), 9)
            await second.ask(all_metadata(), 9)
            async with connected(node) as third:
                assert await third.is_closed()
        await until(lambda: not node.server.connections)
        async with connected(node) as fourth:
            await fourth.ask(all_metadata(), 9)


async def test_too_many_connections_close_the_least_used(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, {"max.connections": "2"}) as node,
        connected(node) as first,
        connected(node) as second,
    ):
        await first.ask(all_metadata(), 9)
        await second.ask(all_metadata(), 9)
        await node.server.sweep_once(trio.current_time())
        await first.ask(all_metadata(), 9)
        async with connected(node) as third:
            await third.ask(all_metadata(), 9)
            assert await second.is_closed()
            await first.ask(all_metadata(), 9)


async def test_as_many_are_closed_as_there_are_too_many(tmp_path: Path) -> None:
    async with running_node(tmp_path, {"max.connections": "2"}) as node:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection(("127.0.0.1", node.port))) for _ in range(6)
            ]
            for client in clients:
                client.setblocking(False)
            await until(lambda: sum(map(has_ended, clients)) == 4)


def has_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


async def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async with (
        running_node(tmp_path, {"connections.max.idle.ms": "60000"}) as node,
        connected(node) as idle,
        connected(node) as busy,
    ):
        await idle.ask(all_metadata(), 9)
        now = trio.current_time()
        for seconds in (0, 30, 59):
            await busy.ask(all_metadata(), 9)
            await node.server.sweep_once(now + seconds)
        assert len(node.server.connections) == 2
        await busy.ask(all_metadata(), 9)
        await node.server.sweep_once(now + 61)
        assert await idle.is_closed()
        await busy.ask(all_metadata(), 9)


async def test_without_epoll_the_sweep_finds_clients_that_have_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "new_reactor", lambda _gate: None)
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        async with connected(node) as client:
            await client.send(fetch_request("t", max_wait_ms=2**31 - 1), 12)
            await until(lambda: node.purgatory.parked == 1)
            await node.server.sweep_once(trio.current_time())
            assert node.purgatory.parked == 1
        while node.purgatory.parked:
            await node.server.sweep_once(trio.current_time())
            await trio.lowlevel.checkpoint()
        await until(lambda: not node.server.connections)
        assert node.purgatory.watched_keys == 0


async def test_a_thousand_parked_fetches_cost_other_topics_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[DelayedFetch] = []
    try_complete = DelayedFetch.try_complete

    def counted(fetch: DelayedFetch, key: Hashable) -> bool:
        tried.append(fetch)
        return try_complete(fetch, key)

    monkeypatch.setattr(DelayedFetch, "try_complete", counted)
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        node.create_topic("other")
        sockets = []
        for number in range(1000):
            sock = socket.create_connection(("127.0.0.1", node.port))
            sock.sendall(frame(fetch_request("t", max_wait_ms=60_000), 12, number))
            sockets.append(sock)
            if number % 100 == 99:
                await trio.lowlevel.checkpoint()
        await until(lambda: node.purgatory.parked == 1000)
        async with connected(node) as client:
            tried.clear()
            for number in range(200):
                await client.ask(produce_request("other", batch(b"%d" % number)), 9)
            assert tried == []
            await client.ask(produce_request("t", batch(b"all wake up")), 9)
        await until(lambda: node.purgatory.parked == 0)
        assert len(tried) == 1000
        for number, sock in enumerate(sockets):
            with sock:
                sock.setblocking(False)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
                correlation_id, response = await Client(stream).receive(1, 12)
                assert correlation_id == number
                assert values(fetched(response)) == [(0, b"all wake up")]
        assert node.purgatory.watched_keys == 0


async def test_a_client_that_does_not_read_is_not_served_further(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        for _ in range(10):
            assert produced(await other.ask(produce_request("t", batch(b"v" * 1_000_000)), 9)).error_code == 0
        wanted = fetch_request("t", max_bytes=100 << 20)
        await client.stream.send_all(b"".join(frame(wanted, 12, number) for number in range(50)))
        assert (await other.ask(all_metadata(), 9)).topics[0].name == "t"
        for number in range(50):
            correlation_id, response = await client.receive(1, 12)
            assert correlation_id == number
            assert len(bytes(fetched(response).records)) > 10_000_000


async def test_closing_the_node_closes_its_connections(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        client = Client(await trio.open_tcp_stream("127.0.0.1", node.port))
        await client.send(fetch_request("t", max_wait_ms=60_000), 12)
        await until(lambda: node.purgatory.parked == 1)
    async with client.stream:
        assert await client.is_closed()
    assert node.purgatory.watched_keys == 0
