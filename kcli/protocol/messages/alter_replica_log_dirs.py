"""AlterReplicaLogDirs (key 34): move replicas of a broker between its log directories (KIP-113).

From version 1 a broker answers before it throttles; version 2 is flexible.
"""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: string
    partitions: list[i32]


@struct
class AlterReplicaLogDir:
    path: string
    topics: list[AlterReplicaLogDirTopic]


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: i32
    error_code: i16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: string
    partitions: list[AlterReplicaLogDirPartitionResult]


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: i32 = 0
    results: list[AlterReplicaLogDirTopicResult]
