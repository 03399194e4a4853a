"""Later: an answer that has to be awaited, and may be made of another.

What a handler awaits is encoded behind it; then a pause is told, a fault does its harm, a time is taken. Each
of these is a coroutine around the one before, and one that was never begun ends nothing when it is closed.
So they are made when they are awaited, and before that there is only what the first of them has to await,
which `give_up` ends where nobody will.

DelayedResponse: an answer that is ready but for partitions in which other replicas have yet to follow.

An acks=all write waits for the high watermark, a deletion of records for the low one. Each partition begins
with REQUEST_TIMED_OUT and keeps it unless it is settled in time; what was done to the leader's log stays in
any case (classes `DelayedProduce` and `DelayedDeleteRecords`).

AnswerQueue: the answers of one connection on their way to its outbox, in the order of the requests.

As a rule nothing is handled behind a request whose answer is to come. But an operation that `lets_pass` has
been carried out, and only its answer is missing: requests of the same kind may follow then, and their answers
wait behind it.
"""

from __future__ import annotations

from struct import Struct
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kcli.broker.waiting.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence

    from kcli.broker.network.outbox import Outbox
    from kcli.broker.network.request_engine import Answer, Engine
    from kcli.broker.replication.partition import PartitionId
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.broker.waiting.purgatory import Purgatory


class Later:
    """What `work` returns, called with `source`: another answer, or a handler's coroutine.

    Without `work` it is what `source` returns, a coroutine.
    """

    __slots__ = ("_work", "source")

    def __init__(self, source: object, work: Work | None = None) -> None:
        self.source: Any = source
        self._work = work

    def __await__(self) -> Generator[Any, Any, Answer]:
        coroutine = self.source if self._work is None else self._work(self.source)
        return coroutine.__await__()


def give_up(answer: object, purgatory: Purgatory) -> None:
    """Let go of an answer that nobody waits for any more, and of what it was to be made of."""
    while isinstance(answer, Later):
        answer = answer.source
    if isinstance(answer, DelayedOperation):
        purgatory.drop(answer)
    elif isinstance(answer, CoroutineType):
        answer.close()


if TYPE_CHECKING:
    Work = Callable[[Any], Coroutine[Any, Any, Answer]]


R = TypeVar("R")


class Pending(Protocol):
    """One partition of a request, and its part of the response."""

    @property
    def key(self) -> PartitionId:
        """The partition whose changes may settle it."""
        ...

    def settle(self, manager: ReplicaManager) -> bool:
        """Write into the response how it ended; return whether it has."""
        ...


class DelayedResponse(DelayedOperation, Generic[R]):
    """A response, and what of it is pending."""

    __slots__ = ("_manager", "_pending", "response")

    def __init__(self, manager: ReplicaManager, response: R, pending: Sequence[Pending]) -> None:
        super().__init__()
        self._manager = manager
        self.response = response
        self._pending = pending

    def try_complete(self, key: Hashable) -> bool:
        return self.settle()

    def settle(self) -> bool:
        """Settle what can be settled; return whether nothing is pending any more."""
        manager = self._manager
        self._pending = [pending for pending in self._pending if not pending.settle(manager)]
        return not self._pending

    def park(self, timeout_ms: int) -> None:
        """Wait until everything is settled, or the time is up."""
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
    """Return a response if nothing of it is pending any more, else what waits for that, already parked."""
    delayed = DelayedResponse(manager, response, pending)
    delayed.lets_pass = lets_pass
    if delayed.settle():
        return response
    delayed.park(timeout_ms)
    return delayed


MAX_WAITING = 64
"""So many requests are carried out at most before the first of them is answered."""

_NO_API = 1 << 16
_KEY = Struct(">h")
_read_key = _KEY.unpack_from


class AnswerQueue:
    """What has not been answered yet: `waiting`, of which the first is an operation.

    `waiter` is called when it has ended.
    """

    __slots__ = ("_out", "_passing", "_waiter", "waiting")

    def __init__(self, out: Outbox, waiter: Callable[[], None]) -> None:
        self._out = out
        self._waiter = waiter
        self.waiting: list[Any] = []
        # The API whose requests may be handled nevertheless.
        self._passing = _NO_API

    @property
    def has_ended(self) -> bool:
        """Whether the first answer is there."""
        return bool(self.waiting) and self.waiting[0].ended

    @property
    def holds_back(self) -> bool:
        """Whether no request may be handled before all of these have their answers."""
        return self._passing == _NO_API and bool(self.waiting)

    def hold_back(self) -> None:
        """Let no request be handled before all of these have their answers."""
        self._passing = _NO_API

    def may_pass(self, view: memoryview, position: int, size: int) -> bool:
        """Whether the request at a position may be handled now."""
        return (
            size >= _KEY.size
            and _read_key(view, position)[0] == self._passing
            and len(self.waiting) < MAX_WAITING
        )

    def take(self, answer: Answer, api_key: int, engine: Engine) -> Later | None:
        """Take the answer to the latest request; return it if it has to be awaited."""
        waiting = self.waiting
        if isinstance(answer, DelayedOperation):
            if waiting or not answer.ended:
                if not answer.lets_pass:
                    self._passing = _NO_API
                elif not waiting:
                    self._passing = api_key
                answer.waiter = self._waiter
                waiting.append(answer)
                return None
            answer = engine.finish(answer)
        if isinstance(answer, Later):
            return answer
        if waiting:
            waiting.append(answer)
        else:
            self._out.put(answer)
        return None

    def settle(self, engine: Engine) -> Later | None:
        """Let the answers go that are there, as far as nothing before them is missing.

        Return one that has to be awaited; nothing waits behind it.
        """
        waiting = self.waiting
        while waiting:
            answer = waiting[0]
            is_operation = isinstance(answer, DelayedOperation)
            if is_operation and not answer.ended:
                break
            del waiting[0]
            if is_operation:
                answer = engine.finish(answer)
                if isinstance(answer, Later):
                    return answer
            self._out.put(answer)
        return None

    def give_up(self, purgatory: Purgatory) -> None:
        """Let go of everything: nobody waits for these answers any more."""
        for answer in self.waiting:
            give_up(answer, purgatory)
        self.waiting.clear()
