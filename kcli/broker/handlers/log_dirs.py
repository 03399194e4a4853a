"""DescribeLogDirs and AlterReplicaLogDirs: log directories and the replicas in them (KIP-113, KIP-827).

Null topics mean all. A failed directory is KAFKA_STORAGE_ERROR and lists no topics. The lag of a replica is
the distance of its log end from the high watermark; that of a future replica is to the log end of the current
one.

A replica moves in the background: the response says that the move has begun. A replica that is not on this
node is REPLICA_NOT_AVAILABLE, but if it comes later, it is created in the directory asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.broker.network.authorization import authorize_cluster, is_cluster_authorized
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
    from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
    from kcli.storage.dirs.log_directory import LogDirectory
    from kcli.storage.dirs.log_manager import LogManager
    from kcli.storage.log.unified_log import UnifiedLog

_ERROR_FROM = 3
"""The first version of DescribeLogDirs with an error for the response as a whole."""


def describe_log_dirs(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Return every log directory and its replicas."""
    if not is_cluster_authorized(context, Operation.DESCRIBE):
        if context.api_version < _ERROR_FROM:
            return DescribeLogDirsResponse(results=[])
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    manager = context.node.log_manager
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs: dict[str, list[UnifiedLog]] = {}
    for log in manager.all_logs:
        name = log.topic_partition
        if wanted is None or (name.topic, name.partition) in wanted:
            logs.setdefault(log.parent_directory, []).append(log)
    return DescribeLogDirsResponse(
        results=[
            _describe(directory, logs.get(directory.path, []), manager) for directory in manager.directories
        ]
    )


def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Begin to move replicas; for a replica named twice, the last directory counts."""
    authorize_cluster(context, Operation.ALTER)
    moves = context.node.replica_manager.alter_log_dirs_manager
    directories = {
        (topic.name, index): each.path
        for each in request.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), directory in directories.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index)
        try:
            moves.begin(name, index, directory)
        except KafkaError as error:
            result.error_code = error.code
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name, partitions=[]))
        topic.partitions.append(result)
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def failed_alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, error: KafkaError
) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error.code)
                    for index in topic.partitions
                ],
            )
            for each in request.dirs
            for topic in each.topics
        ]
    )


def _lag(log: UnifiedLog, manager: LogManager) -> int:
    if not log.is_future:
        return max(0, log.high_watermark - log.log_end_offset)
    current = manager.get(*log.topic_partition)
    return -1 if current is None else max(0, current.log_end_offset - log.log_end_offset)


def _describe(directory: LogDirectory, logs: list[UnifiedLog], manager: LogManager) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
    )
    if not directory.is_online:
        return failed
    try:
        volume = os.statvfs(directory.path)
    except OSError:
        return failed
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in sorted(logs, key=lambda log: log.topic_partition):
        name = log.topic_partition.topic
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.topic_partition.partition,
                partition_size=log.size_bytes,
                offset_lag=_lag(log, manager),
                is_future_key=log.is_future,
            )
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=volume.f_blocks * volume.f_frsize,
        usable_bytes=volume.f_bavail * volume.f_frsize,
    )
