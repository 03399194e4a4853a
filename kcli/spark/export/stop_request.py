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
    """A request to end, made by a signal."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def make(self) -> None:
        """Make it; raise `KeyboardInterrupt` the second time."""
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait that long or until it is made; return whether it was made."""
        return self._event.wait(seconds)

    def obey(self) -> None:
        """Raise `KeyboardInterrupt` if it was made."""
        if self._event.is_set():
            raise KeyboardInterrupt


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Yield a request that the first signal makes; a second one raises `KeyboardInterrupt`."""
    request = StopRequest()
    with _handled(lambda *_: request.make()):
        yield request


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with _handled(interrupt, (signal.SIGTERM, signal.SIGHUP)):
        yield


@contextmanager
def signals_wait() -> Iterator[None]:
    """Handle a first signal at the end of the block, and a second one as `KeyboardInterrupt` at once.

    For calls into a JVM: one that is cut off leaves a broken connection, and py4j prints a traceback.
    """
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)

    try:
        with _handled(hear):
            yield
    finally:
        for number in heard:
            signal.raise_signal(number)


@contextmanager
def _handled(handler: Callable[..., Any], signals: tuple[signal.Signals, ...] = _SIGNALS) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    # A program in the background may ignore Ctrl-C, and `nohup` ignores SIGHUP: both stay ignored.
    heard = [one for one in signals if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, handler) for one in heard}
    try:
        yield
    finally:
        for one, previous in before.items():
            signal.signal(one, previous)
