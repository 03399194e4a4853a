"""SIGINT, SIGTERM and SIGHUP: the first one asks for an orderly stop, a later one stops at once.

A signal within half a second of the first only repeats it. GNU `timeout` signals the program and then its
process group; a supervisor forwards Ctrl-C, and a shell a hang-up, to children that the terminal has already
signalled.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEAT_SECONDS = 0.5
"""How long after the first signal another one only repeats it."""


def heard_signals() -> tuple[signal.Signals, ...]:
    """Return the stop signals, without SIGHUP if it is ignored, as under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return tuple(number for number in STOP_SIGNALS if number is not signal.SIGHUP)
    return STOP_SIGNALS


async def obey(
    signals: AsyncIterable[int], *, stop: Callable[[int], object], abort: Callable[[int], object]
) -> None:
    """Call `stop` with the first signal and `abort` with each later one that does not repeat it."""
    asked_at: float | None = None
    async for number in signals:
        if asked_at is None:
            asked_at = trio.current_time()
            stop(number)
        elif trio.current_time() - asked_at >= REPEAT_SECONDS:
            abort(number)
