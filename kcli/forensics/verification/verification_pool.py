"""Tasks in several processes: a replica in each, and one that is most of the work by ranges of its logs.

What is done with a replica directory, here or in another process: verify it, index it anew, compare it.
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
    """The processes that help, if there are any. Use it as a context manager, before there are threads."""

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
        """Begin to read what a verification of replicas will ask for first. Raises `WorkerGone`."""
        for replica in replicas:
            if self._reader is None or not self._is_most(replica.directory):
                continue
            for path, base_offset in sorted(_logs_of(replica), key=lambda log: log[1]):
                if self._reader.begin(path, base_offset, deep):
                    return

    def run(self, tasks: Sequence[Task], advance: Advance) -> Iterator[PartitionReport]:
        """Yield the reports on all tasks, in their order; `advance` is told of bytes done.

        Raises `KcliError`.
        """

        if self._pool is None or self._reader is None:
            yield from (run_task(task, advance) for task in tasks)
            return
        large = {number for number, task in enumerate(tasks) if self._is_most(task.directory)}
        done = {number: run_task(tasks[number], advance, self._reader.read) for number in large}
        rest = [number for number in range(len(tasks)) if number not in large]
        following = 0
        for number, report in self._share_out(tasks, rest, advance):
            done[number] = report
            while following in done:
                yield done.pop(following)
                following += 1
        while following in done:
            yield done.pop(following)
            following += 1

    def _is_most(self, directory: str) -> bool:
        """Whether the other processes would wait for the one that has this replica."""
        return self._pool is not None and self._sizes.get(directory, 0) * self._pool.count > self._total

    def _share_out(
        self, tasks: Sequence[Task], numbers: Sequence[int], advance: Advance
    ) -> Iterator[tuple[int, PartitionReport]]:
        """Yield the reports on some tasks as they come, each from a process of its own."""
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
    """Return the bytes of the log files of a replica; none of those that cannot be seen."""
    total = 0
    for path, _ in _logs_of(replica):
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def _logs_of(replica: Replica) -> Iterator[tuple[str, int]]:
    """Yield the log files of a replica that are wanted, with their offsets."""
    try:
        names = os.listdir(replica.directory)
    except OSError:
        return  # who verifies it will tell
    for name in names:
        base_offset = base_offset_of(name, LOG_SUFFIX) if name.endswith(LOG_SUFFIX) else None
        if base_offset is not None and replica.base_offset in (None, base_offset):
            yield f"{replica.directory}/{name}", base_offset


def _work(wanted: LogRange | Task, send: Send) -> None:
    """Read a range of a log, or do a task."""
    if isinstance(wanted, LogRange):
        scan_range(wanted, send)
        return
    try:
        send(Done(run_task(wanted, send)))
    except KcliError as error:
        send(Done(error))


Advance = Callable[[int], None]


class Task(Protocol):
    """Something to do with a directory."""

    @property
    def directory(self) -> str: ...

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Do it; `advance` is told of bytes done, `read` reads logs if it is given. Raises `OSError`."""
        ...


class Verification(NamedTuple):
    """Verify a replica; `offsets` are those of the log directory's checkpoints."""

    directory: str
    options: VerificationOptions
    offsets: PartitionOffsets

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Do it. Raises `OSError`."""
        from kcli.forensics.verification.partition_verifier import verify_partition

        if read is None:
            return verify_partition(self.directory, self.options, offsets=self.offsets, advance=advance)
        return verify_partition(
            self.directory, self.options, offsets=self.offsets, advance=advance, read=read
        )


class Rebuilding(NamedTuple):
    """Write fresh indexes of a replica to a directory."""

    directory: str
    out: str
    interval_bytes: int

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Do it. Raises `KcliError` and `OSError`."""
        from kcli.forensics.verification.fresh_indexes import rebuild

        return rebuild(self.directory, self.out, interval_bytes=self.interval_bytes, advance=advance)


class Comparison(NamedTuple):
    """Compare a replica with another."""

    directory: str
    other: str
    is_compacted: bool

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Do it. Raises `OSError`."""
        from kcli.forensics.verification.replica_comparison import compare

        return compare(self.directory, self.other, is_compacted=self.is_compacted, advance=advance)


def run_task(task: Task, advance: Advance, read: ReadLog | None = None) -> PartitionReport:
    """Do a task; what cannot be read or written is in its report. Raises `KcliError`."""
    try:
        return task.run(advance, read)
    except OSError as error:
        return PartitionReport(task.directory, [], [_failure(task, error)])


def _failure(task: Task, error: OSError) -> KcliError:
    done, path = "read", os.fspath(error.filename or task.directory)
    # A write that fails, unlike a file that cannot be opened, names none.
    if isinstance(task, Rebuilding) and (error.filename is None or Path(path).is_relative_to(task.out)):
        done, path = "write", os.fspath(error.filename or task.out)
    return KcliError(f"cannot {done} `{path}`: {error.strerror}")
