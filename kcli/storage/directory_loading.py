"""Loading a log directory: every replica in it, with the offsets that its checkpoints have.

After a clean stop that reads next to nothing; after a crash every log is recovered, several at a time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.storage.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CheckpointError,
    read_offsets,
)
from kcli.storage.replica_scan import ReplicaScan
from kcli.storage.worker_threads import run_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.topics import TopicPartition
    from kcli.storage.log_directory import LogDirectory
    from kcli.storage.log_manager import LogManager


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
