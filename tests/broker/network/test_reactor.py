"""The reactor: the connections it serves, the work of their tasks, and clients that leave unseen."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from kcli.broker.network.reactor import Reactor
from kcli.protocol.messages.metadata import MetadataRequest
from tests.broker.network.frames import frame
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import connected, running_node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Served:
    """A connection that records the calls of the reactor."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.events: list[bool] = []
        self.received = b""

    def fileno(self) -> int:
        return self.sock.fileno()

    def on_readable(self, *, hung_up: bool) -> None:
        self.events.append(hung_up)
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
            assert (first.events, first.received) == ([False], b"before")
            assert second.events == []
            to_first.send(b" after")
            to_second.send(b"hello")
            await trio.testing.wait_all_tasks_blocked()
            assert (first.events, first.received) == ([False, False], b"before after")
            assert (second.events, second.received) == ([False], b"hello")
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
            assert (served.events, served.received) == ([True], b"last words")
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
