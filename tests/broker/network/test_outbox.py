"""The outbox: bytes and slices of files reach the client in order, whatever the socket takes at once."""

from __future__ import annotations

import os
import random
import socket
import struct
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.network.outbox import REST_BYTES, REST_PARTS, SENDFILE_FROM, Outbox
from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.transport import TURN_BYTES, Transport
from kcli.storage.log.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def client(send_buffer: int = 0) -> Iterator[tuple[Outbox, socket.socket]]:
    """An outbox and the socket at the other end."""
    ours, theirs = socket.socketpair()
    if send_buffer:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield Outbox(Transport(ours)), theirs


def records(path: Path, data: bytes) -> FileRecords:
    file = FileRecords.create(str(path))
    file.append(data)
    return file


async def receive(sock: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        await trio.lowlevel.wait_readable(sock)
        received += sock.recv(50_000)
    return bytes(received)


async def test_bytes_that_the_socket_takes_are_sent_at_once() -> None:
    with client() as (outbox, other):
        outbox.parts += [b"one ", b"two"]
        outbox.size_bytes += 7
        assert outbox.send_now()
        assert (outbox.parts, outbox.size_bytes) == ([], 0)
        assert other.recv(100) == b"one two"
        assert outbox.send_now()


async def test_what_the_socket_does_not_take_stays_in_order() -> None:
    data = random.Random(1).randbytes(3_000_000)
    with client(send_buffer=20_000) as (outbox, other):
        outbox.parts.append(data)
        assert not outbox.send_now()
        outbox.parts.append(b"behind")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send)
            assert await receive(other, len(data) + 6) == data + b"behind"
        assert outbox.parts == []


@pytest.mark.parametrize("send_buffer", [0, 5_000, 100_000])
async def test_files_and_bytes_come_in_their_order(send_buffer: int, tmp_path: Path) -> None:
    choose = random.Random(send_buffer)
    data = choose.randbytes(4 * TURN_BYTES)
    file = records(tmp_path / "log", data)
    sizes = [1, 100, SENDFILE_FROM - 1, SENDFILE_FROM, 50_000, TURN_BYTES, 2 * TURN_BYTES + 17]
    expected = bytearray()
    with client(send_buffer) as (outbox, other):
        for _ in range(3):
            parts: list[Any] = []
            for size in choose.sample(sizes, len(sizes)):
                head = choose.randbytes(choose.randrange(200))
                start = choose.randrange(len(data) - size)
                parts += [head, file.slice(start, size)]
                expected += head + data[start : start + size]
            outbox.add(parts)
        outbox.parts.append(b"end")
        expected += b"end"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send)
            assert await receive(other, len(expected)) == expected
        assert (outbox.parts, outbox.size_bytes) == ([], 0)


async def test_a_turn_ends_after_a_megabyte(tmp_path: Path) -> None:
    file = records(tmp_path / "log", bytes(3 * TURN_BYTES))
    with client() as (outbox, other):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        outbox.add([file.slice(0, 3 * TURN_BYTES)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.send)
            assert await receive(other, 3 * TURN_BYTES) == bytes(3 * TURN_BYTES)


DATA_SEGMENTS_SENT = Struct("=156xI")
"""The field of Linux's `tcp_info`, whose others before it take 156 bytes."""


def data_segments(sock: socket.socket) -> int:
    """How many segments with data the socket has sent."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS_SENT.size)
    return int(DATA_SEGMENTS_SENT.unpack(info)[0])


async def segments_of_a_file(path: Path, *behind: bytes) -> int:
    """Send a head, a file and what is behind it; return how many segments that took."""
    data = random.Random(2).randbytes(SENDFILE_FROM)
    file = records(path, data)
    expected = b"".join([b"head", data, *behind])
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as other,
        server.accept()[0] as ours,
    ):
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        outbox = Outbox(Transport(ours))
        outbox.add([b"head", file.slice(0, len(data)), *behind])
        assert outbox.send_now()
        assert await receive(other, len(expected)) == expected
        return data_segments(ours)


async def test_a_head_goes_with_the_file_unless_something_comes_behind_that(tmp_path: Path) -> None:
    # How many there are depends on how large one may be.
    alone = await segments_of_a_file(tmp_path / "alone")
    followed = await segments_of_a_file(tmp_path / "followed", b"end")
    assert 0 < alone < followed


class RoomySocket:
    """A socket that takes whatever it is given."""

    def fileno(self) -> int:
        return -1

    def recv_into(self, view: memoryview) -> int:
        return 0

    def send(self, data: bytes, _flags: int = 0) -> int:
        return len(data)


@pytest.mark.parametrize(
    ("behind", "in_one_turn"),
    [
        ([b"\x00"] * 3, True),
        ([bytes(REST_BYTES)], True),
        ([bytes(REST_BYTES + 1)], False),
        ([b"\x00"] * (REST_PARTS + 1), False),
    ],
    ids=["the end of a fetch", "a little", "a byte more", "many parts"],
)
def test_what_little_is_behind_a_megabyte_goes_with_it(
    behind: list[bytes], in_one_turn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sendfile", lambda _to, _file, _position, count: count)
    file = records(tmp_path / "log", bytes(TURN_BYTES))
    outbox = Outbox(Transport(RoomySocket()))  # type: ignore[arg-type]
    outbox.add([b"head", file.slice(0, TURN_BYTES), *behind])
    assert outbox.send_now() is in_one_turn
    assert outbox.parts == ([] if in_one_turn else behind)
    assert outbox.send_now()


@pytest.mark.parametrize("size", [100, SENDFILE_FROM])
async def test_a_file_that_was_cut_ends_the_connection(size: int, tmp_path: Path) -> None:
    file = records(tmp_path / "log", bytes(size))
    part = file.slice(0, size)
    os.truncate(tmp_path / "log", 0)
    with client() as (outbox, _):
        outbox.add([b"head", part])
        with pytest.raises(CloseConnection, match="was cut"):
            await outbox.send()
        assert outbox.send_now()


async def test_once_it_is_closed_it_waits_for_room_no_more() -> None:
    with client(send_buffer=10_000) as (outbox, other):
        outbox.add([bytes(1_000_000)])
        outbox.close()
        with pytest.raises(trio.ClosedResourceError):
            await outbox.send()
        assert other.recv(1)


async def test_what_the_socket_takes_at_once_is_sent_although_it_is_closed() -> None:
    with client() as (outbox, other):
        outbox.add([b"last words"])
        outbox.close()
        await outbox.send()
        assert other.recv(100) == b"last words"


@pytest.mark.parametrize("head", [b"\x00\x00\x00\x05hel", b"\x00"])
async def test_a_frame_whose_first_byte_is_sent_goes_on_behind_it(head: bytes) -> None:
    with client() as (outbox, other):
        outbox.probe()
        outbox.probe()
        assert other.recv(100) == b"\x00"
        outbox.add(())
        outbox.add((head, b"lo"))
        outbox.add((b"\x00next",))
        await outbox.send()
        assert other.recv(100) == head[1:] + b"lo" + b"\x00next"


async def test_nothing_goes_before_what_is_on_its_way() -> None:
    with client() as (outbox, other):
        outbox.add((b"whole",))
        outbox.probe()
        await outbox.send()
        assert other.recv(100) == b"whole"


async def test_a_frame_whose_first_byte_was_guessed_wrong_closes_the_connection() -> None:
    with client() as (outbox, _):
        outbox.probe()
        with pytest.raises(CloseConnection, match="16 MB"):
            outbox.add((struct.pack(">i", 1 << 24), b""))


async def test_what_is_for_a_client_that_is_gone_is_dropped(tmp_path: Path) -> None:
    with client() as (outbox, other):
        outbox.discard()
        outbox.add((b"head", records(tmp_path / "log", bytes(3 * SENDFILE_FROM)).slice(0, 3 * SENDFILE_FROM)))
        await outbox.send()
        assert (outbox.parts, outbox.size_bytes) == ([], 0)
        with pytest.raises(BlockingIOError):
            other.recv(1)
