"""What is done with a replica directory, here or in another process: verify it, index it anew, compare it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError
from kcli.storage.verification.partition_report import PartitionReport

if TYPE_CHECKING:
    from kcli.storage.verification.log_dir_checkpoints import PartitionOffsets
    from kcli.storage.verification.log_items import ReadLog
    from kcli.storage.verification.options import VerificationOptions

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
        from kcli.storage.verification.partition_verifier import verify_partition

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
        from kcli.storage.verification.fresh_indexes import rebuild

        return rebuild(self.directory, self.out, interval_bytes=self.interval_bytes, advance=advance)


class Comparison(NamedTuple):
    """Compare a replica with another."""

    directory: str
    other: str
    is_compacted: bool

    def run(self, advance: Advance, read: ReadLog | None) -> PartitionReport:
        """Do it. Raises `OSError`."""
        from kcli.storage.verification.replica_comparison import compare

        return compare(self.directory, self.other, is_compacted=self.is_compacted, advance=advance)


def perform(task: Task, advance: Advance, read: ReadLog | None = None) -> PartitionReport:
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
