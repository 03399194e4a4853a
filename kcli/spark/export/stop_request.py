"""SIGINT, SIGTERM and SIGHUP: the first ends work at the next good point, the second at once."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Whether the user wants the work to end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def make(self) -> None:
        """Ask for it; raise `KeyboardInterrupt` when asked again."""
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it is asked for; return whether it was."""
        return self._event.wait(seconds)

    def obey(self) -> None:
        """Raise `KeyboardInterrupt` if it was asked for."""
        if self._event.is_set():
            raise KeyboardInterrupt


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Give a request that the first signal makes; a second one raises `KeyboardInterrupt`."""
    request = StopRequest()
    with _handled(lambda *_: request.make()):
        yield request


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Have SIGTERM and SIGHUP do what Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt, (signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def _handled(handler: Callable[..., Any], signals: tuple[signal.Signals, ...] = _SIGNALS) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's alone
        return
    # Who starts programs in the background may have them ignore Ctrl-C, and `nohup` the end of the terminal.
    heard = [one for one in signals if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, handler) for one in heard}
    try:
        yield
    finally:
        for one, previous in before.items():
            signal.signal(one, previous)
