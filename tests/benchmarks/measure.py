"""Measuring: subjects in turn, medians of rounds, CPU time and memory of processes."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.table import ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

ROUNDS = 5
IDLE_SECONDS = 0.4
IDLE_TIMEOUT_SECONDS = 30.0


def alternate(
    subjects: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS, warm_up: int = 1
) -> dict[str, float]:
    """Measure every subject once a round, one after another; return the medians of `rounds` rounds.

    `warm_up` rounds before them do not count: just-in-time compilers and caches get their chance.
    """
    found = alternate_rounds(subjects, rounds=rounds, warm_up=warm_up)
    return {name: median(values) for name, values in found.items()}


def alternate_rounds(
    subjects: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS, warm_up: int = 1
) -> dict[str, list[float]]:
    """Do the same and return what every round found.

    Rounds begin with each in turn, for what runs after an idle moment is slower, and every other round goes
    the other way round, for what runs before may leave the machine faster or slower.
    """
    results: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    for number in range(-warm_up, rounds):
        first = number // 2 % len(names)
        order = names[first:] + names[:first]
        for name in order if number % 2 == 0 else reversed(order):
            value = subjects[name]()
            if number >= 0:
                results[name].append(value)
    return results


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios, not a number without a peer.

    A machine that is now fast, now slow, moves the medians of all rounds, but hardly what each round found.
    """
    return median(map(ratio, ours, theirs)) if theirs else float("nan")


def child_cpu_seconds(arguments: Sequence[str]) -> float:
    """Run a program to its end; return the CPU time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the living threads of a process have taken so far."""
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            nanoseconds += int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # a thread that has just ended
    return nanoseconds / 1e9


def wait_until_idle(pid: int) -> None:
    """Return when a process has taken next to no CPU time for a while; `TimeoutError` if it never does."""
    deadline = time.monotonic() + IDLE_TIMEOUT_SECONDS
    before = cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(IDLE_SECONDS)
        now = cpu_seconds(pid)
        if now - before < IDLE_SECONDS / 50:
            return
        before = now
    raise TimeoutError(f"process {pid} is still busy")


@contextmanager
def on_cores(pid: int, cores: Collection[int]) -> Iterator[None]:
    """Let the threads of a process, and those that they start, run on these cores only."""
    allowed = os.sched_getaffinity(pid)
    _place(pid, cores)
    try:
        yield
    finally:
        _place(pid, allowed)


def _place(pid: int, cores: Collection[int]) -> None:
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            os.sched_setaffinity(int(task), cores)
        except ProcessLookupError:
            continue  # a thread that has just ended


def raise_file_limit() -> None:
    """Let this process, and those it starts, have as many open files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def percentile(values: Sequence[float], fraction: float) -> float:
    """Return the value below which `fraction` of the sorted values are."""
    return sorted(values)[min(len(values) - 1, int(len(values) * fraction))]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
