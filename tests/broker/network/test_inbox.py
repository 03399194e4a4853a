"""Incomplete requests: carried to the next receive, or received into a buffer of their own."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kcli.broker.network.inbox import CARRY_BYTES, Inbox, ReceiveBuffers
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.transport import Transport


def frame(size: int) -> bytes:
    return size.to_bytes(4, "big") + bytes(number % 251 for number in range(size))


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client's socket and the broker's, which does not block."""
    client, server = socket.socketpair()
    with client, server:
        server.setblocking(False)
        yield client, server


def test_the_rest_of_a_small_request_follows_what_was_carried(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client, server = sockets
    inbox = Inbox(Transport(server), ReceiveBuffers(), 10_000)
    data = frame(100)
    inbox.keep(memoryview(bytearray(data)), 0, 60)
    assert inbox.frame is None
    client.sendall(data[60:])
    assert inbox.receive() == 44
    assert bytes(inbox.buffers.scratch[:104]) == data


@pytest.mark.parametrize("count", [1, 3])
def test_part_of_a_size_is_carried(count: int, sockets: tuple[socket.socket, socket.socket]) -> None:
    inbox = Inbox(Transport(sockets[1]), ReceiveBuffers(), 10_000_000)
    inbox.keep(memoryview(bytearray(b"x" + frame(9_000_000 // 100))), 1, 1 + count)
    assert inbox.carry == frame(90_000)[:count]


def test_a_large_request_is_received_into_a_buffer_of_its_own(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    client, server = sockets
    buffers = ReceiveBuffers()
    inbox = Inbox(Transport(server), buffers, 10_000_000)
    data = frame(CARRY_BYTES)
    inbox.keep(memoryview(bytearray(data)), 0, 1000)
    assert inbox.frame is not None
    assert (inbox.received, inbox.need, buffers.held_bytes) == (1000, len(data), 1000)
    # What comes behind it is not received yet.
    client.sendall(data[1000:] + frame(5))
    while not inbox.filled(inbox.receive()):
        pass
    assert bytes(inbox.frame[: len(data)]) == data
    inbox.drop_frame()
    assert buffers.held_bytes == 0
    assert inbox.receive() == 9


def test_unfinished_requests_hold_so_much_together(sockets: tuple[socket.socket, socket.socket]) -> None:
    client, server = sockets
    buffers = ReceiveBuffers(held_limit=15_000)
    other, inbox = (
        Inbox(Transport(server), buffers, 10_000_000),
        Inbox(Transport(server), buffers, 10_000_000),
    )
    for each in (other, inbox):
        each.keep(memoryview(bytearray(frame(20_000))), 0, 7000)
    client.sendall(bytes(1001))
    with pytest.raises(CloseConnection, match="15001 bytes"):
        inbox.filled(inbox.receive())


def test_what_waits_is_where_nobody_receives(sockets: tuple[socket.socket, socket.socket]) -> None:
    inbox = Inbox(Transport(sockets[1]), ReceiveBuffers(), 10_000)
    scratch = inbox.buffers.scratch
    scratch[:10] = b"0123456789"
    view, start, end = inbox.own(scratch, 3, 10)
    scratch[:10] = bytes(10)
    assert bytes(view[start:end]) == b"3456789"
    assert inbox.own(view, 2, 7) == (view, 2, 7)
