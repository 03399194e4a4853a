"""Later: an answer that has to be awaited, and may be made of another.

What a handler awaits is encoded behind it; then a pause is told, a fault does its harm, a time is taken. Each
of these is a coroutine around the one before, and one that was never begun ends nothing when it is closed.
So they are made when they are awaited, and before that there is only what the first of them has to await,
which `give_up` ends where nobody will.
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, Any

from kcli.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from kcli.broker.purgatory import Purgatory
    from kcli.broker.request_engine import Answer

    Work = Callable[[Any], Coroutine[Any, Any, Answer]]


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
