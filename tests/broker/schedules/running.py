"""Running a schedule in virtual time, every choice in it decided by its seed."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio
import trio.testing

from kcli.broker.process import cluster as cluster_module
from tests.broker.schedules.clients import Violation
from tests.broker.schedules.life import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.schedules.schedule import Schedule

PATIENCE_SECONDS = 60
"""In real time: how long a schedule may run, which as a rule takes a tenth of a second."""


def run_schedule(schedule: Schedule) -> Run:
    """Run a schedule; return what is left of it. Raises `Violation`, and whatever a node fails with."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    temporary = tempfile.TemporaryDirectory(prefix="kcli-schedule-", dir=base)
    with temporary as directory, decided_by(schedule.seed), patience():
        run = Run(schedule, Path(directory))
        trio.run(run.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return run


@contextmanager
def decided_by(seed: int) -> Iterator[None]:
    """Have the order of tasks, and whatever else is left to chance, follow from a seed.

    The first is what Hypothesis has trio do, too.
    """
    random.seed(seed)
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True
    trio._core._run._r.seed(seed)
    cluster_module.Random = lambda: random.Random(seed)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = False
        cluster_module.Random = random.Random  # type: ignore[attr-defined]


@contextmanager
def patience() -> Iterator[None]:
    """Fail what runs without end: in virtual time nothing else would tell."""

    def give_up(*_: object) -> None:
        raise Violation(f"no end after {PATIENCE_SECONDS} s: some task never waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
