"""Pieces: items to write, one behind the other, cut so that what is taken whole ends with an item.

A pipe takes up to `PIECE_BYTES` whole or not at all. As many items as fit make a piece, so that nobody ever
sees a part of one; only an item that is longer takes several pieces, and is torn in between.

RecordOutput: standard output for records, of which it is known exactly what is out, whoever interrupts.

No call waits for a pipe: what it has room for goes out, and until there is more room the event loop waits.
So nobody is interrupted within a write, and nothing goes out once it was told how much did. Files, terminals,
and pipes that do not allow it, are written by a thread: they hold up neither the connection nor Ctrl-C.

An interrupted write leaves no part of a record to a reader that reads: one that has begun is finished.
"""

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
"""What a pipe that has room takes without waiting, and in one go: 4096 on Linux."""


class Pieces:
    """What there is to write; `written` says how many bytes of it are out, and is for the writer to raise."""

    __slots__ = ("_data", "_ends", "written")

    def __init__(self, items: Sequence[bytes]) -> None:
        self._data = memoryview(b"".join(items))
        self._ends = list(accumulate(map(len, items)))
        self.written = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to write."""
        return not self._ends or self.written >= self._ends[-1]

    @property
    def whole_items(self) -> int:
        """How many items are out."""
        return bisect_right(self._ends, self.written)

    @property
    def is_torn(self) -> bool:
        """Whether what is out ends within an item."""
        whole = self.whole_items
        return self.written > (self._ends[whole - 1] if whole else 0)

    def piece(self) -> memoryview:
        """Return what to write next: whole items, or a part of one that is longer than a piece."""
        most = self.written + PIECE_BYTES
        whole = bisect_right(self._ends, most)
        end = self._ends[whole - 1] if whole else 0
        return self._data[self.written : end if end > self.written else min(most, self._ends[-1])]

    def end_with_item(self) -> None:
        """Leave out all that has not begun."""
        whole = self.whole_items
        if self.is_torn:
            whole = bisect_right(self._ends, self._ends[whole])
        del self._ends[whole:]


FINISH_SECONDS = 2.0
"""How long an interrupted write may take to finish its record; after that its reader counts as stalled.

It is part of the time that an interrupted member of a group has to commit and to leave.
"""

GRACE_SECONDS = 0.2
"""How long a thread that is interrupted may take for a piece, where it is not in the middle of a record."""

PIECES_PER_TURN = 64
"""After so many, others have a turn, should the reader be as fast as that."""

TORN = "the output ends within a record, which does not count: its reader did not take the rest"

Write = Callable[[memoryview], int]
"""Writes what there is room for, and returns how much that was; raises `BlockingIOError` without any."""


class Way(Protocol):
    """How pieces get out."""

    async def put(self, pieces: Pieces) -> None:
        """Write all of them."""
        ...

    async def finish(self, pieces: Pieces) -> None:
        """After a `put` that was cancelled: write what is left of the item that has begun."""
        ...


class RecordOutput:
    """Writes pieces; what is out of them is final when `write` returns or raises."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._finishing = trio.CancelScope()

    async def write(self, pieces: Pieces) -> None:
        """Write pieces; raise `BrokenPipeError` when nobody reads them any more."""
        if pieces.is_done:
            return
        sys.stdout.flush()
        try:
            await self._way.put(pieces)
        except ConnectionResetError as error:  # what a socket says first of a reader that has gone
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        except trio.Cancelled:
            # Nothing is swallowed: only of a write that was interrupted there is something to finish.
            await self._finish(pieces)
            raise

    def give_up(self) -> None:
        """Do not wait any longer for the end of a record that has begun."""
        self._finishing.cancel()

    async def _finish(self, pieces: Pieces) -> None:
        deadline = trio.current_time() + FINISH_SECONDS
        self._finishing = trio.CancelScope(shield=True, deadline=deadline)
        # Should the reader go now: the interrupt came first.
        with suppress(ConnectionError), self._finishing:
            await self._way.finish(pieces)
        if self._finishing.cancelled_caught and pieces.is_torn:
            warn(TORN)


class AsTaken:
    """Writes what the other end has room for."""

    def __init__(self, descriptor: int, write: Write) -> None:
        self._descriptor = descriptor
        self._write = write

    async def put(self, pieces: Pieces) -> None:
        """Write all of them."""
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
        """Write what is left of the item that has begun."""
        pieces.end_with_item()
        await self.put(pieces)


class ByThread:
    """Has a thread write. Where one is held up for good, the piece that it has in hand is not counted."""

    def __init__(self) -> None:
        self._is_writing = False
        self._should_stop = False

    async def put(self, pieces: Pieces) -> None:
        """Write all of them."""
        descriptor = sys.stdout.fileno()
        await trio.lowlevel.checkpoint_if_cancelled()
        self._is_writing = True
        await trio.to_thread.run_sync(self._work, descriptor, pieces, abandon_on_cancel=True)

    async def finish(self, pieces: Pieces) -> None:
        """Wait until the thread is at the end of an item."""
        self._should_stop = True
        grace_end = trio.current_time() + GRACE_SECONDS

        def is_awaited() -> bool:
            return self._is_writing and (pieces.is_torn or trio.current_time() < grace_end)

        while is_awaited():  # noqa: ASYNC110 - a thread says so
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
    """Give standard output, for records."""
    descriptor = pipe_to_reader()
    with ExitStack() as stack:
        way = None if descriptor is None else unblocked(descriptor, stack)
        yield RecordOutput(way or ByThread())


def unblocked(descriptor: int, stack: ExitStack) -> AsTaken | None:
    """Return the way into a pipe or a socket that never waits, None if there is none.

    All who inherited a pipe share its O_NONBLOCK, and few expect it. One that is opened anew has its own.
    """
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        copy = os.dup(descriptor)
        try:
            own = stack.enter_context(socket.socket(fileno=copy))
        except OSError:  # of a kind that Python does not know
            os.close(copy)
            return None
        return AsTaken(own.fileno(), lambda piece: own.send(piece, socket.MSG_DONTWAIT))
    try:
        opened = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # there is no /proc, the pipe is another user's, or nobody reads it any more
        return None
    stack.callback(os.close, opened)
    return AsTaken(opened, partial(os.write, opened))
