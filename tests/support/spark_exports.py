"""Whole `kcli spark-export` processes: started, killed at any moment, and what they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.toolchain import INTEROP
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = INTEROP.parent.parent
PATIENCE_SECONDS = 180.0


class ExportProcess:
    """One run of the command; `with` ends it and everything that it started."""

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self._log = log
        self._family: set[int] = set()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "spark-export", "-o", "json", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
            )

    def __enter__(self) -> ExportProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._family |= set(descendants(self.pid))
        if self.is_running():
            self.kill()
        for pid in self._family:
            kill(pid)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The driver's process id."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether the driver lives."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL for the driver, and wait until all that it started have noticed."""
        self._family |= set(descendants(self.pid))
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def orphans_end(self) -> None:
        """Wait until nobody runs whom the driver had started when it was killed."""
        eventually(lambda: not any(map(is_alive, self._family)), "the end of a killed export's processes")

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> tuple[int, str]:
        """The exit code and standard output."""
        output, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        return self._process.returncode, output

    def workers(self) -> Sequence[int]:
        """The processes that it has started, and theirs."""
        return descendants(self.pid)

    def has_workers(self) -> None:
        """Wait until it has started somebody, or has ended."""
        eventually(lambda: bool(self.workers()) or not self.is_running(), "a worker")

    @property
    def errors(self) -> str:
        """What it and those before it said on standard error."""
        return self._log.read_text(errors="replace")


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, as far as they live."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def command_line(pid: int) -> str:
    """The words that a process was started with, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def kill(pid: int) -> bool:
    """SIGKILL; whether there was somebody to get it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
