"""Waiting for what other processes do and nothing tells of: one asks again and again, up to a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
