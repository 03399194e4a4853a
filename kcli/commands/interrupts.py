"""Ctrl-C, SIGTERM and SIGHUP for commands that finish what they have begun before they end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from kcli.stop_signals import heard_signals, obey


@asynccontextmanager
async def interruptible() -> AsyncIterator[trio.CancelScope]:
    """Give a scope to run work in: the first signal cancels it, and a later one ends the program at once.

    What follows the scope inside this block, like flushing, runs after the first signal too; it looks at
    `cancel_called` to know whether there was one.
    """

    async def watch(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*heard_signals()) as signals:
            task_status.started()
            await obey(signals, stop=lambda _: scope.cancel(), abort=interrupt)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        await nursery.start(watch, scope)
        yield scope
        nursery.cancel_scope.cancel()
