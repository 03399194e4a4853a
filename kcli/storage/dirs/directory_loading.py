"""DirectoryLoader: what a start finds in one log directory: replicas, checkpoints, the clean-stop marker."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
    read_partition_metadata,
)
from kcli.storage.log.log_loader import Checkpointed
from kcli.storage.log_paths import (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_replica_directory,
    suffixed_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.dirs.log_directory import LogDirectory


class FoundReplica(NamedTuple):
    """A replica directory; the topic id is None if `partition.metadata` does not name it."""

    path: str
    topic_partition: TopicPartition
    topic_id: bytes | None


class DirectoryLoader:
    """The replicas in a log directory, their checkpointed offsets, and the deleted directories to unlink.

    Takes the clean-stop marker. Leaves alone the metadata log's directory and those set aside earlier, and
    reports others that are not replicas. Raises `OSError`.
    """

    def __init__(self, directory: LogDirectory, report: Callable[[str], None]) -> None:
        self._directory = directory
        self._report = report
        directory.take_clean_marker()
        self._recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        self._log_start_offsets = self._read_offsets(LOG_START_OFFSET_CHECKPOINT)
        self._high_watermarks = self._read_offsets(REPLICATION_OFFSET_CHECKPOINT)
        self._cleaner_offsets = self._read_offsets(CLEANER_OFFSET_CHECKPOINT)
        self.replicas: list[FoundReplica] = []
        self.deleted: list[str] = []
        for name in sorted(entry.name for entry in os.scandir(directory.path) if entry.is_dir()):
            path = f"{directory.path}/{name}"
            parsed = parse_replica_directory(name)
            if parsed is None:
                report(f"ignoring a directory that is not a replica: `{path}`")
            elif parsed.suffix == DELETE_DIRECTORY_SUFFIX:
                self.deleted.append(path)
            elif parsed.suffix != STRAY_DIRECTORY_SUFFIX and parsed.topic_partition.topic != METADATA_TOPIC:
                self.replicas.append(FoundReplica(path, parsed.topic_partition, self._topic_id(path)))

    def set_aside_unless(self, keep: Callable[[TopicPartition, bytes | None], bool]) -> None:
        """Rename to `-stray` every replica for which `keep(topic_partition, topic_id)` is False."""
        kept = []
        for replica in self.replicas:
            if keep(replica.topic_partition, replica.topic_id):
                kept.append(replica)
                continue
            stray = suffixed_directory_name(
                replica.topic_partition, STRAY_DIRECTORY_SUFFIX, random_uuid().hex()
            )
            self._report(
                f"setting aside a replica not assigned to this node: `{replica.path}` is now `{stray}`"
            )
            os.replace(replica.path, f"{self._directory.path}/{stray}")
        self.replicas = kept

    def checkpointed(self, topic_partition: TopicPartition) -> Checkpointed:
        """Return what the checkpoints say of a log, 0 where they do not name it."""
        return Checkpointed(
            self._directory.was_clean,
            self._recovery_points.get(topic_partition, 0),
            self._log_start_offsets.get(topic_partition, 0),
        )

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        """Return the checkpointed high watermark of a log, 0 without one."""
        return self._high_watermarks.get(topic_partition, 0)

    def cleaner_offset(self, topic_partition: TopicPartition) -> int | None:
        """Return up to where a log has been compacted, None if it never was."""
        return self._cleaner_offsets.get(topic_partition)

    @property
    def checkpointed_names(self) -> set[TopicPartition]:
        """The logs that any checkpoint names."""
        return {
            *self._recovery_points,
            *self._log_start_offsets,
            *self._high_watermarks,
            *self._cleaner_offsets,
        }

    def _topic_id(self, path: str) -> bytes | None:
        try:
            return read_partition_metadata(path)
        except CheckpointError as error:
            self._report(error.message)
            return None

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(f"{self._directory.path}/{name}")
        except CheckpointError as error:
            self._report(f"a checkpoint counts as empty: {error.message}")
            return {}


def run_all(jobs: Sequence[Callable[[], None]], thread_count: int) -> None:
    """Run jobs in several threads, or in this one; raise the first exception when all have ended."""
    if thread_count <= 1 or len(jobs) <= 1:
        for job in jobs:
            job()
        return
    remaining = iter(jobs)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            with lock:
                job = next(remaining, None)
            if job is None:
                return
            try:
                job()
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work, name=f"log-recovery-{n}") for n in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
