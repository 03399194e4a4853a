"""Verifying several partitions at a time, each in a process of its own.

A process takes one directory after the other from its pipe, and tells through it how far it is. It ignores
Ctrl-C, which reaches the whole group: the command ends it. It ends by itself when the command has gone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from kcli.errors import KcliError
from kcli.storage.log_paths import LOG_SUFFIX
from kcli.storage.verification.log_dir_checkpoints import PartitionOffsets
from kcli.storage.verification.options import VerificationOptions
from kcli.storage.verification.partition_report import PartitionReport
from kcli.storage.verification.partition_verifier import verify_partition

WORTH_A_PROCESS_BYTES = 32 * 1024 * 1024
"""How much there must be to read before processes, which take a while to start, save time."""


class Task(NamedTuple):
    """One directory to verify."""

    directory: str
    options: VerificationOptions
    offsets: PartitionOffsets


def size_of(directory: str) -> int:
    """Return the bytes of the log files in a directory; none of those that cannot be seen."""
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith(LOG_SUFFIX):
                    total += entry.stat().st_size
    except OSError:
        return total
    return total


def verify_all(tasks: Sequence[Task], jobs: int, advance: Callable[[int], None]) -> Iterator[PartitionReport]:
    """Yield the reports on all tasks, in their order; `advance` is told of bytes done."""
    if jobs < 2 or len(tasks) < 2:
        for task in tasks:
            yield verify(task, advance)
        return
    done: dict[int, PartitionReport] = {}
    following = 0
    for number, report in _verify_in_processes(tasks, min(jobs, len(tasks)), advance):
        done[number] = report
        while following in done:
            yield done.pop(following)
            following += 1


def verify(task: Task, advance: Callable[[int], None]) -> PartitionReport:
    """Verify one directory; that it cannot be listed is in the report."""
    try:
        return verify_partition(task.directory, task.options, offsets=task.offsets, advance=advance)
    except OSError as error:
        failure = KcliError(f"cannot read `{error.filename or task.directory}`: {error.strerror}")
        return PartitionReport(task.directory, [], [failure])


def _verify_in_processes(
    tasks: Sequence[Task], jobs: int, advance: Callable[[int], None]
) -> Iterator[tuple[int, PartitionReport]]:
    context = get_context("spawn")
    numbers: dict[Connection, int] = {}
    processes: list[BaseProcess] = []
    waiting = iter(enumerate(tasks))
    try:
        for number, task in [next(waiting) for _ in range(jobs)]:
            ours, theirs = context.Pipe()
            processes.append(context.Process(target=_work, args=(theirs,), daemon=True))
            processes[-1].start()
            theirs.close()
            ours.send(task)
            numbers[ours] = number
        while numbers:
            for ready in wait([*numbers]):
                assert isinstance(ready, Connection)
                message = _receive(ready, tasks[numbers[ready]])
                if isinstance(message, int):
                    advance(message)
                    continue
                yield numbers.pop(ready), message
                following = next(waiting, None)
                if following is None:
                    ready.close()
                else:
                    numbers[ready], task = following
                    ready.send(task)
    finally:
        for connection in numbers:
            connection.close()
        for process in processes:
            process.terminate()
            process.join()


def _receive(connection: Connection, task: Task) -> int | PartitionReport:
    """Return how many bytes more were done, or the report on a task."""
    try:
        message: int | PartitionReport = connection.recv()
    except EOFError as error:
        raise KcliError(f"a process ended while it verified `{task.directory}`") from error
    return message


def _work(connection: Connection) -> None:
    """Verify what comes through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            task: Task = connection.recv()
            connection.send(verify(task, connection.send))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
