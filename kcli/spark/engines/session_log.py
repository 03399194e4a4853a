"""SessionLog: the file with the output of a JVM and its workers, and the part of it that a user is shown."""

from __future__ import annotations

import os
import re
import tempfile
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN_LINES = 20

_CLASS = r"(?:[a-z_]\w*\.)+([A-Z][\w$]*)"
_TELLING = (
    re.compile(rf"^Caused by: {_CLASS}: (.+)"),
    re.compile(rf"^(?:Exception in thread \"[^\"]*\" )?{_CLASS}: (.+)"),
    re.compile(r"^(Error): (.+)"),
)


class SessionLog:
    """A log file, which exists until `remove`."""

    def __init__(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix="kcli-spark-", suffix=".log")
        os.close(descriptor)
        self.path = Path(name)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        with self.path.open("ab") as file:
            yield file

    def tail(self) -> list[str]:
        with suppress(OSError), self.path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, SHOWN_LINES)]
        return []

    def failure(self, what: str, error: BaseException) -> KcliError:
        """Return an error that says what went wrong and where the log is; its notes are the log's end."""
        lines = self.tail()
        reason = telling_line(lines) or str(error).strip().partition("\n")[0] or type(error).__name__
        failure = KcliError(f"{what}: {reason}", hint=f"see {self.path}")
        for line in lines:
            failure.add_note(line)
        return failure

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def telling_line(lines: list[str]) -> str | None:
    """Return the line that says why a JVM ended, without timestamp and class; None without one."""
    for pattern in _TELLING:
        for line in reversed(lines):
            if found := pattern.match(line):
                return f"{found[1]}: {found[2].strip()}"
    return next((line.strip() for line in reversed(lines) if line.strip()), None)
