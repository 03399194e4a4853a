"""The checks of what belongs to a log directory: offset checkpoints, `partition.metadata`, `meta.properties`.

Checkpoints are read before the logs: a log that is written meanwhile only grows past them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import KcliError
from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.protocol.uuids import uuid_to_text
from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
    read_partition_metadata,
    read_small_file,
)
from kcli.storage.dirs.log_directory import META_PROPERTIES, parse_identity
from kcli.storage.log_paths import PARTITION_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kcli.protocol.topics import TopicPartition


class PartitionOffsets(NamedTuple):
    """The offsets of one partition in the checkpoints, None where one does not name it."""

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
        values = (self._offsets[name].get(topic_partition) for name in _FILES)
        return PartitionOffsets(self.directory, *values)

    def report_strangers(
        self, present: Collection[TopicPartition], report: Callable[[Finding], None]
    ) -> None:
        """Report partitions that a checkpoint names and the directory does not hold."""
        for name, offsets in self._offsets.items():
            strangers = [str(each) for each in offsets if each not in present]
            if strangers:
                more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
                message = f"not in this directory: {', '.join(strangers[:3])}{more}"
                path = f"{self.directory}/{name}"
                report(Finding(path, FindingKind.CHECKPOINT_OF_NOTHING, message))


def check_offsets(offsets: PartitionOffsets, log_end: int, report: Callable[[Finding], None]) -> None:
    """Report the offsets of a partition that are past the end of its log."""
    for (name, (what, kind)), offset in zip(_FILES.items(), offsets[1:], strict=True):
        if offset is not None and offset > log_end:
            message = f"{what} is {offset}, the log ends at {log_end}"
            report(Finding(f"{offsets.directory}/{name}", kind, message, None, offset))


def check_partition_metadata(directory: str, report: Callable[[Finding], None]) -> bytes | None:
    """Return the topic id of a replica; report a file that is missing or damaged. Raises `OSError`."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        topic_id = read_partition_metadata(directory)
    except CheckpointError as error:
        report(Finding(path, FindingKind.PARTITION_METADATA_DAMAGED, error.message))
        return None
    if topic_id is None:
        report(Finding(path, FindingKind.PARTITION_METADATA_MISSING, "no topic id"))
    return topic_id


def check_topic_ids(
    replicas: Iterable[tuple[str, str, bytes | None]], report: Callable[[Finding], None]
) -> None:
    """Report replicas, given as (topic, directory, topic id), whose ids of one topic differ."""
    first: dict[str, tuple[str, bytes]] = {}
    for topic, directory, topic_id in replicas:
        if topic_id is None:
            continue
        other, other_id = first.setdefault(topic, (directory, topic_id))
        if topic_id != other_id:
            message = f"topic id {uuid_to_text(topic_id)}, but {uuid_to_text(other_id)} in {other}"
            report(Finding(f"{directory}/{PARTITION_METADATA}", FindingKind.TOPIC_ID_MISMATCH, message))


def check_meta_properties(directories: Iterable[str], report: Callable[[Finding], None]) -> None:
    """Report `meta.properties` that are damaged or contradict each other. Raises `OSError`."""
    cluster: tuple[str, str] | None = None
    owners: dict[bytes, str] = {}
    for directory in directories:
        path = f"{directory}/{META_PROPERTIES}"
        try:
            found = parse_identity(read_small_file(path), path)
        except FileNotFoundError:
            continue
        except KcliError as error:
            report(Finding(path, FindingKind.META_PROPERTIES_DAMAGED, error.message))
            continue
        if found is None:
            continue
        if found.cluster_id is not None:
            cluster = cluster or (found.cluster_id, path)
            if found.cluster_id != cluster[0]:
                message = f"cluster {found.cluster_id}, but {cluster[0]} in {cluster[1]}"
                report(Finding(path, FindingKind.META_PROPERTIES_MISMATCH, message))
        if found.directory_id is not None:
            other = owners.setdefault(found.directory_id, path)
            if other != path:
                message = f"{other} has the same directory id"
                report(Finding(path, FindingKind.META_PROPERTIES_MISMATCH, message))
