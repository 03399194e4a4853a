"""Groups as their records describe them, in the shape in which the views want them. Pure.

A record says what was stored last, and not whether it is still so: the state is the one that a coordinator
has right after it has read the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.commands.groups.head import GroupHead
from kcli.commands.groups.history import (
    ConsumerState,
    GroupHistory,
    TopicNames,
    classic_member,
    named_assignment,
)
from kcli.commands.groups.lag import Committed, Owner, Partition, partition_rows
from kcli.commands.groups.listing import GroupRow
from kcli.commands.groups.members_view import GroupMembers, MemberRow
from kcli.commands.groups.offsets_view import GroupOffsets
from kcli.protocol.internal.coordinator_records import MemberMetadata


def listing_row(group: GroupHistory) -> GroupRow:
    """Return a group as it is listed."""
    head = head_of(group)
    return GroupRow(group.group, head.type, head.state, protocol_type(group))


def protocol_type(group: GroupHistory) -> str:
    """Return who is in the group: "" for nobody ever."""
    if group.consumer is not None:
        return "consumer"
    return group.classic.protocol_type if group.classic is not None else ""


def head_of(group: GroupHistory) -> GroupHead:
    """Return what every view of a group begins with."""
    state = group.consumer
    if state is not None:
        return GroupHead(
            group.group,
            "Consumer",
            consumer_state(state),
            None,
            None,
            state.epoch,
            state.target_epoch,
            len(state.members),
        )
    members = group.classic.members if group.classic is not None else []
    assignor = group.classic.protocol if group.classic is not None else None
    return GroupHead(
        group.group, "Classic", "Stable" if members else "Empty", None, assignor, None, None, len(members)
    )


def consumer_state(state: ConsumerState) -> str:
    """Return the state of a group of the consumer protocol (KIP-848)."""
    if not state.members:
        return "Empty"
    if state.target_epoch < state.epoch:
        return "Assigning"
    epochs = {state.current[member].member_epoch for member in state.members if member in state.current}
    return "Stable" if epochs == {state.epoch} else "Reconciling"


def members_of(group: GroupHistory, names: TopicNames) -> GroupMembers:
    """Return a group with its members; `names` knows topics by their ids."""
    if group.consumer is not None:
        state = group.consumer
        rows = [consumer_member_row(member_id, state, names) for member_id in state.members]
    elif group.classic is not None:
        rows = [classic_row(member, group.classic.protocol_type) for member in group.classic.members]
    else:
        rows = []
    return GroupMembers(head_of(group), rows)


def classic_row(member: MemberMetadata, kind: str) -> MemberRow:
    """Return a member of a classic group."""
    past = classic_member(member, kind)
    count = sum(map(len, past.assignment.values()))
    return MemberRow(
        past.member_id,
        past.instance_id,
        past.host,
        past.client_id,
        count,
        None,
        past.assignment,
        None,
        None,
        None,
    )


def consumer_member_row(member_id: str, state: ConsumerState, names: TopicNames) -> MemberRow:
    """Return a member of a group of the consumer protocol."""
    member, current = state.members[member_id], state.current.get(member_id)
    assignment = named_assignment(current.assigned_partitions if current else [], names)
    return MemberRow(
        member_id,
        member.instance_id,
        member.client_host,
        member.client_id,
        sum(map(len, assignment.values())),
        current.member_epoch if current else None,
        assignment,
        state.target_epoch,
        named_assignment(state.targets.get(member_id, []), names),
        member.classic_member_metadata is None,
        member.rack_id,
    )


def partitions_of(groups: Iterable[GroupHistory], names: TopicNames) -> set[Partition]:
    """Return the partitions that groups own or committed offsets of."""
    found: set[Partition] = set()
    for group in groups:
        found.update(group.offsets)
        for owner in owners_of(members_of(group, names)):
            found.update(owner.partitions)
    return found


def offsets_of(
    group: GroupHistory, names: TopicNames, ranges: Mapping[Partition, tuple[int, int]]
) -> GroupOffsets:
    """Return a group with its partitions; `ranges` has their first and end offsets."""
    committed = {
        partition: Committed(commit.offset, commit.leader_epoch, commit.metadata)
        for partition, commit in group.offsets.items()
        if commit.offset is not None
    }
    ends = {partition: end for partition, (_, end) in ranges.items()}
    return GroupOffsets(head_of(group), partition_rows(owners_of(members_of(group, names)), committed, ends))


def owners_of(group: GroupMembers) -> list[Owner]:
    """Return the members that have partitions."""
    return [
        Owner(
            member.consumer_id,
            member.host,
            member.client_id,
            [(topic, index) for topic, indexes in member.assignment.items() for index in indexes],
        )
        for member in group.members
        if member.partition_count
    ]
