"""Lanes: test files run side by side in several processes; a test that measures has the machine to itself.

Most tests wait for clients most of the time, so several files fit on one machine; a test marked `alone`
asserts how long something takes and waits until no other test runs. Who waits goes before who comes later.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.file_queue import is_alone, put_in_order, write_alone

if TYPE_CHECKING:
    from collections.abc import Iterator


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

    def enter_alone(self) -> None:
        """Wait until nobody else runs, unless that is so already; nobody passes the door from now on."""
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._floor, fcntl.LOCK_EX)

    def leave_alone(self) -> None:
        """Let the others run."""
        fcntl.flock(self._floor, fcntl.LOCK_UN)
        fcntl.flock(self._door, fcntl.LOCK_UN)


class SideBySide:
    """Of a process that runs tests beside others: each test has its lane."""

    def __init__(self, directory: str, worker: str) -> None:
        self._directory = Path(directory)
        self._lanes = Lanes(self._directory)
        self._turn = int(worker.removeprefix("gw")) % (os.cpu_count() or 1)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Iterator[None]:
        """Collect with as many others as there are processors: the rest find what these have compiled."""
        with (self._directory / f"collecting-{self._turn}").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            return (yield)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        put_in_order(items)
        write_alone(items, self._directory)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        if not is_alone(item):
            with self._lanes.beside_others():
                return (yield)
        self._lanes.enter_alone()
        try:
            return (yield)
        finally:
            # Whoever waits would keep the next one waiting.
            if nextitem is None or not is_alone(nextitem):
                self._lanes.leave_alone()

    def pytest_unconfigure(self) -> None:
        self._lanes.close()
