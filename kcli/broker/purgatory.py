"""Purgatory: operations that wait until something happens to a key, or their time is up (Kafka's
`DelayedOperationPurgatory`).

A handler that cannot answer yet parks a `DelayedOperation` under keys: the partitions whose change could
complete it. Whoever changes a partition calls `touch(key)`, which only takes a note; the one task in
`run` tries the waiters afterwards, in chunks, so that ten thousand of them never sit inside one append.
An operation is a plain record: it has no task, event or cancel scope of its own. The task that awaits it
(a connection, as a rule) parks on the trio scheduler itself.

Invariants:

* an operation ends once: completed by its condition, by its deadline, or dropped;
* an operation that has ended is in no watch list and in no timer bucket;
* `try_complete` and `finish` are synchronous and never run inside the change that touched the key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.timing_wheel import TimerEntry, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

CHUNK = 64
"""How many waiters are tried or ended between two checkpoints."""

_log = logging.getLogger(__name__)


class DelayedOperation(TimerEntry):
    """What waits. Subclasses add what they wait for and how the answer is made."""

    __slots__ = ("ended", "expired", "interrupted", "keys", "task")

    keys: tuple[Hashable, ...]
    ended: bool
    expired: bool
    interrupted: bool
    task: trio.lowlevel.Task | None

    def __init__(self) -> None:
        super().__init__()
        self.keys = ()
        self.ended = False
        self.expired = False
        self.interrupted = False
        self.task = None

    def try_complete(self, key: Hashable) -> bool:
        """Return whether the operation can be answered, now that something happened to `key`."""
        raise NotImplementedError

    def finish(self) -> Any:  # noqa: ANN401 - whatever the handler would have returned at once
        """Make the answer; called once, by the task that awaited the operation."""
        raise NotImplementedError


class Purgatory:
    """The parked operations of one node."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._touched: dict[Hashable, None] = {}
        self._wheel = TimingWheel(0)
        self._driver: trio.lowlevel.Task | None = None
        self._sleeps_until_ms: int | None = None
        self._closed = False

    @property
    def parked(self) -> int:
        """How many operations wait for a deadline."""
        return self._wheel.count

    @property
    def watched_keys(self) -> int:
        """How many keys have a watch list."""
        return len(self._watchers)

    def park(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Watch `keys` for `operation`, which the caller has just found incomplete."""
        operation.keys = tuple(dict.fromkeys(keys))
        now_ms = monotonic_ms()
        operation.deadline_ms = now_ms + timeout_ms
        if self._closed or not self._wheel.add(operation, now_ms):
            operation.ended = operation.expired = True
            return
        watchers = self._watchers
        for key in operation.keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: None}
            else:
                waiting[operation] = None
        if self._driver is not None and self._wheel.next_due_ms() != self._sleeps_until_ms:
            self._wake_driver()

    def touch(self, key: Hashable) -> None:
        """Note that something happened to `key`; its waiters are tried soon, not now."""
        if key in self._watchers:
            self._touched[key] = None
            if self._driver is not None:
                self._wake_driver()

    def drop(self, operation: DelayedOperation) -> None:
        """End `operation` without an answer: nobody awaits it any more."""
        if not operation.ended:
            operation.ended = True
            self._unlink(operation)

    def drop_all(self) -> None:
        """End every operation as if its time were up, and let none wait from now on."""
        self._closed = True
        for waiting in list(self._watchers.values()):
            for operation in list(waiting):
                self._complete(operation, expired=True)

    async def wait(self, operation: DelayedOperation) -> None:
        """Return when `operation` has ended; being cancelled drops it.

        Raises `trio.ClosedResourceError` when `interrupt` ended the wait.
        """
        if not operation.ended:
            await self._park_task(operation)
        if operation.interrupted:
            raise trio.ClosedResourceError

    async def _park_task(self, operation: DelayedOperation) -> None:
        if operation.task is not None:
            raise trio.BusyResourceError("another task awaits the operation")
        operation.task = trio.lowlevel.current_task()

        def abort(_raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            operation.task = None
            self.drop(operation)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def interrupt(self, operation: DelayedOperation) -> None:
        """Drop `operation` and raise `trio.ClosedResourceError` in the task that awaits it."""
        if not operation.ended:
            operation.interrupted = True
            self._complete(operation, expired=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Try the waiters of touched keys and end those whose time is up, for ever."""
        if self._driver is not None:
            raise trio.BusyResourceError("the purgatory has its task already")
        task_status.started()
        while True:
            expired = self._wheel.advance(monotonic_ms())
            if expired:
                await self._end(expired)
            elif self._touched:
                await self._try_touched()
            else:
                await self._sleep()

    async def _sleep(self) -> None:
        due_ms = self._sleeps_until_ms = self._wheel.next_due_ms()
        deadline = float("inf") if due_ms is None else due_ms / 1000

        def abort(_raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self._driver = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._driver = trio.lowlevel.current_task()
        with trio.CancelScope(deadline=deadline):
            await trio.lowlevel.wait_task_rescheduled(abort)

    def _wake_driver(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            trio.lowlevel.reschedule(driver)

    async def _try_touched(self) -> None:
        tried = 0
        touched, self._touched = self._touched, {}
        for key in touched:
            for operation in list(self._watchers.get(key, ())):
                if operation.ended:
                    continue
                if self._try(operation, key):
                    self._complete(operation, expired=False)
                tried += 1
                if tried % CHUNK == 0:
                    await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    def _try(self, operation: DelayedOperation, key: Hashable) -> bool:
        try:
            return operation.try_complete(key)
        except Exception:
            # The task that makes the answer meets the same trouble, and has a client to tell.
            _log.exception("could not try an operation that waits for %s", key)
            return True

    async def _end(self, expired: list[TimerEntry]) -> None:
        for number, entry in enumerate(expired, start=1):
            assert isinstance(entry, DelayedOperation)
            if not entry.ended:
                self._complete(entry, expired=True)
            if number % CHUNK == 0:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    def _complete(self, operation: DelayedOperation, *, expired: bool) -> None:
        operation.ended = True
        operation.expired = expired
        self._unlink(operation)
        task, operation.task = operation.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _unlink(self, operation: DelayedOperation) -> None:
        self._wheel.cancel(operation)
        watchers = self._watchers
        for key in operation.keys:
            waiting = watchers[key]
            del waiting[operation]
            if not waiting:
                del watchers[key]


def monotonic_ms() -> int:
    """Return trio's clock in whole milliseconds; it never runs ahead of `trio.current_time`."""
    return int(trio.current_time() * 1000 + 0.001)
