"""AnswerQueue: the answers of one connection on their way to its outbox, in the order of the requests.

As a rule nothing is handled behind a request whose answer is to come. But an operation that `lets_pass` has
been carried out, and only its answer is missing: requests of the same kind may follow then, and their answers
wait behind it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kcli.broker.later import Later, give_up
from kcli.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.outbox import Outbox
    from kcli.broker.purgatory import Purgatory
    from kcli.broker.request_engine import Answer, Engine

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
