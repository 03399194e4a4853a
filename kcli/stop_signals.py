"""SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, one that comes later means "now".

What comes within half a second of the first only repeats it. GNU `timeout` signals the program, and then the
group that it is in; a supervisor that had Ctrl-C of a terminal passes on to its children what the terminal
has told them already. So does a shell whose terminal has gone.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

REPEAT_SECONDS = 0.5
"""How long after the first signal another one is taken for the same."""


def heard_signals() -> tuple[signal.Signals, ...]:
    """Return the signals to stop at: a hang-up is none of them where it is ignored, as under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return tuple(number for number in STOP_SIGNALS if number is not signal.SIGHUP)
    return STOP_SIGNALS


async def obey(
    signals: AsyncIterable[int], *, stop: Callable[[int], object], abort: Callable[[int], object]
) -> None:
    """Call `stop` with the first signal and `abort` with each that is more than a repeat of it."""
    asked_at: float | None = None
    async for number in signals:
        if asked_at is None:
            asked_at = trio.current_time()
            stop(number)
        elif trio.current_time() - asked_at >= REPEAT_SECONDS:
            abort(number)
