"""Terminal: makes a pseudo-terminal the standard output and error of code that runs in this process."""

from __future__ import annotations

import io
import os
import sys
import termios
import threading
from types import TracebackType


class Terminal:
    """While inside, descriptors 1 and 2 and Python's files of them are a terminal; `shown` is what it got."""

    def __init__(self) -> None:
        self.shown = b""

    def __enter__(self) -> Terminal:
        ours, theirs = os.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # line feeds stay as they are
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        self._ours = ours
        self._before = sys.stdout, sys.stderr, os.dup(1), os.dup(2)
        for number in (1, 2):
            os.dup2(theirs, number)
        os.close(theirs)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w", closefd=False)) for fd in (1, 2))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr, *saved = self._before
        for number, copy in enumerate(saved, 1):
            os.dup2(copy, number)
            os.close(copy)
        self._reader.join()
        os.close(self._ours)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._ours, 65536):
                self.shown += chunk
        except OSError:  # the last one to write has closed it
            pass
