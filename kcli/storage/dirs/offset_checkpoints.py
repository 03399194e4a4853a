"""OffsetCheckpoints: writes the offset checkpoints of the log directories, in any thread.

The thread that owns the logs collects the offsets into a `CheckpointPlan`; any thread runs it; the first one
commits it. Plans are numbered, and a plan overtaken by a later one writes nothing.

A deleted replica stays in the files until the next write. A new replica of the same name must not inherit its
entry: it would start at the old log start and skip recovery up to the old recovery point. So the names with
stale entries are kept, and the files are written before such a name is used again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    write_offsets,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log.unified_log import UnifiedLog


def _log_start_to_keep(log: UnifiedLog) -> int | None:
    """Return the log start, None if it is the base offset of the first segment."""
    offset = log.log_start_offset
    # A log that is out of service may have no segment.
    is_first = len(log.segments) and offset <= log.segments.first.base_offset
    return None if is_first else offset


CHECKPOINTS: dict[str, Callable[[UnifiedLog], int | None]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: _log_start_to_keep,
    REPLICATION_OFFSET_CHECKPOINT: lambda log: log.high_watermark,
    CLEANER_OFFSET_CHECKPOINT: lambda log: log.cleaner_offset,
}
"""The kinds of offset checkpoint by file name, each with the offset of a log that it holds."""


class CheckpointPlan:
    """Checkpoint files of one kind to write; `run` collects those that it could not write in `failures`."""

    __slots__ = ("_files", "_written", "failures", "name", "number")

    def __init__(
        self,
        name: str,
        number: int,
        *,
        files: Sequence[tuple[str, Mapping[TopicPartition, int]]],
        written: _Written,
    ) -> None:
        self.name = name
        self.number = number
        self.failures: list[tuple[str, OSError]] = []
        self._files = files
        self._written = written

    def run(self) -> None:
        """Write the files durably, in any thread, unless a later plan has."""
        for path, offsets in self._files:
            try:
                self._written.write(path, self.number, offsets)
            except OSError as error:
                self.failures.append((path, error))


class OffsetCheckpoints:
    """Makes the plans, and knows the names that may have a stale entry in a file."""

    __slots__ = ("_number", "_stale", "_written")

    def __init__(self, names: Iterable[str]) -> None:
        self._stale: dict[str, dict[TopicPartition, int]] = {name: {} for name in names}
        self._number = 0
        self._written = _Written()

    def entries_expired(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Mark the entries of these names as stale."""
        self._number += 1
        for topic_partition in topic_partitions:
            for stale in self._stale.values():
                stale[topic_partition] = self._number

    def stale_files(self, topic_partition: TopicPartition) -> list[str]:
        """Return the kinds of checkpoint to write before a replica of this name is created."""
        return [name for name, stale in self._stale.items() if topic_partition in stale]

    def plan(self, name: str, files: Sequence[tuple[str, Mapping[TopicPartition, int]]]) -> CheckpointPlan:
        """Return the plan to write checkpoints of one kind; `files` are pairs of path and current offsets."""
        self._number += 1
        return CheckpointPlan(name, self._number, files=files, written=self._written)

    def commit(self, plan: CheckpointPlan) -> None:
        """After a plan was run, forget the stale names that it wrote out of the files."""
        stale = self._stale[plan.name]
        self._stale[plan.name] = {each: number for each, number in stale.items() if number > plan.number}


class _Written:
    """The plan that last wrote each file; the lock allows one write at a time."""

    __slots__ = ("_lock", "_numbers")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def write(self, path: str, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Write a file unless a later plan has. Raises `OSError`."""
        with self._lock:
            if self._numbers.get(path, 0) < number:
                write_offsets(path, offsets)
                self._numbers[path] = number
