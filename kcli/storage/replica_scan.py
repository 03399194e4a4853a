"""ReplicaScan: what the directories inside a log directory are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import CheckpointError, read_partition_metadata
from kcli.storage.log_paths import (
    DELETE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_replica_directory,
    suffixed_directory_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.topics import TopicPartition


class FoundReplica(NamedTuple):
    """A replica directory; the topic id is None where `partition.metadata` does not tell."""

    path: str
    topic_partition: TopicPartition
    topic_id: bytes | None


class ReplicaScan:
    """The replicas in a log directory, and the directories that were deleted and still have to go.

    Directories set aside earlier and the metadata log's are left alone; others are reported and ignored.
    Raises `OSError`.
    """

    __slots__ = ("_directory", "_report", "deleted", "replicas")

    def __init__(self, directory: str, report: Callable[[str], None]) -> None:
        self._directory = directory
        self._report = report
        self.replicas: list[FoundReplica] = []
        self.deleted: list[str] = []
        for name in sorted(entry.name for entry in os.scandir(directory) if entry.is_dir()):
            path = f"{directory}/{name}"
            parsed = parse_replica_directory(name)
            if parsed is None:
                report(f"ignoring a directory that is no replica: `{path}`")
            elif parsed.suffix == DELETE_DIRECTORY_SUFFIX:
                self.deleted.append(path)
            elif parsed.suffix != STRAY_DIRECTORY_SUFFIX and parsed.topic_partition.topic != METADATA_TOPIC:
                self.replicas.append(FoundReplica(path, parsed.topic_partition, self._topic_id(path)))

    def set_aside_unless(self, keep: Callable[[TopicPartition, bytes | None], bool]) -> None:
        """Rename to `-stray` every replica that `keep(topic_partition, topic_id)` does not want."""
        kept = []
        for replica in self.replicas:
            if keep(replica.topic_partition, replica.topic_id):
                kept.append(replica)
                continue
            stray = suffixed_directory_name(
                replica.topic_partition, STRAY_DIRECTORY_SUFFIX, random_uuid().hex()
            )
            self._report(f"a replica that this node does not have: `{replica.path}` is now `{stray}`")
            os.replace(replica.path, f"{self._directory}/{stray}")
        self.replicas = kept

    def _topic_id(self, path: str) -> bytes | None:
        try:
            return read_partition_metadata(path)
        except CheckpointError as error:
            self._report(error.message)
            return None
