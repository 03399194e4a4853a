"""Calls in threads, for what would hold up the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_NO_THREAD = "can't start new thread"
"""What Python says if there is no memory for the stack of a thread, or no room for another process."""


async def run_in_thread(
    call: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None, abandon_on_cancel: bool = False
) -> T:
    """Return the result of a call made in a thread; where none can be started, it holds up the loop."""
    try:
        return await trio.to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        if _NO_THREAD not in str(error):
            raise
    return call()
