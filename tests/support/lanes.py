"""Lanes: test files run side by side in several processes; a test that measures has the machine to itself.

Most tests wait for clients most of the time, so several files fit on one machine; a test marked `alone`
asserts how long something takes and waits until no other test runs. Who waits goes before who comes later.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Lanes:
    """The right to run a test, shared by the processes that give the same directory."""

    def __init__(self, directory: Path) -> None:
        self._door = os.open(directory / "door", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self._floor = os.open(directory / "floor", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._door)
        os.close(self._floor)

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """Run while others may run too."""
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._floor, fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._floor, fcntl.LOCK_UN)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run while nobody else does; nobody passes the door meanwhile."""
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._floor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._floor, fcntl.LOCK_UN)
            fcntl.flock(self._door, fcntl.LOCK_UN)
