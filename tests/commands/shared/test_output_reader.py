"""A waiting command watches standard output: it ends when the reader goes, and for no other reason."""

from __future__ import annotations

import os
import pty
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from kcli.commands.shared.interrupts import ending_with_reader, pipe_to_reader, watch_reader
from tests.support.waiting import PATIENCE_SECONDS

Ends = Callable[[], tuple[int, int]]


def sockets() -> tuple[int, int]:
    """Return two connected sockets."""
    left, right = socket.socketpair()
    return left.detach(), right.detach()


@contextmanager
def standard_output(descriptor: int) -> Iterator[None]:
    """Make a descriptor standard output while inside, then close it."""
    saved = sys.stdout
    with open(descriptor, "w", encoding="utf-8") as sys.stdout:
        try:
            yield
        finally:
            sys.stdout = saved


@pytest.mark.parametrize("make", [os.pipe, sockets])
async def test_what_waits_goes_on_while_it_is_read_and_ends_with_its_reader(make: Ends) -> None:
    reader, writer = make()
    ended: list[BaseException] = []

    async def wait() -> None:
        try:
            async with ending_with_reader():
                await trio.sleep_forever()
        except* BrokenPipeError as group:
            ended.append(group)

    with standard_output(writer), trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for text in (b"one", b"two"):
                os.write(writer, text)
                await trio.testing.wait_all_tasks_blocked()
                assert os.read(reader, 100) == text
                await trio.testing.wait_all_tasks_blocked()
            assert not ended
            os.close(reader)
    assert len(ended) == 1


async def test_a_reader_that_has_gone_before_ends_it_too() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with (
        standard_output(writer),
        trio.fail_after(PATIENCE_SECONDS),
        pytest.raises(BaseExceptionGroup) as raised,
    ):
        async with ending_with_reader():
            await trio.sleep_forever()
    assert raised.group_contains(BrokenPipeError)


async def test_what_has_no_need_to_wait_is_not_held_up() -> None:
    reader, writer = os.pipe()
    with standard_output(writer), trio.fail_after(PATIENCE_SECONDS):
        async with ending_with_reader():
            await trio.lowlevel.checkpoint()
    os.close(reader)


async def test_who_is_cancelled_and_clears_up_watches_no_more() -> None:
    reader, writer = os.pipe()
    with standard_output(writer), trio.fail_after(PATIENCE_SECONDS), trio.CancelScope() as scope:
        async with ending_with_reader():
            scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
                os.close(reader)
                await trio.testing.wait_all_tasks_blocked()


async def test_what_can_be_read_of_a_socket_ends_nothing() -> None:
    reader, writer = sockets()
    os.write(reader, b"input")
    with trio.fail_after(PATIENCE_SECONDS):
        await watch_reader(writer)
    os.close(reader)
    os.close(writer)


def test_a_terminal_and_a_file_have_no_reader_to_wait_for(tmp_path: Path) -> None:
    other, terminal = pty.openpty()
    with standard_output(terminal):
        assert pipe_to_reader() is None
    os.close(other)
    with standard_output(os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)):
        assert pipe_to_reader() is None
    with standard_output(os.open(os.devnull, os.O_WRONLY)):
        assert pipe_to_reader() is None
