"""Records of streams groups (KIP-1071) in `__consumer_offsets`, types 17 to 23, which kcli only reads.

One class per published schema, as in `coordinator_records`.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    fresh,
    i8,
    i16,
    i32,
    i64,
    ignorable,
    record,
    string,
    struct,
    tag,
    u16,
)


@struct
class KeyValue:
    """A name and its value (published as `KeyValue`, `LastAssignmentConfig` and `TopicConfig`)."""

    key: string
    value: string


@record(type=17, versions="0")
class StreamsGroupMetadataKey:
    group_id: string


@record(type=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    """The group's epoch, the hash of its metadata and its configuration."""

    epoch: i32
    metadata_hash: i64
    validated_topology_epoch: Annotated[i32, tag(0)] = -1
    last_assignment_configs: Annotated[list[KeyValue] | None, tag(1)] = None


@record(type=19, versions="0")
class StreamsGroupMemberMetadataKey:
    group_id: string
    member_id: string


@struct
class Endpoint:
    """The endpoint at which an instance answers queries."""

    host: string
    port: u16


@record(type=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: i32 = -1
    topology_epoch: i32
    process_id: string
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue]


@record(type=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: string


@record(type=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target was computed, and when that was done."""

    assignment_epoch: i32
    assignment_timestamp: Annotated[i64, tag(0), ignorable] = 0


@record(type=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: string
    member_id: string


@struct
class TargetTaskIds:
    """Tasks of a subtopology in a target assignment (published as `TaskIds`)."""

    subtopology_id: string
    partitions: list[i32]


@record(type=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TargetTaskIds]
    standby_tasks: list[TargetTaskIds]
    warmup_tasks: list[TargetTaskIds]


@record(type=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: string
    member_id: string


@struct
class TaskIds:
    """Tasks of a subtopology, and the epoch in which the member got each."""

    subtopology_id: string
    partitions: list[i32]
    assignment_epochs: Annotated[list[i32] | None, tag(0)] = None


@record(type=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    """The tasks and epoch of a member, its state, and the tasks it must still revoke."""

    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]


@record(type=23, versions="0")
class StreamsGroupTopologyKey:
    group_id: string


@struct
class StreamsTopicInfo:
    """An internal topic (published as `TopicInfo`)."""

    name: string
    partitions: i32
    replication_factor: i16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    """Topics that must have the same number of partitions, by their index in the lists."""

    source_topics: list[i16]
    source_topic_regex: list[i16]
    repartition_source_topics: list[i16]


@struct
class Subtopology:
    """A part of the topology that is not connected to the others."""

    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[StreamsTopicInfo] = fresh(list)
    repartition_sink_topics: list[string]
    repartition_source_topics: list[StreamsTopicInfo] = fresh(list)
    copartition_groups: list[CopartitionGroup] = fresh(list)


@record(type=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    """The subtopologies of a group."""

    epoch: i32
    subtopologies: list[Subtopology]


STREAMS_GROUP_RECORDS: dict[int, tuple[type, type]] = {
    17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}
