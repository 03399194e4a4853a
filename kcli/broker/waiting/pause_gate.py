"""PauseGate and Sleeper: where tasks wait while their node is paused, and until another task wakes them.

A paused node is like a process after SIGSTOP. Every task that starts work by itself passes the gate first:
connections, the timer, housekeeping, fetchers, heartbeats. Sockets stay open, and requests wait in them.
"""

from __future__ import annotations

import trio


class PauseGate:
    """A gate that is closed while the node is paused."""

    __slots__ = ("_opened", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._opened = trio.Event()

    def close(self) -> None:
        """Let no task pass from now on."""
        if not self.is_closed:
            self.is_closed = True
            self._opened = trio.Event()

    def open(self) -> None:
        """Let every task pass, also those that wait."""
        self.is_closed = False
        self._opened.set()

    async def passed(self) -> None:
        """Return when the gate is open."""
        while self.is_closed:
            await self._opened.wait()


class Sleeper:
    """Where one task sleeps until another wakes it, without an event or a cancel scope."""

    __slots__ = ("_error", "task")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = None
        """The task, while it sleeps."""
        self._error: Exception | None = None

    async def sleep(self) -> None:
        """Return when the task is woken; raise the error that `fail` got."""
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
        """Wake the task with an error; if it is awake, its next sleep ends with the error."""
        self._error = error
        self.wake()

    def _abort(self, _raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED
