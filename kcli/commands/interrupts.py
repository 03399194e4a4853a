"""Ctrl-C, SIGTERM and SIGHUP for commands that finish what they have begun before they end."""

from __future__ import annotations

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
