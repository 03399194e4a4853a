"""What ends a command early: Ctrl-C, SIGTERM and SIGHUP, and the end of the reader of standard output.

A process that writes to a pipe without a reader gets an error. One that waits gets none: `head -2` behind it
may have ended long ago. So the pipe is watched while the command waits, as in `tail -f`. The watch costs
nothing: the kernel wakes the writing end only when the last reader is gone.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from kcli.stop_signals import heard_signals, obey


@asynccontextmanager
async def interruptible(*, hurry: Callable[[], object] = lambda: None) -> AsyncIterator[trio.CancelScope]:
    """Give a scope to run work in: the first signal cancels it, a later one ends the program at once.

    Work that is shielded from the first signal learns of a later one through `hurry`. What follows the scope
    inside this block, like flushing, runs after the first signal too; `cancel_called` tells of it.
    """

    async def watch(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*heard_signals()) as signals:
            task_status.started()
            await obey(signals, stop=lambda _: scope.cancel(), abort=interrupt)

    def interrupt(_: int) -> None:
        hurry()
        raise KeyboardInterrupt

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        await nursery.start(watch, scope)
        yield scope
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def ending_with_reader() -> AsyncIterator[None]:
    """Cancel the block and raise `BrokenPipeError`, as a write would, when standard output has no reader."""
    descriptor = pipe_to_reader()
    async with trio.open_nursery() as nursery:
        if descriptor is not None:
            nursery.start_soon(watch_reader, descriptor)
        yield
        nursery.cancel_scope.cancel()


def pipe_to_reader() -> int | None:
    """Return the descriptor of standard output if it is a pipe or a socket, else None."""
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # it is closed, or is not a file
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


async def watch_reader(descriptor: int) -> None:
    """Raise `BrokenPipeError` when the other end closes; return if data comes from there instead."""
    await trio.lowlevel.wait_readable(descriptor)
    if is_abandoned(descriptor):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def is_abandoned(descriptor: int) -> bool:
    """Tell whether the other end is closed. A readable socket alone does not mean that."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
