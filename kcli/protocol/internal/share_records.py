"""Records of share groups (KIP-932), which kcli only reads.

Types 10 to 15 stand in `__consumer_offsets`, types 0 and 1 (snapshots and updates) in `__share_group_state`.
One class per published schema, as in `coordinator_records`.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i8, i16, i32, i64, ignorable, record, string, struct, tag, uuid


@record(type=10, versions="0")
class ShareGroupMemberMetadataKey:
    group_id: string
    member_id: string


@record(type=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]


@record(type=11, versions="0")
class ShareGroupMetadataKey:
    group_id: string


@record(type=11, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    """The group's epoch, and a hash of the metadata of its topics."""

    epoch: i32
    metadata_hash: i64


@record(type=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: string


@record(type=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target was computed, and when that was done."""

    assignment_epoch: i32
    assignment_timestamp: Annotated[i64, tag(0), ignorable] = 0


@record(type=13, versions="0")
class ShareGroupTargetAssignmentMemberKey:
    group_id: string
    member_id: string


@struct
class SharePartitions:
    """Partitions of a topic (published as `TopicPartition` and `TopicPartitions`)."""

    topic_id: uuid
    partitions: list[i32]


@record(type=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[SharePartitions]


@record(type=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: string
    member_id: string


@record(type=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    """The partitions, epoch and state of a member."""

    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: list[SharePartitions]


@record(type=15, versions="0")
class ShareGroupStatePartitionMetadataKey:
    """The partitions for which a group keeps state."""

    group_id: string


@struct
class TopicPartitionsInfo:
    topic_id: uuid
    topic_name: string
    partitions: list[i32]


@struct
class TopicInfo:
    topic_id: uuid
    topic_name: string


@record(type=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    """The partitions whose state is being initialized, exists, or is being deleted."""

    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]


SHARE_GROUP_RECORDS: dict[int, tuple[type, type]] = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}


@struct
class StateBatch:
    """Records in the same state."""

    first_offset: i64
    last_offset: i64
    delivery_state: i8
    delivery_count: i16


@record(type=0, versions="0")
class ShareSnapshotKey:
    """The key of a snapshot of a partition's state in a group."""

    group_id: string
    topic_id: uuid
    partition: i32


@record(type=0, versions="0", flexible="0+")
class ShareSnapshotValue:
    """The whole state."""

    snapshot_epoch: i32
    state_epoch: i32
    leader_epoch: i32
    start_offset: i64
    delivery_complete_count: Annotated[i32, tag(0)] = -1
    create_timestamp: i64
    write_timestamp: i64
    state_batches: list[StateBatch]


@record(type=1, versions="0")
class ShareUpdateKey:
    group_id: string
    topic_id: uuid
    partition: i32


@record(type=1, versions="0", flexible="0+")
class ShareUpdateValue:
    """The changed part of the state."""

    snapshot_epoch: i32
    leader_epoch: i32
    start_offset: i64
    delivery_complete_count: Annotated[i32, tag(0)] = -1
    state_batches: list[StateBatch]


SHARE_STATE_RECORDS: dict[int, tuple[type, type]] = {
    0: (ShareSnapshotKey, ShareSnapshotValue),
    1: (ShareUpdateKey, ShareUpdateValue),
}
