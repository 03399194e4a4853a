"""Waiting for what others do and nothing tells of: one asks again and again, up to a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""As long as a busy machine may take."""

POLL_SECONDS = 0.02


def eventually(
    holds: Callable[[], bool],
    what: str,
    *,
    seconds: float = PATIENCE_SECONDS,
    seen: Callable[[], object] = lambda: "",
) -> None:
    """Return as soon as something holds; fail with what was `seen` instead when the time is over."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what} {seen()}"
        time.sleep(POLL_SECONDS)


def first(get: Callable[[], T], is_wanted: Callable[[T], bool], what: str) -> T:
    """Return the first that is wanted of what one gets again and again."""
    got: list[T] = []

    def holds() -> bool:
        got[:] = [get()]
        return is_wanted(got[0])

    eventually(holds, what, seen=lambda: got)
    return got[0]


async def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Return when a condition holds that other tasks of this process make true."""
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(0.002)
