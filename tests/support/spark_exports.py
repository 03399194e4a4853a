"""Whole `kcli spark-export` processes: started, killed at any moment, and what they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.spark.export.target.local_target import LocalTarget
from tests.support.toolchain import INTEROP
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = INTEROP.parent.parent
PATIENCE_SECONDS = 300.0
"""As long as a busy machine may take for an export whose JVM starts others."""


def state_of(target: Path) -> Path:
    """The directory of an export's log and dead letters."""
    return Path(LocalTarget(str(target)).state_uri)


class ExportProcess:
    """One run of the command, in a session of its own; `with` ends it and everything that it started.

    By their session they are known whoever collected their parents, and whoever has the id of one that ended.
    """

    def __init__(self, log: Path, *arguments: str | Path) -> None:
        self._log = log
        self._is_over = False
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kcli", "spark-export", "-o", "json", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                start_new_session=True,
            )

    def __enter__(self) -> ExportProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_over:
            end_session(self.pid)
        self._process.wait(PATIENCE_SECONDS)
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
        """SIGKILL for the driver."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def orphans_end(self) -> None:
        """Wait until nobody runs whom the driver had started."""
        eventually(lambda: not session_of(self.pid), "the end of an export's processes")
        self._is_over = True

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
        eventually(
            lambda: bool(self.workers()) or not self.is_running(), "a worker", seconds=PATIENCE_SECONDS
        )

    def has_receipts(self, target: Path) -> None:
        """Wait until one of its tasks has written what it was to write, or it has ended."""
        log = state_of(target) / "log"
        eventually(
            lambda: any(log.glob("*/split-*.json")) or not self.is_running(),
            "the first receipt",
            seconds=PATIENCE_SECONDS,
        )

    @property
    def errors(self) -> str:
        """What it and those before it said on standard error."""
        return self._log.read_text(errors="replace")


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, as far as they live."""
    found: list[int] = []
    with suppress(OSError):  # it may end meanwhile, and its threads
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                for child in map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split()):
                    found += [child, *descendants(child)]
    return found


def session_of(pid: int) -> list[int]:
    """Who runs of the session that a process began; it may have ended itself."""
    return [
        one for one in map(int, filter(str.isdigit, os.listdir("/proc"))) if _stat(one)[3:4] == [str(pid)]
    ]


def end_session(pid: int) -> None:
    """SIGKILL for everybody in it, those too who are started meanwhile."""

    def is_empty() -> bool:
        return not [one for one in session_of(pid) if kill(one)]

    eventually(is_empty, "the end of everybody in a session")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has collected yet does not."""
    return bool(_stat(pid))


def _stat(pid: int) -> list[str]:
    """State, parent, process group, session and more of a process that runs, nothing of another."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
    return [] if fields[0] in "ZX" else fields


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
