"""RecordOutput: the number of written records is exact, and an interrupt leaves no half-written one."""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import FileIO
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from kcli.commands.consume.record_output import (
    FINISH_SECONDS,
    PIECE_BYTES,
    TORN,
    ByThread,
    Pieces,
    RecordOutput,
    record_output,
)
from tests.commands.pipes import unread_bytes
from tests.commands.shared.test_output_reader import Ends, sockets, standard_output
from tests.support.waiting import PATIENCE_SECONDS, until

LONG = b"long" * 100_000
"""More than a pipe or a socket holds."""
SHORT = [b"%0999d\n" % number for number in range(1_000)]


def connection() -> tuple[int, int]:
    """Return two ends of a connection over TCP; the first one, closed, resets it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        writer = socket.create_connection(server.getsockname())
        reader, _ = server.accept()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return reader.detach(), writer.detach()


def held_by(reader: FileIO) -> bytes:
    """Return the content of a pipe."""
    os.set_blocking(reader.fileno(), False)
    held = b""
    while part := reader.read(1_000_000):
        held += part
    return held


def raising(error: type[Exception]) -> Callable[..., None]:
    """Return a function that raises an error."""

    def function(*_: object, **__: object) -> None:
        raise error

    return function


@contextmanager
def reading_end(make: Ends) -> Iterator[FileIO]:
    """Make one end of a pipe or socket standard output, and give the other end."""
    descriptor, writer = make()
    with FileIO(descriptor) as reader, standard_output(writer):
        yield reader


async def read_until(enough: int, reader: FileIO, into: bytearray) -> None:
    """Read until there is enough."""
    while len(into) < enough:
        await trio.lowlevel.wait_readable(reader.fileno())
        into += reader.read(10_000)


async def interrupted(
    output: RecordOutput, pieces: Pieces, then: Callable[[], object] = lambda: None
) -> None:
    """Write until the pipe is full, interrupt, and run an action when the write waits again."""
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.write, pieces)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            then()


@pytest.mark.parametrize("make", [os.pipe, sockets])
async def test_everything_goes_out_to_a_reader_that_reads(make: Ends) -> None:
    items = [b"", *SHORT, LONG, b"", b"end\n"]
    with reading_end(make) as reader:
        read = bytearray()
        with trio.fail_after(PATIENCE_SECONDS):
            async with record_output() as output, trio.open_nursery() as nursery:
                nursery.start_soon(read_until, len(b"".join(items)), reader, read)
                pieces = Pieces(items)
                await output.write(pieces)
        assert (pieces.whole_items, read) == (len(items), b"".join(items))


@pytest.mark.parametrize("make", [os.pipe, sockets])
async def test_a_stalled_reader_finds_whole_records_and_those_that_were_counted(
    make: Ends, capfd: pytest.CaptureFixture[str]
) -> None:
    with reading_end(make) as reader:
        async with record_output() as output:
            pieces = Pieces(SHORT)
            await interrupted(output, pieces)
        assert 0 < pieces.whole_items < len(SHORT)
        assert held_by(reader) == b"".join(SHORT[: pieces.whole_items])
    assert capfd.readouterr().err == ""


async def test_who_shares_the_pipe_does_not_notice() -> None:
    with reading_end(os.pipe):
        async with record_output() as output:
            await output.write(Pieces([b"x"]))
            assert os.get_blocking(sys.stdout.fileno())


@pytest.mark.parametrize("make", [os.pipe, sockets])
async def test_a_record_that_has_begun_is_finished_when_the_reader_goes_on(
    make: Ends, autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    with reading_end(make) as reader:
        read = bytearray()
        async with trio.open_nursery() as nursery, record_output() as output:
            pieces = Pieces([LONG, b"next"])
            reading = partial(nursery.start_soon, read_until, len(LONG), reader, read)
            await interrupted(output, pieces, then=reading)
        assert (pieces.whole_items, read + held_by(reader)) == (1, LONG)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("make", [os.pipe, sockets])
async def test_a_record_that_cannot_be_finished_is_not_counted_and_told_of(
    make: Ends, autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    with reading_end(make) as reader:
        async with record_output() as output:
            pieces = Pieces([b"first\n", LONG])
            await interrupted(output, pieces)
        held = held_by(reader)
        assert (pieces.whole_items, pieces.written) == (1, len(held))
        assert PIECE_BYTES < len(held) < len(LONG)
    assert capfd.readouterr().err == f"warning: {TORN}\n"


async def test_who_is_told_to_end_now_does_not_wait_for_the_reader(
    autojump_clock: MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    with reading_end(os.pipe):
        async with record_output() as output:
            began = trio.current_time()
            await interrupted(output, Pieces([LONG]), then=output.give_up)
            assert trio.current_time() == began
    assert capfd.readouterr().err == f"warning: {TORN}\n"


@pytest.mark.parametrize("make", [os.pipe, sockets, connection])
async def test_a_reader_that_goes_ends_the_wait_for_it_quietly(
    make: Ends, capfd: pytest.CaptureFixture[str]
) -> None:
    with reading_end(make) as reader:
        async with record_output() as output:
            pieces = Pieces([LONG])
            await interrupted(output, pieces, then=reader.close)
        assert pieces.whole_items == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("make", [os.pipe, sockets, connection])
@pytest.mark.parametrize("is_open_at_first", [True, False])
async def test_writing_for_a_reader_that_is_gone_is_an_error(make: Ends, is_open_at_first: bool) -> None:
    with reading_end(make) as reader:
        if not is_open_at_first:
            reader.close()
        async with record_output() as output:
            await output.write(Pieces([]))
            if is_open_at_first:
                reader.close()
            with pytest.raises(BrokenPipeError):
                await output.write(Pieces([b"x"]))


async def test_a_socket_that_python_does_not_know_is_written_by_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with reading_end(sockets) as reader:
        open_files = os.listdir("/proc/self/fd")
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", raising(OSError))
            async with record_output() as output:
                await output.write(Pieces([b"x"]))
        assert os.listdir("/proc/self/fd") == open_files
        assert held_by(reader) == b"x"


async def test_files_are_written_by_a_thread(tmp_path: Path) -> None:
    items = [*SHORT, LONG]
    path = tmp_path / "records"
    with standard_output(os.open(path, os.O_WRONLY | os.O_CREAT)):
        async with record_output() as output:
            pieces = Pieces(items)
            await output.write(pieces)
            assert pieces.whole_items == len(items)
            with trio.CancelScope() as scope:
                scope.cancel()
                await output.write(Pieces([b"not begun"]))
    assert path.read_bytes() == b"".join(items)


class Observed(ByThread):
    """A way whose thread sets an event at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.has_ended = threading.Event()

    def _work(self, descriptor: int, pieces: Pieces) -> None:
        try:
            super()._work(descriptor, pieces)
        finally:
            self.has_ended.set()


async def test_a_terminal_that_is_stopped_holds_up_no_interrupt(
    autojump_clock: MockClock, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    way = Observed()
    monkeypatch.setattr("kcli.commands.consume.record_output.ByThread", lambda: way)
    other, terminal = pty.openpty()
    with standard_output(terminal):
        async with record_output() as output:
            pieces = Pieces(SHORT)
            began = trio.current_time()
            with trio.move_on_after(1):
                await output.write(pieces)
            assert pieces.whole_items < len(SHORT)
            assert trio.current_time() - began < 1 + FINISH_SECONDS / 2
        os.close(other)
        # The abandoned thread must not write to a file that gets the same descriptor.
        assert way.has_ended.wait(PATIENCE_SECONDS)
    assert capfd.readouterr().err == ""


async def test_a_thread_finishes_the_record_that_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.commands.consume.record_output.FINISH_SECONDS", PATIENCE_SECONDS)
    read = bytearray()
    with reading_end(os.pipe) as reader:
        room = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
        async with trio.open_nursery() as nursery, trio.open_nursery() as writing:
            pieces = Pieces([LONG, b"next"])
            writing.start_soon(RecordOutput(ByThread()).write, pieces)
            await until(lambda: unread_bytes(reader.fileno()) == room)
            writing.cancel_scope.cancel()
            nursery.start_soon(read_until, len(LONG), reader, read)
        assert (pieces.whole_items, read + held_by(reader)) == (1, LONG)


async def test_a_thread_tells_of_a_reader_that_is_gone() -> None:
    with reading_end(os.pipe) as reader:
        reader.close()
        with pytest.raises(BrokenPipeError):
            await RecordOutput(ByThread()).write(Pieces([b"x"]))
