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

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Self

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType


class Background:
    """Runs `_running` as its `async with` block; a single error is raised without its group."""

    _manager: AbstractAsyncContextManager[None] | None = None

    def _running(self) -> AbstractAsyncContextManager[None]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        self._manager = self._running()
        await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._manager is not None
        with unwrapped():
            return await self._manager.__aexit__(kind, error, trace)


@asynccontextmanager
async def shielded_nursery(parent: trio.Nursery) -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks go on when the block is cancelled, until the block ends.

    The block itself is not shielded. An error of such a task cancels `parent`.
    """

    # Made out here: it can end the tasks whenever this is cancelled.
    shield = trio.CancelScope(shield=True)
    opened: list[trio.Nursery] = []
    is_open = trio.Event()

    async def host() -> None:
        with shield:
            async with trio.open_nursery() as nursery:
                opened.append(nursery)
                is_open.set()
                await trio.sleep_forever()

    parent.start_soon(host)
    try:
        await is_open.wait()
        yield opened[0]
    finally:
        shield.cancel()


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise a single exception of a nursery without the group around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        only: BaseException = group
        while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
            only = only.exceptions[0]
        # Keep its own cause and context; the group does not become its context.
        context, cause = only.__context__, only.__cause__
        try:
            raise only
        finally:
            only.__context__, only.__cause__ = context, cause
