"""Background: an object with tasks of its own, which run as long as its `async with` block.

class Consumer(Background):
    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._fetch)
            yield
            nursery.cancel_scope.cancel()
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType


class Background:
    """Makes `async with` of `_running`. An error that comes through its nursery alone is raised bare."""

    _manager: AbstractAsyncContextManager[None] | None = None

    def _running(self) -> AbstractAsyncContextManager[None]:
        """Return the block in which the tasks run."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._manager = self._running()
        await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        assert self._manager is not None
        with unwrapped():
            return await self._manager.__aexit__(kind, error, trace)


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise an exception that came through a nursery alone without the group around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        only: BaseException = group
        while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
            only = only.exceptions[0]
        # As it was raised: a cause or context of its own is kept, the group is not made one.
        context, cause = only.__context__, only.__cause__
        try:
            raise only
        finally:
            only.__context__, only.__cause__ = context, cause
