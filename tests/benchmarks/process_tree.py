"""A process and everything below it: CPU time, also of children that ended, and peak memory."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTLE_SECONDS = 0.2
SETTLE_ROUNDS = 10
_RESET_PEAK = "5"


class ProcessState(NamedTuple):
    """What /proc says of a process: its CPU time, and that of its children that ended and were waited for."""

    pid: int
    parent: int
    program: str
    cpu_seconds: float


class ProcessTree:
    """A process and its descendants, as they are at every question."""

    def __init__(self, root: int) -> None:
        self._root = root

    def states(self) -> list[ProcessState]:
        """Return the root and every living descendant of it."""
        all_states = _all_states()
        known = {self._root}
        grown = True
        while grown:
            below = {one.pid for one in all_states if one.parent in known} | known
            grown, known = below != known, below
        return [one for one in all_states if one.pid in known]

    def cpu_seconds(self) -> float:
        """Return the CPU time of them all so far."""
        return sum(one.cpu_seconds for one in self.states())

    def settled_cpu_seconds(self) -> float:
        """Return it once next to nothing runs, so that compilers and collectors count where they belong."""
        before = self.cpu_seconds()
        for _ in range(SETTLE_ROUNDS):
            time.sleep(SETTLE_SECONDS)
            now = self.cpu_seconds()
            if now - before < SETTLE_SECONDS / 10:
                return now
            before = now
        return before

    def workers(self) -> list[int]:
        """Return the Python processes below the root."""
        return [one.pid for one in self.states() if one.pid != self._root and "python" in one.program]

    def forget_peaks(self) -> None:
        """Let the peak memory of every worker begin again at what it has now."""
        for pid in self.workers():
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)

    def worker_peak_bytes(self) -> int:
        """Return the highest resident memory that one of the living workers had."""
        return max((_status_bytes(pid, "VmHWM:") for pid in self.workers()), default=0)


def _all_states() -> list[ProcessState]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process may end while it is looked at.
            with suppress(OSError):
                found.append(_state_of(int(entry.name), (entry / "stat").read_text()))
    return found


def _state_of(pid: int, text: str) -> ProcessState:
    """Read a line of `/proc/PID/stat`, whose second field is a name in parentheses."""
    program, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    ticks = sum(int(field) for field in fields[11:15])
    return ProcessState(pid, int(fields[1]), program, ticks / TICKS_PER_SECOND)


def _status_bytes(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0
