"""The records that classic groups and offsets are kept in, made from and turned into what is in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_group import ClassicGroup
from kcli.broker.coordinator.classic_member import ClassicMember, MemberProtocol
from kcli.broker.coordinator.classic_states import ClassicGroupState
from kcli.broker.coordinator.effects import CoordinatorRecord
from kcli.protocol.internal.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """Return the record of a group's generation; who is not in `assignments` has nothing assigned.

    Of what a member offers only the metadata for the chosen protocol is kept.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_since_ms is None else group.state_since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value)


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group that a record describes: empty, or stable with this generation's members."""
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
        state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        assigned_generation=value.generation,
    )
    for each in value.members:
        # No coordinator writes an id twice: of what is damaged the first one counts.
        if each.member_id not in group.members and each.group_instance_id not in group.static_members:
            group.add(_member_from_record(each, value.protocol or ""))
    if value.leader in group.members:
        group.leader_id = value.leader
    group.update_subscribed()
    return group


def _member_from_record(value: MemberMetadata, protocol_name: str) -> ClassicMember:
    timeout_ms = value.session_timeout if value.rebalance_timeout == -1 else value.rebalance_timeout
    return ClassicMember(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=timeout_ms,
        session_timeout_ms=value.session_timeout,
        protocols=(MemberProtocol(protocol_name, value.subscription),),
        assignment=value.assignment,
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """Return what deletes a group's offset of one partition."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
