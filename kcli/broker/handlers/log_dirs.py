"""DescribeLogDirs: log directories and the replicas in them (KIP-113, KIP-827).

Null topics are all. A directory out of service is KAFKA_STORAGE_ERROR and lists nothing. A replica's lag is
how far its log end lies behind the high watermark; for a future replica, behind the current one's log end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
    from kcli.storage.log_directory import LogDirectory
    from kcli.storage.unified_log import UnifiedLog


def describe_log_dirs(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Answer with every directory."""
    manager = context.broker.log_manager
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs: dict[str, list[UnifiedLog]] = {}
    for log in manager:
        name = log.topic_partition
        if wanted is None or (name.topic, name.partition) in wanted:
            logs.setdefault(log.parent_directory, []).append(log)
    return DescribeLogDirsResponse(
        results=[_describe(directory, logs.get(directory.path, [])) for directory in manager.directories]
    )


def failed(request: DescribeLogDirsRequest, error: KafkaError) -> DescribeLogDirsResponse:
    """Answer with an error for the response as a whole."""
    return DescribeLogDirsResponse(error_code=error.code, results=[])


def _describe(directory: LogDirectory, logs: list[UnifiedLog]) -> DescribeLogDirsResult:
    if not directory.is_online:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in sorted(logs, key=lambda log: (log.topic_partition.topic, log.topic_partition.partition)):
        name = log.topic_partition.topic
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = DescribeLogDirsTopic(name=name, partitions=[])
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.topic_partition.partition,
                partition_size=log.size_bytes,
                offset_lag=max(0, log.high_watermark - log.log_end_offset),
                is_future_key=log.is_future,
            )
        )
    total_bytes = usable_bytes = -1
    try:
        volume = os.statvfs(directory.path)
        total_bytes = volume.f_blocks * volume.f_frsize
        usable_bytes = volume.f_bavail * volume.f_frsize
    except OSError:
        return DescribeLogDirsResult(
            error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path, topics=[]
        )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
