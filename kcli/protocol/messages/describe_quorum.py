"""DescribeQuorum (key 55): list the replicas of the metadata log and their log ends (KIP-595).

Version 1 adds when a replica last fetched and was last caught up (KIP-836), version 2 error messages,
directories and endpoints (KIP-853).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    fresh,
    i16,
    i32,
    i64,
    ignorable,
    message,
    nullable,
    string,
    struct,
    u16,
    uuid,
    v,
)


@struct
class QuorumPartition:
    partition_index: i32


@struct
class QuorumTopic:
    topic_name: string
    partitions: list[QuorumPartition]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[QuorumTopic]


@struct
class ReplicaState:
    """One replica of the log. Unknown offsets and times are -1."""

    replica_id: i32
    replica_directory_id: Annotated[uuid, v("2+")] = bytes(16)
    log_end_offset: i64
    last_fetch_timestamp: Annotated[i64, v("1+"), ignorable] = -1
    last_caught_up_timestamp: Annotated[i64, v("1+"), ignorable] = -1


@struct
class DescribedPartition:
    partition_index: i32
    error_code: i16 = 0
    error_message: Annotated[string | None, v("2+"), nullable("2+"), ignorable] = None
    leader_id: i32 = -1
    leader_epoch: i32 = -1
    high_watermark: i64 = -1
    current_voters: list[ReplicaState] = fresh(list)
    observers: list[ReplicaState] = fresh(list)


@struct
class DescribedTopic:
    topic_name: string
    partitions: list[DescribedPartition]


@struct
class QuorumListener:
    name: string
    host: string
    port: u16


@struct
class QuorumNode:
    node_id: i32
    listeners: list[QuorumListener]


@message(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: i16 = 0
    error_message: Annotated[string | None, v("2+"), nullable("2+"), ignorable] = None
    topics: list[DescribedTopic] = fresh(list)
    nodes: Annotated[list[QuorumNode], v("2+")] = fresh(list)
