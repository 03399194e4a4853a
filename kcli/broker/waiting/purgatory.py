"""Purgatory: operations that wait until something happens to a key, or their time is up (Kafka's
`DelayedOperationPurgatory`).

A handler that cannot answer yet parks a `DelayedOperation` under keys: the partitions whose change could
complete it. Code that changes a partition calls `touch(key)`, which only marks the key; the task of the timer
tries the waiters afterwards, in chunks, so that no append ever tries ten thousand of them. An operation is a
plain record without task, event or cancel scope. When it ends, its `waiter` is called, usually that of a
connection, which only makes a mark, too, and answers a moment later.

Invariants:

* an operation ends once: completed by its condition, by its deadline, or dropped;
* an operation that has ended is in no watch list and in no timer bucket;
* `try_complete` and `finish` are synchronous and never run inside the change that touched the key;
* a `waiter` is called once, and may be called inside of anything.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from kcli.broker.waiting.timer import CHUNK, TimerTask, monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from kcli.broker.waiting.timer import Timer

_log = logging.getLogger(__name__)


class DelayedOperation(TimerTask):
    """An operation that waits for its keys or its time. Subclasses add the condition and the result."""

    __slots__ = ("ended", "expired", "keys", "lets_pass", "purgatory", "waiter")

    keys: tuple[Hashable, ...]
    ended: bool
    expired: bool
    purgatory: Purgatory
    """The purgatory it was parked in."""
    waiter: Callable[[], None] | None
    """Called once the operation has ended."""
    lets_pass: bool
    """Whether the work was done before the operation was parked and only the response is missing: then a
    connection handles further requests of the same API."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = ()
        self.ended = False
        self.expired = False
        self.waiter = None
        self.lets_pass = False

    def try_complete(self, key: Hashable) -> bool:
        """Return whether the operation can end, now that `key` has changed."""
        raise NotImplementedError

    def finish(self) -> Any:  # noqa: ANN401 - what the handler would have returned at once
        """Return the result; called once, after the operation has ended."""
        raise NotImplementedError

    def fall_due(self) -> None:
        if not self.ended:
            self.purgatory.end(self, expired=True)

    def tell(self) -> None:
        """Call the waiter: the operation has ended."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter()


class Purgatory:
    """The parked operations of one node."""

    def __init__(self, timer: Timer) -> None:
        self.timer = timer
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._touched: dict[Hashable, None] = {}

    @property
    def parked(self) -> int:
        """The number of operations that wait."""
        return len(set().union(*self._watchers.values()))

    @property
    def watched_keys(self) -> int:
        """The number of keys with a watch list."""
        return len(self._watchers)

    def park(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Let `operation`, which is incomplete, wait for `keys` or its time."""
        operation.keys = tuple(dict.fromkeys(keys))
        operation.purgatory = self
        if not self.timer.add(operation, timeout_ms, monotonic_ms()):
            operation.ended = operation.expired = True
            return
        watchers = self._watchers
        for key in operation.keys:
            waiting = watchers.get(key)
            if waiting is None:
                watchers[key] = {operation: None}
            else:
                waiting[operation] = None

    def touch(self, key: Hashable) -> None:
        """Mark that `key` has changed; its waiters are tried soon, not now."""
        if key in self._watchers:
            if not self._touched:
                self.timer.call_soon(self._try_touched)
            self._touched[key] = None

    def drop(self, operation: DelayedOperation) -> None:
        """End `operation` without calling its waiter, which has left."""
        if not operation.ended:
            operation.ended = True
            operation.waiter = None
            self._unlink(operation)

    def end(self, operation: DelayedOperation, *, expired: bool = False) -> None:
        """End `operation` by its condition or, if `expired`, by its time."""
        operation.ended = True
        operation.expired = expired
        self._unlink(operation)
        operation.tell()

    async def wait(self, operation: DelayedOperation) -> None:
        """Return when `operation` has ended; being cancelled drops it."""
        if operation.ended:
            return
        if operation.waiter is not None:
            raise trio.BusyResourceError("another task waits for the operation")
        operation.waiter = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())

        def abort(_raise_cancel: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            self.drop(operation)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _try_touched(self) -> None:
        tried = 0
        touched, self._touched = self._touched, {}
        for key in touched:
            for operation in list(self._watchers.get(key, ())):
                if operation.ended:
                    continue
                if self._try(operation, key):
                    self.end(operation)
                tried += 1
                if tried % CHUNK == 0:
                    await trio.lowlevel.checkpoint()

    def _try(self, operation: DelayedOperation, key: Hashable) -> bool:
        try:
            return operation.try_complete(key)
        except Exception:
            # The code that makes the response fails the same way, and has a client to tell.
            _log.exception("could not try an operation that waits for %s", key)
            return True

    def _unlink(self, operation: DelayedOperation) -> None:
        self.timer.cancel(operation)
        watchers = self._watchers
        for key in operation.keys:
            waiting = watchers[key]
            del waiting[operation]
            if not waiting:
                del watchers[key]
