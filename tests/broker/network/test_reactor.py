"""The reactor: the connections it serves, the work of their tasks, and clients that leave unseen."""

from __future__ import annotations

import os
import select
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.network.reactor import READABLE, Reactor
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.network.frames import frame
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import connected, running_node
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Served:
    """A connection that records the calls of the reactor."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.events: list[int] = []
        self.received = b""

    def fileno(self) -> int:
        return self.sock.fileno()

    def on_readable(self, events: int) -> None:
        self.events.append(events)
        self.received += self.sock.recv(1000)


@contextmanager
def pair() -> Iterator[tuple[Served, socket.socket]]:
    """A served socket and its other end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Served(ours), theirs


async def test_what_comes_is_said_once() -> None:
    async with trio.open_nursery() as nursery:
        with pair() as (first, to_first), pair() as (second, to_second):
            reactor = Reactor()
            await nursery.start(reactor.run)
            to_first.send(b"before")
            reactor.add(first)
            reactor.add(second)
            await trio.testing.wait_all_tasks_blocked()
            assert (first.events, first.received) == ([READABLE], b"before")
            assert second.events == []
            to_first.send(b" after")
            to_second.send(b"hello")
            await trio.testing.wait_all_tasks_blocked()
            assert (first.events, first.received) == ([READABLE] * 2, b"before after")
            assert (second.events, second.received) == ([READABLE], b"hello")
            nursery.cancel_scope.cancel()


async def test_data_and_the_end_behind_it_come_as_one() -> None:
    async with trio.open_nursery() as nursery:
        with pair() as (served, other):
            reactor = Reactor()
            await nursery.start(reactor.run)
            other.send(b"last words")
            other.shutdown(socket.SHUT_WR)
            reactor.add(served)
            await trio.testing.wait_all_tasks_blocked()
            assert (served.events, served.received) == ([READABLE | select.EPOLLRDHUP], b"last words")
            nursery.cancel_scope.cancel()


async def test_what_was_removed_is_not_served() -> None:
    async with trio.open_nursery() as nursery:
        with pair() as (served, other):
            reactor = Reactor()
            await nursery.start(reactor.run)
            reactor.add(served)
            reactor.remove(served)
            other.send(b"too late")
            await trio.testing.wait_all_tasks_blocked()
            assert served.events == []
            nursery.cancel_scope.cancel()


async def test_a_client_that_ends_its_side_behind_a_request_is_answered_and_let_go(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        await client.stream.send_all(frame(MetadataRequest(topics=None), 9))
        await client.stream.send_eof()
        assert (await client.receive(3, 9))[1].topics[0].name == "t"
        with trio.fail_after(30):
            assert await client.is_closed()


async def test_a_client_that_ends_its_side_behind_a_parked_request_is_answered_and_let_go(
    tmp_path: Path,
) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        await client.send(fetch_request("t", max_wait_ms=20_000), 12)
        await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert produced(await other.ask(produce_request("t", batch(b"late")), 9)).error_code == 0
        assert values(fetched((await client.receive(1, 12))[1])) == [(0, b"late")]
        with trio.fail_after(30):
            assert await client.is_closed()


FOR_EVER = 2**31 - 1
CLIENTS = 200


def parked_clients(node: Any, count: int, *behind: bytes) -> list[socket.socket]:
    """Return clients that have sent a fetch which waits for ever, and `behind` it what is given."""
    clients = []
    for number in range(count):
        client = socket.create_connection(("127.0.0.1", node.port))
        client.sendall(frame(fetch_request("t", max_wait_ms=FOR_EVER), 12, number) + b"".join(behind))
        clients.append(client)
    return clients


def close(client: socket.socket, how: str) -> None:
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("how", ["closed", "reset"])
async def test_clients_that_close_are_gone_after_one_turn(how: str, tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        await trio.testing.wait_all_tasks_blocked()
        descriptors = len(os.listdir("/proc/self/fd"))
        clients = parked_clients(node, CLIENTS)
        await until(lambda: node.purgatory.parked == CLIENTS)
        for client in clients:
            close(client, how)
        await trio.testing.wait_all_tasks_blocked()
        assert (node.purgatory.parked, node.purgatory.watched_keys, node.timer.count) == (0, 0, 0)
        assert len(node.server.connections) == 0  # type: ignore[attr-defined]
        # Those of other tests may be collected meanwhile.
        assert len(os.listdir("/proc/self/fd")) <= descriptors


async def test_clients_that_close_before_their_request_is_parked_are_gone_too(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        for client in parked_clients(node, CLIENTS):
            client.close()
        await until(lambda: node.replica_manager.partition("t", 0) is not None)
        await trio.testing.wait_all_tasks_blocked()
        assert len(node.server.connections) == node.purgatory.watched_keys == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_parked_first", [True, False])
async def test_what_a_client_has_sent_before_it_closed_is_carried_out(
    is_parked_first: bool, tmp_path: Path
) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        node.create_topic("u")
        behind = [
            frame(produce_request("u", batch(b"first")), 9, 1),
            frame(fetch_request("t", max_wait_ms=FOR_EVER), 12, 2),
            frame(MetadataRequest(topics=None), 9, 3),
            frame(produce_request("u", batch(b"v" * 20_000)), 9, 4),
            frame(fetch_request("u"), 12, 5),
            frame(produce_request("u", batch(b"last")), 9, 6),
        ]
        (client,) = parked_clients(node, 1, *behind)
        if is_parked_first:
            await until(lambda: node.purgatory.parked == 1)
        client.close()
        log = node.replica_manager.partition("u", 0).log
        await until(lambda: log.log_end_offset == 3)
        await trio.testing.wait_all_tasks_blocked()
        assert len(node.server.connections) == node.purgatory.watched_keys == 0  # type: ignore[attr-defined]


async def test_a_client_that_only_ends_its_side_gets_whole_responses_to_all_it_asked(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client, connected(node) as other:
        node.create_topic("t")
        node.create_topic("u")
        requests = [
            frame(fetch_request("t", max_wait_ms=FOR_EVER), 12, 0),
            frame(fetch_request("u", max_wait_ms=FOR_EVER), 11, 1),
            frame(MetadataRequest(topics=[]), 9, 2),
        ]
        await client.stream.send_all(b"".join(requests))
        await until(lambda: node.purgatory.parked == 1)
        await client.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        # However long it waits.
        await node.server.sweep_once(trio.current_time() + 3600)  # type: ignore[attr-defined]
        for number, (topic, version) in enumerate([("t", 12), ("u", 11)]):
            assert produced(await other.ask(produce_request(topic, batch(b"late")), 9)).error_code == 0
            correlation_id, response = await client.receive(1, version)
            assert (correlation_id, values(fetched(response))) == (number, [(0, b"late")])
        assert (await client.receive(3, 9))[0] == 2
        assert await client.is_closed()


async def test_requests_behind_one_that_waited_are_served_without_another_event(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node, connected(node) as client:
        node.create_topic("t")
        for number in range(3):
            await client.stream.send_all(
                frame(fetch_request("t", max_wait_ms=1), 12, 10 * number)
                + frame(MetadataRequest(topics=None), 9, 10 * number + 1)
                + frame(produce_request("t", batch(b"x")), 9, 10 * number + 2)
            )
            for key, version, correlation_id in ((1, 12, 0), (3, 9, 1), (0, 9, 2)):
                with trio.fail_after(30):
                    assert (await client.receive(key, version))[0] == 10 * number + correlation_id


async def test_many_connections_are_served_at_once(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        node.create_topic("t")
        answers: set[int] = set()

        async def ask(number: int) -> None:
            async with connected(node) as client:
                for _ in range(5):
                    row = produced(await client.ask(produce_request("t", batch(b"%d" % number)), 9))
                    assert row.error_code == 0
                    answers.add(row.base_offset)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
        assert answers == set(range(500))
