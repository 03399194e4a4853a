"""Responses on their way to the outbox of a connection, in the order of the requests.

| type | what it is |
|---|---|
| `Frame` | the parts of an encoded response; empty if the client expects none |
| `ParkedResponse` | a parked operation will make it; the connection needs no task for that |
| `HeldRequest` | the same, but the request has not even been handled |
| `AwaitedResponse` | the task of the connection awaits it |

Layers before the engine change a response with `then`, whichever type it has. A coroutine that was never
started cannot clean up, so an `AwaitedResponse` starts none before it is awaited: until then it only holds
the `source`, which `give_up` ends if the client leaves.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kcli.broker.network.request_context import CloseConnection
from kcli.broker.waiting.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence

    from kcli.broker.network.outbox import Outbox
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.broker.waiting.purgatory import Purgatory
    from kcli.protocol.topics import TopicPartition

Frame = tuple[Any, ...]
"""Bytes and slices of log files (`FileSlice`). Without slices the engine joins them to one part."""


class PendingResponse:
    """A response whose frame is not there yet."""

    __slots__ = ()

    def then(self, step: Step, on_close: Callable[[], object] | None = None) -> PendingResponse:
        """Return what `step` makes of the frame; `on_close` is called if `CloseConnection` comes instead."""
        raise NotImplementedError

    async def wait(self, purgatory: Purgatory) -> Frame:
        """Return the frame. Raises `CloseConnection`."""
        raise NotImplementedError

    def give_up(self, purgatory: Purgatory) -> None:
        """Drop the operation or close the coroutine behind the response: its client has left."""
        raise NotImplementedError


Response = Frame | PendingResponse


class ParkedResponse(PendingResponse):
    """A response that `finish` makes once `operation` has ended."""

    __slots__ = ("finish", "operation")

    def __init__(self, operation: DelayedOperation, finish: Callable[[], Response]) -> None:
        self.operation = operation
        self.finish = finish

    def then(self, step: Step, on_close: Callable[[], object] | None = None) -> ParkedResponse:
        return type(self)(self.operation, partial(_finish_then, self.finish, step, on_close))

    async def wait(self, purgatory: Purgatory) -> Frame:
        await purgatory.wait(self.operation)
        return await frame_of(self.finish(), purgatory)

    def give_up(self, purgatory: Purgatory) -> None:
        purgatory.drop(self.operation)


class HeldRequest(ParkedResponse):
    """The response to a request that is handled only once `operation` has ended; there may be none."""

    __slots__ = ()


class AwaitedResponse(PendingResponse):
    """A response that `work` makes of `source`: another response, a coroutine of a handler or plain data."""

    __slots__ = ("_work", "source")

    def __init__(self, source: object, work: Callable[[Any], Coroutine[Any, Any, Response]]) -> None:
        self.source: Any = source
        self._work = work

    def __await__(self) -> Generator[Any, Any, Response]:
        return self._work(self.source).__await__()

    def then(self, step: Step, on_close: Callable[[], object] | None = None) -> AwaitedResponse:
        return AwaitedResponse(self, partial(_await_then, step, on_close))

    async def wait(self, purgatory: Purgatory) -> Frame:
        return await frame_of(await self, purgatory)

    def give_up(self, purgatory: Purgatory) -> None:
        if isinstance(self.source, PendingResponse):
            self.source.give_up(purgatory)
        elif type(self.source) is CoroutineType:
            self.source.close()


def then(response: Response, step: Step, on_close: Callable[[], object] | None = None) -> Response:
    """Return what `step` makes of the frame of a response: at once if the frame is there, else later."""
    return step(response) if type(response) is tuple else response.then(step, on_close)  # type: ignore[union-attr]


async def frame_of(response: Response, purgatory: Purgatory) -> Frame:
    """Return the frame of a response once it is there. Raises `CloseConnection`."""
    return await response.wait(purgatory) if isinstance(response, PendingResponse) else response


def _finish_then(
    finish: Callable[[], Response], step: Step, on_close: Callable[[], object] | None
) -> Response:
    try:
        response = finish()
    except CloseConnection:
        if on_close is not None:
            on_close()
        raise
    return then(response, step, on_close)


async def _await_then(
    step: Step, on_close: Callable[[], object] | None, pending: AwaitedResponse
) -> Response:
    try:
        response = await pending
    except CloseConnection:
        if on_close is not None:
            on_close()
        raise
    return then(response, step, on_close)


if TYPE_CHECKING:
    Step = Callable[[Frame], Response]

R = TypeVar("R")


class Pending(Protocol):
    """The part of a response for one partition that waits for other replicas."""

    @property
    def key(self) -> TopicPartition:
        """The partition whose changes may settle this part."""
        ...

    def settle(self, manager: ReplicaManager) -> bool:
        """Write the outcome into the response; return whether there is one."""
        ...


class DelayedResponse(DelayedOperation, Generic[R]):
    """A response with parts that are pending (classes `DelayedProduce` and `DelayedDeleteRecords`).

    An acks=all write waits for the high watermark, a deletion of records for the low one. Each part begins
    with REQUEST_TIMED_OUT and keeps it unless it is settled in time; the log of the leader stays changed.
    """

    __slots__ = ("_manager", "_pending", "response")

    def __init__(self, manager: ReplicaManager, response: R, pending: Sequence[Pending]) -> None:
        super().__init__()
        self._manager = manager
        self.response = response
        self._pending = pending

    def try_complete(self, key: Hashable) -> bool:
        return self.settle()

    def settle(self) -> bool:
        """Settle the parts that can be settled; return whether none is pending."""
        manager = self._manager
        self._pending = [pending for pending in self._pending if not pending.settle(manager)]
        return not self._pending

    def park(self, timeout_ms: int) -> None:
        """Wait until every part is settled, or the time is up."""
        keys = [pending.key for pending in self._pending]
        self._manager.purgatory.park(self, keys, max(0, timeout_ms))

    def finish(self) -> R:
        self.settle()
        return self.response


def once_settled(
    manager: ReplicaManager,
    response: R,
    *,
    pending: Sequence[Pending],
    timeout_ms: int,
    lets_pass: bool = False,
) -> R | DelayedResponse[R]:
    """Return a response if no part of it is pending, else the parked operation that waits for that."""
    delayed = DelayedResponse(manager, response, pending)
    delayed.lets_pass = lets_pass
    if delayed.settle():
        return response
    delayed.park(timeout_ms)
    return delayed


MAX_WAITING = 64
"""The most requests of a connection that are carried out before the first of them has its response."""

_NO_API = 1 << 16
_KEY = Struct(">h")
_read_key = _KEY.unpack_from


def _nobody() -> None:
    """Wait no more: the connection has ended."""


class ResponseQueue:
    """The responses of one connection that cannot be sent yet, `waiting`; the first of them is parked.

    As a rule the next request is handled only after the response to the one before is there. If an operation
    `lets_pass`, only its response is missing: requests of the same API are handled, and their responses wait
    behind it. `waiter` is called when the first operation has ended.
    """

    __slots__ = ("_out", "_passing", "_waiter", "waiting")

    def __init__(self, out: Outbox, waiter: Callable[[], None]) -> None:
        self._out = out
        self._waiter = waiter
        self.waiting: list[Frame | ParkedResponse] = []
        self._passing = _NO_API
        """The API whose requests may be handled meanwhile."""

    @property
    def has_ended(self) -> bool:
        """Whether the first response can be made."""
        if not self.waiting:
            return False
        first = self.waiting[0]
        return not isinstance(first, ParkedResponse) or first.operation.ended

    @property
    def holds_back(self) -> bool:
        """Whether no request may be handled before all of these have their frames."""
        return self._passing == _NO_API and bool(self.waiting)

    @property
    def awaits_frame(self) -> bool:
        """Whether the next thing to send is a frame that is not there yet."""
        return bool(self.waiting) and not isinstance(self.waiting[0], HeldRequest)

    def hold_back(self) -> None:
        """Let no request be handled before all of these have their frames."""
        self._passing = _NO_API

    def may_pass(self, view: memoryview, position: int, size: int) -> bool:
        """Return whether the request at a position may be handled now."""
        return (
            size >= _KEY.size
            and _read_key(view, position)[0] == self._passing
            and len(self.waiting) < MAX_WAITING
        )

    def take(self, response: Response, api_key: int) -> AwaitedResponse | None:
        """Take the response to the latest request; return it if a task has to await it."""
        waiting = self.waiting
        while isinstance(response, ParkedResponse):
            operation = response.operation
            if waiting or not operation.ended:
                if not operation.lets_pass:
                    self._passing = _NO_API
                elif not waiting:
                    self._passing = api_key
                operation.waiter = self._waiter
                waiting.append(response)
                return None
            response = response.finish()
        if isinstance(response, AwaitedResponse):
            return response
        assert isinstance(response, tuple)
        if waiting:
            waiting.append(response)
        else:
            self._out.add(response)
        return None

    def settle(self) -> AwaitedResponse | None:
        """Give the outbox every frame that is there, up to the first response that is still pending.

        Return a response that a task has to await; no other waits behind it.
        """
        waiting = self.waiting
        while waiting:
            response: Response = waiting[0]
            if isinstance(response, ParkedResponse):
                if not response.operation.ended:
                    break
                del waiting[0]
                response = response.finish()
                if isinstance(response, AwaitedResponse):
                    return response
            else:
                del waiting[0]
            assert isinstance(response, tuple)
            self._out.add(response)
        return None

    def give_up_responses(self, purgatory: Purgatory) -> None:
        """Give up every response that waits, but for those to requests that are still to be handled."""
        held: list[Frame | ParkedResponse] = []
        for response in self.waiting:
            if isinstance(response, HeldRequest):
                held.append(response)
            elif isinstance(response, PendingResponse):
                response.give_up(purgatory)
        self.waiting[:] = held

    def give_up(self, purgatory: Purgatory) -> None:
        """Give up everything: the connection ends."""
        self._waiter = _nobody  # Else it would hold the connection until garbage is collected.
        for response in self.waiting:
            if isinstance(response, PendingResponse):
                response.give_up(purgatory)
        self.waiting.clear()
