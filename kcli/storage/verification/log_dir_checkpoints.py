"""Whether the offset checkpoints of a log directory agree with its logs.

They are read before the logs: a log that is written meanwhile only grows past them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
)
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kcli.protocol.topics import TopicPartition


class PartitionOffsets(NamedTuple):
    """What the checkpoints say of one partition; None where they say nothing."""

    directory: str = ""
    recovery_point: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaner: int | None = None


_FILES = {
    RECOVERY_POINT_CHECKPOINT: ("the recovery point", FindingKind.RECOVERY_POINT_PAST_LOG),
    LOG_START_OFFSET_CHECKPOINT: ("the log start", FindingKind.LOG_START_PAST_LOG),
    REPLICATION_OFFSET_CHECKPOINT: ("the high watermark", FindingKind.HIGH_WATERMARK_PAST_LOG),
    CLEANER_OFFSET_CHECKPOINT: ("the cleaner's offset", FindingKind.CLEANER_PAST_LOG),
}


class LogDirCheckpoints:
    """The offset checkpoints of one log directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._offsets: dict[str, dict[TopicPartition, int]] = {name: {} for name in _FILES}

    def load(self, report: Callable[[Finding], None]) -> None:
        """Read the files, and report those that are damaged. Raises `OSError`."""
        for name in _FILES:
            path = f"{self.directory}/{name}"
            try:
                self._offsets[name] = read_offsets(path)
            except CheckpointError as error:
                report(Finding(path, FindingKind.CHECKPOINT_DAMAGED, error.message))
                continue
            for topic_partition, offset in self._offsets[name].items():
                if offset < 0:
                    message = f"{topic_partition}: offset {offset}"
                    report(Finding(path, FindingKind.CHECKPOINT_DAMAGED, message, None, offset))

    def of(self, topic_partition: TopicPartition) -> PartitionOffsets:
        """Return what they say of a partition."""
        values = (self._offsets[name].get(topic_partition) for name in _FILES)
        return PartitionOffsets(self.directory, *values)

    def report_strangers(
        self, present: Collection[TopicPartition], report: Callable[[Finding], None]
    ) -> None:
        """Report the partitions that are named but not in the directory."""
        for name, offsets in self._offsets.items():
            strangers = [str(each) for each in offsets if each not in present]
            if strangers:
                more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
                message = f"not in this directory: {', '.join(strangers[:3])}{more}"
                path = f"{self.directory}/{name}"
                report(Finding(path, FindingKind.CHECKPOINT_OF_NOTHING, message))


def check_offsets(offsets: PartitionOffsets, log_end: int, report: Callable[[Finding], None]) -> None:
    """Report the offsets of a partition that lie past the end of its log."""
    for (name, (what, kind)), offset in zip(_FILES.items(), offsets[1:], strict=True):
        if offset is not None and offset > log_end:
            message = f"{what} is {offset}, the log ends at {log_end}"
            report(Finding(f"{offsets.directory}/{name}", kind, message, None, offset))
