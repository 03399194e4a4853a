"""FutureLogs: the copies of replicas that are on their way to another log directory of the node (KIP-113).

A copy lies in `<topic>-<partition>.<id>-future` until it has everything; then it takes the replica's name and
place, and what it replaces is deleted. One that a stop interrupted is found at the next start and goes on.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.errors import reason_of
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.protocol.uuids import random_uuid
from kcli.storage.checkpoints import write_partition_metadata
from kcli.storage.log_paths import FUTURE_DIRECTORY_SUFFIX, replica_directory_name, suffixed_directory_name
from kcli.storage.log_truncation import truncate_fully_and_start_at

if TYPE_CHECKING:
    from kcli.storage.log_manager import LogManager
    from kcli.storage.unified_log import UnifiedLog


class FutureLogs:
    """The future logs of one node, by topic and partition."""

    __slots__ = ("logs",)

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, UnifiedLog] = {}

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """Return the copy of a replica, None if it is not being moved."""
        return self.logs.get(TopicPartition(topic, partition))


def create_future_log(manager: LogManager, log: UnifiedLog, *, directory: str, now_ms: int) -> UnifiedLog:
    """Begin a copy of `log`, empty, in another log directory. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    name = suffixed_directory_name(log.topic_partition, FUTURE_DIRECTORY_SUFFIX, random_uuid().hex())
    path = f"{directory}/{name}"
    try:
        os.makedirs(path)
        if log.topic_id is not None:
            write_partition_metadata(path, log.topic_id)
        copy = manager.load_log(
            path,
            topic_partition=log.topic_partition,
            topic_id=log.topic_id,
            now_ms=now_ms,
            is_clean=False,
            config=log.config,
        )
    except OSError as error:
        message = f"cannot create a copy of {log.topic_partition} in `{directory}`: {reason_of(error)}"
        manager.directories.path_failed(path, message)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
    manager.add(copy)
    if log.log_start_offset:
        truncate_fully_and_start_at(copy, log.log_start_offset, now_ms=now_ms)
    return copy


def drop_future_log(manager: LogManager, topic_partition: TopicPartition, *, now_ms: int) -> None:
    """Give up a copy, if there is one. Raises `KafkaError` KAFKA_STORAGE_ERROR."""
    copy = manager.future.logs.pop(topic_partition, None)
    if copy is not None:
        manager.retire(copy, now_ms)


def promote_future_log(manager: LogManager, topic_partition: TopicPartition, *, now_ms: int) -> UnifiedLog:
    """Put a copy that has everything in the place of its replica, and return it. Raises `KafkaError`."""
    copy = manager.future.logs.pop(topic_partition)
    former = manager.get(*topic_partition)
    manager.replace(copy)
    manager.checkpoints.entries_expired([topic_partition])
    if former is not None:
        copy.set_high_watermark(former.high_watermark)
        manager.retire(former, now_ms)
    copy.rename_directory(replica_directory_name(topic_partition))
    copy.is_future = False
    return copy
