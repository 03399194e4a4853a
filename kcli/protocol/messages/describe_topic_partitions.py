"""DescribeTopicPartitions (key 75): describe topics page by page, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import boolean, i16, i32, message, string, struct, uuid


@struct
class TopicRequest:
    name: string


@struct
class Cursor:
    topic_name: string
    partition_index: i32


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest]
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: i16 = 0
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = -1
    replica_nodes: list[i32]
    isr_nodes: list[i32]
    eligible_leader_replicas: list[i32] | None = None
    last_known_elr: list[i32] | None = None
    offline_replicas: list[i32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: i16 = 0
    name: string | None
    topic_id: uuid
    is_internal: boolean = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: i32 = -2147483648


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: i32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
