"""Runs a schedule in virtual time; its seed decides every choice."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
import trio.testing

from kcli.broker.process import cluster as cluster_module
from tests.broker.schedules.clients import Violation
from tests.broker.schedules.life import Run
from tests.broker.schedules.transactions import TransactionRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.broker.schedules.schedule import Schedule

R = TypeVar("R", Run, TransactionRun)

PATIENCE_SECONDS = 60
"""In real time: how long a schedule may run, which as a rule takes a tenth of a second."""


def run_schedule(schedule: Schedule) -> Run:
    """Run a schedule; return the final state. Raises `Violation`, and the errors of nodes."""
    return _run(schedule, Run)


def run_transactions(schedule: Schedule) -> TransactionRun:
    """The same with transactional clients."""
    return _run(schedule, TransactionRun)


def _run(schedule: Schedule, make: Callable[[Schedule, Path], R]) -> R:
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    temporary = tempfile.TemporaryDirectory(prefix="kcli-schedule-", dir=base)
    with temporary as directory, decided_by(schedule.seed), patience():
        run = make(schedule, Path(directory))
        trio.run(run.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return run


@contextmanager
def decided_by(seed: int) -> Iterator[None]:
    """Let a seed decide the order of tasks and all random choices, as Hypothesis does for trio."""
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
    """Fail a run that does not end: virtual time has no other timeout."""

    def give_up(*_: object) -> None:
        raise Violation(f"no end after {PATIENCE_SECONDS} s: some task never waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
