"""RecordOutput: standard output for records; after an interrupt it is known exactly which ones are out."""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
import sys
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import accumulate
from typing import Protocol

import trio

from kcli.commands.shared.interrupts import pipe_to_reader
from kcli.commands.shared.output import warn

PIECE_BYTES = select.PIPE_BUF
"""The bytes that a pipe with room takes at once without blocking: 4096 on Linux."""


class Pieces:
    """Items to write one after the other, cut so that a piece that is written whole ends with an item.

    A pipe takes up to `PIECE_BYTES` whole or not at all. A piece is as many items as fit, so that a reader
    never sees a part of one; only a longer item takes several pieces. The writer adds the bytes that are out
    to `written`.
    """

    __slots__ = ("_data", "_ends", "written")

    def __init__(self, items: Sequence[bytes]) -> None:
        self._data = memoryview(b"".join(items))
        self._ends = list(accumulate(map(len, items)))
        self.written = 0

    @property
    def is_done(self) -> bool:
        return not self._ends or self.written >= self._ends[-1]

    @property
    def whole_items(self) -> int:
        return bisect_right(self._ends, self.written)

    @property
    def is_torn(self) -> bool:
        """Tell whether the written bytes end within an item."""
        whole = self.whole_items
        return self.written > (self._ends[whole - 1] if whole else 0)

    def piece(self) -> memoryview:
        """Return the next bytes to write: whole items, or a part of an item that is longer than a piece."""
        most = self.written + PIECE_BYTES
        whole = bisect_right(self._ends, most)
        end = self._ends[whole - 1] if whole else 0
        return self._data[self.written : end if end > self.written else min(most, self._ends[-1])]

    def end_with_item(self) -> None:
        """Drop the items that have not begun."""
        whole = self.whole_items
        if self.is_torn:
            whole = bisect_right(self._ends, self._ends[whole])
        del self._ends[whole:]


FINISH_SECONDS = 2.0
"""How long an interrupted write may take to finish its record; then its reader counts as stalled.

It is part of the time that an interrupted member of a group has to commit and leave.
"""

GRACE_SECONDS = 0.2
"""How long an interrupted thread may take for a piece that is not in the middle of a record."""

PIECES_PER_TURN = 64
"""After so many pieces, other tasks get a turn, even if the reader is fast enough."""

TORN = "the output ends within a record, which does not count: the reader did not take the rest"

Write = Callable[[memoryview], int]
"""Writes as many bytes as there is room for, returns their number; raises `BlockingIOError` without room."""


class Way(Protocol):
    """A way to write pieces: by a thread, or without blocking."""

    async def put(self, pieces: Pieces) -> None:
        """Write all pieces."""

    async def finish(self, pieces: Pieces) -> None:
        """After a cancelled `put`: write the rest of the item that has begun."""


class RecordOutput:
    """Standard output for records. How much is out is final when `write` returns or raises.

    No call blocks on a pipe: it writes what there is room for, and then the event loop waits for more room.
    So no interrupt comes within a write. Files, terminals, and pipes that cannot be opened anew, are written
    by a thread: they block neither the connection nor Ctrl-C. An interrupted write finishes the record that
    it has begun, if the reader reads.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._finishing = trio.CancelScope()

    async def write(self, pieces: Pieces) -> None:
        """Write pieces; raise `BrokenPipeError` if the reader is gone."""
        if pieces.is_done:
            return
        sys.stdout.flush()
        try:
            await self._way.put(pieces)
        except ConnectionResetError as error:  # the first error of a socket without a reader
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        except trio.Cancelled:
            # The cancellation goes on after this. Only an interrupted write has something to finish.
            await self._finish(pieces)
            raise

    def give_up(self) -> None:
        """Stop waiting for the end of a record that has begun."""
        self._finishing.cancel()

    async def _finish(self, pieces: Pieces) -> None:
        deadline = trio.current_time() + FINISH_SECONDS
        self._finishing = trio.CancelScope(shield=True, deadline=deadline)
        # If the reader goes now, the interrupt came first.
        with suppress(ConnectionError), self._finishing:
            await self._way.finish(pieces)
        if self._finishing.cancelled_caught and pieces.is_torn:
            warn(TORN)


class NonBlocking:
    """Writes what the other end has room for."""

    def __init__(self, descriptor: int, write: Write) -> None:
        self._descriptor = descriptor
        self._write = write

    async def put(self, pieces: Pieces) -> None:
        await trio.lowlevel.checkpoint()
        left = PIECES_PER_TURN
        while not pieces.is_done:
            try:
                pieces.written += self._write(pieces.piece())
                left -= 1
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._descriptor)
                left = PIECES_PER_TURN
            if not left:
                await trio.lowlevel.checkpoint()
                left = PIECES_PER_TURN

    async def finish(self, pieces: Pieces) -> None:
        pieces.end_with_item()
        await self.put(pieces)


class ByThread:
    """Lets a thread write. If it blocks forever, its current piece does not count."""

    def __init__(self) -> None:
        self._is_writing = False
        self._should_stop = False

    async def put(self, pieces: Pieces) -> None:
        descriptor = sys.stdout.fileno()
        await trio.lowlevel.checkpoint_if_cancelled()
        self._is_writing = True
        await trio.to_thread.run_sync(self._work, descriptor, pieces, abandon_on_cancel=True)

    async def finish(self, pieces: Pieces) -> None:
        self._should_stop = True
        grace_end = trio.current_time() + GRACE_SECONDS

        def is_awaited() -> bool:
            return self._is_writing and (pieces.is_torn or trio.current_time() < grace_end)

        while is_awaited():  # noqa: ASYNC110 - a thread decides
            await trio.sleep(0.005)

    def _work(self, descriptor: int, pieces: Pieces) -> None:
        try:
            while not pieces.is_done:
                pieces.written += os.write(descriptor, pieces.piece())
                if self._should_stop:
                    pieces.end_with_item()
        finally:
            self._is_writing = False


@asynccontextmanager
async def record_output() -> AsyncIterator[RecordOutput]:
    descriptor = pipe_to_reader()
    with ExitStack() as stack:
        way = None if descriptor is None else unblocked(descriptor, stack)
        yield RecordOutput(way or ByThread())


def unblocked(descriptor: int, stack: ExitStack) -> NonBlocking | None:
    """Return a way into a pipe or a socket that never blocks, None if there is none.

    All processes that inherit a pipe share its O_NONBLOCK, and few expect it. So the pipe is opened anew.
    """
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        copy = os.dup(descriptor)
        try:
            own = stack.enter_context(socket.socket(fileno=copy))
        except OSError:  # a kind of socket that Python does not know
            os.close(copy)
            return None
        return NonBlocking(own.fileno(), lambda piece: own.send(piece, socket.MSG_DONTWAIT))
    try:
        opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # there is no /proc, the pipe belongs to another user, or it has no reader
        return None
    stack.callback(os.close, opened)
    return NonBlocking(opened, partial(os.write, opened))
