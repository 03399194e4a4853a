"""AlterPartitionReassignments (key 45): reassign partitions to other replicas, or cancel that (KIP-455).

Version 1 can refuse reassignments that change the number of replicas of a partition (KIP-860).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, i16, i32, ignorable, message, string, struct, v


@struct
class ReassignablePartition:
    partition_index: i32
    replicas: list[i32] | None = None


@struct
class ReassignableTopic:
    name: string
    partitions: list[ReassignablePartition]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    allow_replication_factor_change: Annotated[boolean, v("1+")] = True
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    error_message: string | None = None


@struct
class ReassignableTopicResponse:
    name: string
    partitions: list[ReassignablePartitionResponse]


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    allow_replication_factor_change: Annotated[boolean, v("1+"), ignorable] = True
    error_code: i16 = 0
    error_message: string | None = None
    responses: list[ReassignableTopicResponse]
