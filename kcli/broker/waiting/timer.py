"""Timer: the one timing wheel of a node and the one task that drives it (Kafka class `SystemTimer`).

The deadlines of the purgatory and the timers of the coordinators are entries of one wheel. The task sleeps
until the nearest bucket is due, and wakes for an earlier entry or for `call_soon`. Timed tasks are
synchronous; between chunks of them other tasks of the node run.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import trio

from kcli.broker.waiting.pause_gate import PauseGate, Sleeper
from kcli.broker.waiting.timing_wheel import TimerEntry, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


CHUNK = 64
"""The most timed tasks or tried operations between two checkpoints."""

_log = logging.getLogger(__name__)


class TimerTask(TimerEntry):
    """A task with a deadline; subclasses say what it does."""

    __slots__ = ()

    def fall_due(self) -> None:
        """Do the task; called once, when the deadline has come."""
        raise NotImplementedError


class TimerCallback(TimerTask):
    """A function to call at a deadline."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def fall_due(self) -> None:
        self._callback()


class Timer:
    """The timed tasks of one node; nothing falls due while `gate` is closed."""

    def __init__(self, gate: PauseGate | None = None) -> None:
        self._gate = gate or PauseGate()
        self._wheel = TimingWheel(0)
        self._soon: dict[Callable[[], Awaitable[None]], None] = {}
        self._sleeper = Sleeper()
        self._sleeps_until_ms: int | None = None

    @property
    def count(self) -> int:
        """The number of tasks that wait for their deadline."""
        return self._wheel.count

    def add(self, task: TimerTask, delay_ms: int, now_ms: int) -> bool:
        """Schedule `task`; return False, and schedule nothing, if its delay is already over."""
        task.deadline_ms = now_ms + delay_ms
        if not self._wheel.add(task, now_ms):
            return False
        if self._sleeper.task is not None and self._wheel.next_due_ms() != self._sleeps_until_ms:
            self._sleeper.wake()
        return True

    def cancel(self, task: TimerTask) -> None:
        """Remove `task` if it is scheduled."""
        self._wheel.cancel(task)

    def call_soon(self, job: Callable[[], Awaitable[None]]) -> None:
        """Await `job` once in the task of the timer, after everything that is due."""
        self._soon[job] = None
        if self._sleeper.task is not None:
            self._sleeper.wake()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the tasks that are due and the jobs of `call_soon` until cancelled."""
        if self._sleeper.task is not None:
            raise trio.BusyResourceError("the timer has its task already")
        task_status.started()
        while True:
            if self._gate.is_closed:
                await self._gate.passed()
            due = self._wheel.advance(monotonic_ms())
            if due:
                await self._do(due)
            elif self._soon:
                await self._do_soon()
            else:
                await self._sleep()

    async def _do(self, due: list[TimerEntry]) -> None:
        for number, task in enumerate(due, start=1):
            assert isinstance(task, TimerTask)
            try:
                task.fall_due()
            except Exception:
                # One failure must not stop the other tasks.
                _log.exception("a timed task failed")
            if number % CHUNK == 0:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    async def _do_soon(self) -> None:
        jobs, self._soon = self._soon, {}
        for number, job in enumerate(jobs, start=1):
            await job()
            if number % CHUNK == 0:
                await trio.lowlevel.checkpoint()

    async def _sleep(self) -> None:
        due_ms = self._sleeps_until_ms = self._wheel.next_due_ms()
        deadline = float("inf") if due_ms is None else due_ms / 1000
        with trio.CancelScope(deadline=deadline):
            await self._sleeper.sleep()


def monotonic_ms() -> int:
    """Return trio's clock in whole milliseconds; it never runs ahead of `trio.current_time`."""
    return int(trio.current_time() * 1000 + 0.001)


def wall_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
