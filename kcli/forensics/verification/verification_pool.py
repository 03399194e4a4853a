"""VerificationPool: runs tasks with replica directories in several processes.

A task verifies a replica, compares it with another, or writes fresh indexes of it. Each process takes one
task at a time; a replica that is most of the work is read by ranges of its logs instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError
from kcli.forensics.entries.segment_file import LONG_BYTES
from kcli.forensics.ranges.worker_pool import Done, WorkerGone, WorkerPool
from kcli.forensics.verification.findings import PartitionReport
from kcli.forensics.verification.log_reader import LogRange, LogReader, scan_range
from kcli.storage.log_paths import LOG_SUFFIX, base_offset_of

if TYPE_CHECKING:
    from kcli.forensics.ranges.worker_pool import Send
    from kcli.forensics.verification.findings import VerificationOptions
    from kcli.forensics.verification.log_directory_checks import PartitionOffsets
    from kcli.forensics.verification.log_reader import ReadLog
    from kcli.forensics.verification.targets import Replica


class VerificationPool:
    """The processes that help, if any. Used as a context manager, before there are threads."""

    def __init__(self, sizes: Mapping[Replica, int], jobs: int | None) -> None:
        self._sizes = {replica.directory: size for replica, size in sizes.items()}
        self._total = sum(sizes.values())
        if jobs is None:
            jobs = (os.cpu_count() or 1) if self._total >= LONG_BYTES else 1
        self._pool = WorkerPool.forked(_work, jobs) if jobs > 1 and hasattr(os, "fork") else None
        self._reader: LogReader | None = None

    def __enter__(self) -> VerificationPool:
        if self._pool is not None:
            self._pool.__enter__()
            self._reader = LogReader(self._pool)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.__exit__()

    def begin(self, replicas: Iterable[Replica], deep: bool) -> None:
        """Begin to read the log that a verification of the replicas needs first. Raises `WorkerGone`."""
        for replica in replicas:
            if self._reader is None or not self._is_most(replica.directory):
                continue
            for path, base_offset in sorted(_logs_of(replica), key=lambda log: log[1]):
                if self._reader.begin(path, base_offset, deep):
                    return

    def run(self, tasks: Sequence[Task], advance: Advance) -> Iterator[PartitionReport]:
        """Yield the reports on all tasks in order; `advance` takes bytes done. Raises `KcliError`."""

        if self._pool is None or self._reader is None:
            yield from (run_task(task, advance) for task in tasks)
            return
        large = {number for number, task in enumerate(tasks) if self._is_most(task.directory)}
        done = {number: run_task(tasks[number], advance, self._reader.read) for number in large}
        rest = [number for number in range(len(tasks)) if number not in large]
        others = self._share_out(tasks, rest, advance)
        for number in range(len(tasks)):
            while number not in done:
                at, report = next(others)
                done[at] = report
            yield done.pop(number)

    def _is_most(self, directory: str) -> bool:
        """Whether the other processes would wait for the one with this replica."""
        return self._pool is not None and self._sizes.get(directory, 0) * self._pool.count > self._total

    def _share_out(
        self, tasks: Sequence[Task], numbers: Sequence[int], advance: Advance
    ) -> Iterator[tuple[int, PartitionReport]]:
        """Yield the reports on some tasks as they come, with their numbers."""
        assert self._pool is not None
        try:
            for at, message in self._pool.share_out(tasks[number] for number in numbers):
                match message:
                    case Done(KcliError() as error):
                        raise error
                    case Done(PartitionReport() as report):
                        yield numbers[at], report
                    case int():
                        advance(message)
        except WorkerGone as gone:
            if gone.number is None:
                raise
            directory = tasks[numbers[gone.number]].directory
            raise KcliError(f"a process ended while it was at `{directory}`") from gone


def size_of(replica: Replica) -> int:
    """Return the size of the log files of a replica, without files that cannot be seen."""
    total = 0
    for path, _ in _logs_of(replica):
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def _logs_of(replica: Replica) -> Iterator[tuple[str, int]]:
    """Yield the wanted log files of a replica and their base offsets."""
    try:
        names = os.listdir(replica.directory)
    except OSError:
        return  # the verification reports it
    for name in names:
        base_offset = base_offset_of(name, LOG_SUFFIX) if name.endswith(LOG_SUFFIX) else None
        if base_offset is not None and replica.base_offset in (None, base_offset):
            yield f"{replica.directory}/{name}", base_offset


def _work(wanted: LogRange | Task, send: Send) -> None:
    if isinstance(wanted, LogRange):
        scan_range(wanted, send)
        return
    try:
        send(Done(run_task(wanted, send)))
    except KcliError as error:
        send(Done(error))


Advance = Callable[[int], None]


class Task(Protocol):
    """Work with one replica directory."""

    @property
    def directory(self) -> str: ...

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Run; `advance` takes numbers of bytes done, `read` reads logs if it is given. Raises `OSError`."""
        ...


class Verification(NamedTuple):
    """Verify a replica; `offsets` are its offsets in the checkpoints of the log directory."""

    directory: str
    options: VerificationOptions
    offsets: PartitionOffsets

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        from kcli.forensics.verification.partition_verifier import verify_partition

        return verify_partition(
            self.directory, self.options, offsets=self.offsets, advance=advance, read=read
        )


class Rebuilding(NamedTuple):
    """Write fresh indexes of a replica to a directory."""

    directory: str
    out: str
    interval_bytes: int

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        from kcli.forensics.verification.fresh_indexes import rebuild

        return rebuild(self.directory, self.out, interval_bytes=self.interval_bytes, advance=advance)


class Comparison(NamedTuple):
    """Compare a replica with another."""

    directory: str
    other: str
    is_compacted: bool

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        from kcli.forensics.verification.replica_comparison import compare

        return compare(self.directory, self.other, is_compacted=self.is_compacted, advance=advance)


def run_task(task: Task, advance: Advance, read: ReadLog | None = None) -> PartitionReport:
    """Run a task; the report has the failure if a file cannot be read or written. Raises `KcliError`."""
    try:
        return task.run(advance, read)
    except OSError as error:
        return PartitionReport(task.directory, [], [_failure(task, error)])


def _failure(task: Task, error: OSError) -> KcliError:
    done, path = "read", os.fspath(error.filename or task.directory)
    # The error of a failed write, unlike that of a failed open, names no file.
    if isinstance(task, Rebuilding) and (error.filename is None or Path(path).is_relative_to(task.out)):
        done, path = "write", os.fspath(error.filename or task.out)
    return KcliError(f"cannot {done} `{path}`: {error.strerror}")
