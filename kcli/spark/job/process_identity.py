"""Processes that say who they are, so that others can tell whether they still run.

A process id alone says nothing: another machine may have the same name, another container its own numbers,
and a number is given again. So an owner also says on which start of which machine it runs, among which
process ids, and when it was started. Where there is no `/proc`, nothing is told of processes.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"
_START_FIELD = 19
"""Of `/proc/<pid>/stat` behind the name of the program: clock ticks since the machine was started."""


def this_process() -> dict[str, Any]:
    """Return who this process is."""
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "place": _place(), "process_start": _start_of(pid)}


def has_ended(owner: Mapping[str, Any]) -> bool:
    """Return whether a process that said who it is surely runs no more."""
    place, started = owner.get("place"), owner.get("process_start")
    if place is None or started is None or place != _place():
        return False
    try:
        return _start_of(int(owner["pid"])) != int(started)
    except (KeyError, TypeError, ValueError):
        return False


def _place() -> str | None:
    """Return what is the same for all processes that see each other by the same ids, until a restart."""
    try:
        with open(_BOOT_ID) as file:
            return f"{file.read().strip()} {os.readlink(_NAMESPACE)}"
    except OSError:
        return None


def _start_of(pid: int) -> int | None:
    """Return when a process was started, None if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[_START_FIELD])
    except (OSError, ValueError, IndexError):
        return None
