"""PauseGate: where the tasks of a node wait while it is paused, as a stopped process would (SIGSTOP).

Whatever begins work of its own accord passes the gate first: what serves connections, the timer,
housekeeping, fetchers, heartbeats. Sockets stay open meanwhile, and what comes waits in them.

Sleeper: a task that sleeps until it is woken, with neither an event nor a cancel scope of its own.
"""

from __future__ import annotations

import trio


class PauseGate:
    """A gate that is open, or closed for as long as the node is paused."""

    __slots__ = ("_opened", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._opened = trio.Event()

    def close(self) -> None:
        """Let nobody pass from now on."""
        if not self.is_closed:
            self.is_closed = True
            self._opened = trio.Event()

    def open(self) -> None:
        """Let everyone pass who waits, and who comes."""
        self.is_closed = False
        self._opened.set()

    async def passed(self) -> None:
        """Return when the gate is open."""
        while self.is_closed:
            await self._opened.wait()


class Sleeper:
    """Where one task sleeps, and others wake it."""

    __slots__ = ("_error", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        """The task, while it sleeps."""
        self._error: Exception | None = None

    async def sleep(self) -> None:
        """Return when the task is woken; raise what `fail` was told."""
        self.task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wake(self) -> None:
        """Wake the task, if it sleeps."""
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def fail(self, error: Exception) -> None:
        """Wake the task with an error; if it does not sleep, it gets that when it is woken next."""
        self._error = error
        self.wake()

    def _abort(self, _raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED
