"""LogHandler: writes the broker's log, so that no client can forge a line of it, garble it, or fill it.

What clients send (client ids, names, malformed requests) ends up in messages. In every line control and
format characters are escaped, and the rest of a very long one is left out. The lines of a traceback are
indented: only a line of the log begins with a time.

Of lines that clients cause, those of `FLOODING` rooms, at most ten of a kind are written in a second; how
many more there were is told at its end. The format string of a line is its kind.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, TextIO

import trio

from kcli.escapes import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

LINES_PER_SECOND = 10
MOST_CHARACTERS = 900
"""The part of a message that is written, in characters."""

FLOODING = ("kcli.broker.network.", "kcli.broker.handlers.")

_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class LogFormatter(logging.Formatter):
    """Escapes messages and indents tracebacks."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        text = escaped(record.message)
        if len(text) > MOST_CHARACTERS:
            text = f"{text[:MOST_CHARACTERS]}… ({len(text) - MOST_CHARACTERS:,} more characters)"
        record.message = text
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        text = super().formatException(ei)  # type: ignore[arg-type]
        return escaped(text, keep="\n").replace("\n", "\n  ")


class _Kind:
    """The lines of a kind that began at `began`, in seconds: how many were written, how many left out."""

    __slots__ = ("began", "example", "left_out", "written")

    def __init__(self, began: float, example: logging.LogRecord) -> None:
        self.began = began
        self.example = example
        self.written = self.left_out = 0


class LogHandler(logging.StreamHandler[TextIO]):
    """The only handler of a broker's process; `clock` is in seconds."""

    def __init__(self, stream: TextIO = sys.stderr, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self.setFormatter(LogFormatter())
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it; the caller holds the lock."""
        if record.levelno < logging.INFO or not record.name.startswith(FLOODING):
            super().emit(record)
            return
        now = self._clock()
        name = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        kind = self._kinds.get(name)
        if kind is None or now - kind.began >= 1:
            if kind is not None:
                self._tell(kind, now)
            kind = self._kinds[name] = _Kind(now, record)
        if kind.written < LINES_PER_SECOND:
            kind.written += 1
            super().emit(record)
        else:
            kind.left_out += 1
            kind.example = record

    def _tell(self, kind: _Kind, now: float) -> None:
        if kind.left_out:
            like, seconds = kind.example, max(1, round(now - kind.began))
            text = f"… and {kind.left_out:,} more like it in the last {seconds} s: {like.getMessage()}"
            super().emit(logging.LogRecord(like.name, like.levelno, "", 0, text, None, None))

    async def tell_counts(self) -> None:
        """Tell every second how many lines were left out, until cancelled."""
        while True:
            await trio.sleep(1)
            self.tell_rest(before=self._clock() - 1)

    def tell_rest(self, *, before: float = float("inf")) -> None:
        """Tell how many lines were left out of the kinds that began by `before`, and forget them."""
        self.acquire()
        try:
            for name, kind in list(self._kinds.items()):
                if kind.began <= before:
                    del self._kinds[name]
                    self._tell(kind, self._clock())
        finally:
            self.release()
