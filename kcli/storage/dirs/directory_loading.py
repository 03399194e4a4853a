"""Loading a log directory: every replica in it, with the offsets that its checkpoints have.

After a clean stop that reads next to nothing; after a crash every log is recovered, several at a time.

ReplicaScan: what the directories inside a log directory are.

Running jobs in a few threads, for recovery: reading and checksums let other threads go on.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.topics import METADATA_TOPIC
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
    read_partition_metadata,
)
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
    from kcli.storage.dirs.log_manager import LogManager


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


def load_directory(
    manager: LogManager,
    directory: LogDirectory,
    *,
    now_ms: int,
    keep: Callable[[TopicPartition, bytes | None], bool] | None,
) -> None:
    """Load the logs of one directory into their manager; see `LogManager.load`.

    Raises `OSError`, and `KcliError` when a replica is found twice.
    """
    directory.take_clean_marker()
    recovery_points = _read_offsets(manager, directory, RECOVERY_POINT_CHECKPOINT)
    log_start_offsets = _read_offsets(manager, directory, LOG_START_OFFSET_CHECKPOINT)
    high_watermarks = _read_offsets(manager, directory, REPLICATION_OFFSET_CHECKPOINT)

    def job(path: str, topic_partition: TopicPartition, topic_id: bytes | None) -> None:
        log = manager.load_log(
            path,
            topic_partition=topic_partition,
            topic_id=topic_id,
            now_ms=now_ms,
            is_clean=directory.was_clean,
            recovery_point=recovery_points.get(topic_partition, 0),
            log_start_offset=log_start_offsets.get(topic_partition, 0),
        )
        log.set_high_watermark(high_watermarks.get(topic_partition, 0))
        manager.add(log)

    scan = ReplicaScan(directory.path, manager.report)
    for path in scan.deleted:
        manager.deletions.add(path, now_ms=now_ms, delay_ms=manager.default_config.file_delete_delay_ms)
    if keep is not None:
        scan.set_aside_unless(keep)
    jobs = [partial(job, *replica) for replica in scan.replicas]
    if jobs and not directory.was_clean:
        manager.report(f"recovering {len(jobs)} logs in `{directory.path}` after an unclean stop")
    # A clean start reads next to nothing, and Python runs it on one core anyway.
    run_all(jobs, 1 if directory.was_clean else manager.recovery_threads)
    entries = {*recovery_points, *log_start_offsets, *high_watermarks}
    manager.checkpoints.entries_expired(entries - {log.topic_partition for log in manager})
    directory.is_loaded = True


def _read_offsets(manager: LogManager, directory: LogDirectory, name: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(f"{directory.path}/{name}")
    except CheckpointError as error:
        manager.report(f"a checkpoint counts as empty: {error.message}")
        return {}
