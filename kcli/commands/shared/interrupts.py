"""Ctrl-C, SIGTERM and SIGHUP for commands that finish what they have begun before they end.

The reader of standard output: a command that may wait for long with nothing to print ends when it goes.

Whoever writes to a pipe that nobody reads is told so; whoever waits is not, and `head -2` behind it has long
printed its lines. So the pipe is watched meanwhile, as `tail -f` does it. That costs nothing: the kernel
wakes the writing end for the going of the last reader only.
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
    """Give a scope to run work in: the first signal cancels it, and a later one ends the program at once.

    Work that is shielded from the first, to finish what it has begun, is told of a later one by `hurry`.

    What follows the scope inside this block, like flushing, runs after the first signal too; it looks at
    `cancel_called` to know whether there was one.
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
    """Cancel the block and raise `BrokenPipeError`, as a write would, once nobody reads standard output."""
    descriptor = pipe_to_reader()
    async with trio.open_nursery() as nursery:
        if descriptor is not None:
            nursery.start_soon(watch_reader, descriptor)
        yield
        nursery.cancel_scope.cancel()


def pipe_to_reader() -> int | None:
    """Return the descriptor of standard output if it is a pipe or a socket, which a reader can leave."""
    try:
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # it is closed or no file
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None


async def watch_reader(descriptor: int) -> None:
    """Raise `BrokenPipeError` when the other end is closed; return if it says something else instead."""
    await trio.lowlevel.wait_readable(descriptor)
    if is_abandoned(descriptor):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def is_abandoned(descriptor: int) -> bool:
    """Tell whether nobody is left at the other end: what can be read of a socket does not mean that."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
