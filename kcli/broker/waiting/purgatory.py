"""Purgatory: operations that wait until something happens to a key, or their time is up (Kafka's
`DelayedOperationPurgatory`).

A handler that cannot answer yet parks a `DelayedOperation` under keys: the partitions whose change could
complete it. Whoever changes a partition calls `touch(key)`, which only takes a note; the timer's task tries
the waiters afterwards, in chunks, so that ten thousand of them never sit inside one append. An operation is
a plain record: it has no task, event or cancel scope of its own. When it has ended its `waiter` is called, a
connection's as a rule, which takes a note of its own and answers a moment later.

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
    """What waits. Subclasses add what they wait for and how the answer is made."""

    __slots__ = ("ended", "expired", "keys", "lets_pass", "purgatory", "waiter")

    keys: tuple[Hashable, ...]
    ended: bool
    expired: bool
    purgatory: Purgatory
    """Where it was parked."""
    waiter: Callable[[], None] | None
    """Called when the operation has ended."""
    lets_pass: bool
    """Whether the request was carried out before it was parked and only its answer is to come: a connection
    then goes on with requests of the same kind."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = ()
        self.ended = False
        self.expired = False
        self.waiter = None
        self.lets_pass = False

    def try_complete(self, key: Hashable) -> bool:
        """Return whether the operation can be answered, now that something happened to `key`."""
        raise NotImplementedError

    def finish(self) -> Any:  # noqa: ANN401 - whatever the handler would have returned at once
        """Make the answer; called once, by the task that awaited the operation."""
        raise NotImplementedError

    def fall_due(self) -> None:
        if not self.ended:
            self.purgatory.end(self, expired=True)

    def tell(self) -> None:
        """Call the waiter, now that the operation has ended."""
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
        """How many operations wait."""
        return len(set().union(*self._watchers.values()))

    @property
    def watched_keys(self) -> int:
        """How many keys have a watch list."""
        return len(self._watchers)

    def park(self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_ms: int) -> None:
        """Watch `keys` for `operation`, which the caller has just found incomplete."""
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
        """Note that something happened to `key`; its waiters are tried soon, not now."""
        if key in self._watchers:
            if not self._touched:
                self.timer.call_soon(self._try_touched)
            self._touched[key] = None

    def drop(self, operation: DelayedOperation) -> None:
        """End `operation` without an answer: nobody waits for it any more."""
        if not operation.ended:
            operation.ended = True
            operation.waiter = None
            self._unlink(operation)

    def end(self, operation: DelayedOperation, *, expired: bool = False) -> None:
        """End `operation`, which has not ended: what it waited for has come, or its time."""
        operation.ended = True
        operation.expired = expired
        self._unlink(operation)
        operation.tell()

    async def wait(self, operation: DelayedOperation) -> None:
        """Return when `operation` has ended; being cancelled drops it."""
        if operation.ended:
            return
        if operation.waiter is not None:
            raise trio.BusyResourceError("somebody else waits for the operation")
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
            # The task that makes the answer meets the same trouble, and has a client to tell.
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
