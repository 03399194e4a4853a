"""The records that consumer groups are kept in (types 3 to 8 and 16), made from what is to be in memory.

Whatever has no order of its own is written sorted, so that equal states are equal bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import CoordinatorRecord
from kcli.protocol.internal.coordinator_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.broker.coordinator.consumer_member import ConsumerMember, Owned
    from kcli.broker.coordinator.resolved_regex import ResolvedRegex


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return what a member said of itself."""
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return CoordinatorRecord(_member_key(group_id, member.member_id), value)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the group's epoch, and the hash of its topics that it was made for."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def target_record(group_id: str, member_id: str, target: Mapping[bytes, frozenset[int]]) -> CoordinatorRecord:
    """Return what a member is to get."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(target[topic_id]))
            for topic_id in sorted(target)
        ]
    )
    return CoordinatorRecord(_target_key(group_id, member_id), value)


def target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> CoordinatorRecord:
    """Return for which epoch the target was computed, and when."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=wall_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return what a member has, and how far it came."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_current(member.assigned),
        partitions_pending_revocation=_current(member.revoking),
    )
    return CoordinatorRecord(_assignment_key(group_id, member.member_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Return which topics an expression matched."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.wall_ms
    )
    return CoordinatorRecord(_regex_key(group_id, regex), value)


# --- tombstones ------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return what deletes a member; in this order, on which Kafka insists when it reads them."""
    return [
        CoordinatorRecord(_assignment_key(group_id, member_id), None),
        CoordinatorRecord(_target_key(group_id, member_id), None),
        CoordinatorRecord(_member_key(group_id, member_id), None),
    ]


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Return what deletes an expression that nobody subscribes with any more."""
    return CoordinatorRecord(_regex_key(group_id, regex), None)


def topics_tombstone(group_id: str) -> CoordinatorRecord:
    """Return what deletes the record of topics that Kafka wrote before 4.1."""
    return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def group_tombstones(
    group_id: str, member_ids: Iterable[str], regexes: Iterable[str]
) -> list[CoordinatorRecord]:
    """Return what deletes a group with all its members, in the order in which Kafka can read it."""
    member_ids = sorted(member_ids)
    return [
        *(CoordinatorRecord(_assignment_key(group_id, member_id), None) for member_id in member_ids),
        *(CoordinatorRecord(_target_key(group_id, member_id), None) for member_id in member_ids),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(CoordinatorRecord(_member_key(group_id, member_id), None) for member_id in member_ids),
        *(regex_tombstone(group_id, regex) for regex in sorted(regexes)),
        topics_tombstone(group_id),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def _member_key(group_id: str, member_id: str) -> ConsumerGroupMemberMetadataKey:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)


def _target_key(group_id: str, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def _assignment_key(group_id: str, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)


def _regex_key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


def _current(owned: Owned) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[owned[topic_id][partition] for partition in sorted(owned[topic_id])],
        )
        for topic_id in sorted(owned)
    ]
