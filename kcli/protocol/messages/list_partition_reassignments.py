"""ListPartitionReassignments (key 46): list the ongoing reassignments of partitions (KIP-455)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, message, string, struct


@struct
class ListPartitionReassignmentsTopics:
    name: string
    partition_indexes: list[i32]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    partition_index: i32
    replicas: list[i32]
    adding_replicas: list[i32]
    removing_replicas: list[i32]


@struct
class OngoingTopicReassignment:
    name: string
    partitions: list[OngoingPartitionReassignment]


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    topics: list[OngoingTopicReassignment]
