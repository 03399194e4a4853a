"""Admin calls about groups: list, describe, delete, remove members.

A description asks ConsumerGroupDescribe about all groups, then DescribeGroups about those that are not
consumer groups, or all if the broker is too old (Java's `DescribeConsumerGroupsHandler`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcli.client.admin.driver import (
    ask_about_group,
    ask_coordinators,
    ask_nodes,
    check,
    error_of,
    omitted,
    request_once,
    retry,
)
from kcli.client.admin.types import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupMember,
    MemberToRemove,
)
from kcli.client.network.connection import UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol import consumer_protocol
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kcli.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.network.metadata import Node
    from kcli.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
    from kcli.protocol.messages.describe_groups import DescribedGroup as DescribedClassicGroup

DEFAULT_REASON = "member was removed by an admin"
MAX_REASON_CHARACTERS = 255

_STATES_VERSION = 4
_TYPES_VERSION = 5
_SEVERAL_MEMBERS_VERSION = 3

_NOT_A_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


async def list_groups(
    client: Client,
    *,
    states: Collection[str] = (),
    types: Collection[str] = (),
    timeout_ms: int | None = None,
) -> GroupListings:
    """Return the groups of all brokers; `errors` has brokers that failed or are too old for a filter."""
    minimum = _TYPES_VERSION if _needs_filter(types) else _STATES_VERSION if states else 0

    def build(version: int) -> ListGroupsRequest:
        wanted = list(types) if version >= _TYPES_VERSION else []
        return ListGroupsRequest(states_filter=list(states), types_filter=wanted)

    async def ask(node_id: int) -> tuple[GroupListing, ...]:
        async def attempt(left_ms: int) -> tuple[GroupListing, ...] | KafkaError:
            response: ListGroupsResponse = await client.request_by_version(
                node_id, ListGroupsRequest, build, timeout_ms=left_ms, min_version=minimum
            )
            return error_of(response.error_code) or tuple(map(_listing, response.groups))

        return await retry(client, attempt, timeout_ms=timeout_ms)

    return _merged(await ask_nodes(client, None, ask))


def _merged(answers: Mapping[int, tuple[GroupListing, ...] | KcliError]) -> GroupListings:
    """Merge the listings; if two brokers list a group because it moves, the later one counts."""
    groups: dict[str, GroupListing] = {}
    errors: dict[int, KcliError] = {}
    for node_id, answer in answers.items():
        if isinstance(answer, KcliError):
            errors[node_id] = answer
        else:
            groups.update({group.group_id: group for group in answer})
    return GroupListings(tuple(groups.values()), errors)


def _needs_filter(types: Collection[str]) -> bool:
    """Return whether brokers must know the filter: older ones have only classic groups."""
    wanted = {name.lower() for name in types}
    return bool(wanted) and wanted not in ({"classic"}, {"classic", "consumer"})


def _listing(group: ListedGroup) -> GroupListing:
    return GroupListing(
        group.group_id, group.protocol_type, group.group_state or None, group.group_type.capitalize() or None
    )


async def describe_groups(
    client: Client, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, GroupDescription | KafkaError]:
    """Return each group or `GROUP_ID_NOT_FOUND`; brokers before 4.0 describe a missing one as Dead."""
    ask = partial(_describe_at, client)
    return await ask_coordinators(client, group_ids, ask=ask, timeout_ms=timeout_ms)


async def delete_groups(
    client: Client, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> dict[str, KafkaError | None]:
    """Delete groups with their offsets; a group with members is `NON_EMPTY_GROUP`."""

    async def ask(node: Node, groups: list[str]) -> dict[str, KafkaError | None]:
        request = DeleteGroupsRequest(groups_names=groups)
        response: DeleteGroupsResponse = await request_once(
            client, node, request_class=DeleteGroupsRequest, build=lambda version: request
        )
        return {result.group_id: error_of(result.error_code) for result in response.results}

    return await ask_coordinators(client, group_ids, ask=ask, timeout_ms=timeout_ms)


async def remove_members(
    client: Client,
    group_id: str,
    members: Collection[MemberToRemove] | None = None,
    *,
    reason: str = "",
    timeout_ms: int | None = None,
) -> dict[MemberToRemove, KafkaError | None]:
    """Remove members, or all, of a classic group; brokers before 2.4 remove only one dynamic member."""
    if members is None:
        members = await _all_members(client, group_id, timeout_ms)
    if not members:
        return {}
    leaving = list(members)
    why = reason or DEFAULT_REASON
    is_plain = len(leaving) == 1 and leaving[0].instance_id is None
    minimum = 0 if is_plain else _SEVERAL_MEMBERS_VERSION

    async def ask(coordinator: Node) -> dict[MemberToRemove, KafkaError | None]:
        response: LeaveGroupResponse = await request_once(
            client,
            coordinator,
            request_class=LeaveGroupRequest,
            build=lambda version: leave_request(group_id, leaving, why, version),
            min_version=minimum,
        )
        check(response.error_code)
        if not response.members and is_plain:
            # Older versions have one error for the request.
            return {leaving[0]: None}
        errors = {
            entry.group_instance_id or entry.member_id: error_of(entry.error_code)
            for entry in response.members
        }
        return {member: errors.get(member.instance_id or member.member_id, omitted()) for member in leaving}

    return await ask_about_group(client, group_id, ask=ask, timeout_ms=timeout_ms)


def leave_request(
    group_id: str, leaving: Sequence[MemberToRemove], why: str, version: int
) -> LeaveGroupRequest:
    """Return a LeaveGroup request; versions before 3 carry one member and no reason."""
    if version < _SEVERAL_MEMBERS_VERSION:
        return LeaveGroupRequest(group_id=group_id, member_id=leaving[0].member_id)
    members = [
        MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=why[:MAX_REASON_CHARACTERS])
        for member_id, instance_id in leaving
    ]
    return LeaveGroupRequest(group_id=group_id, members=members)


async def _all_members(client: Client, group_id: str, timeout_ms: int | None) -> list[MemberToRemove]:
    """Return all members, static ones by instance id alone, because their member id may change."""
    described = (await describe_groups(client, [group_id], timeout_ms=timeout_ms))[group_id]
    if isinstance(described, KafkaError):
        raise described
    return [
        MemberToRemove(member.member_id if member.instance_id is None else "", member.instance_id)
        for member in described.members
    ]


async def _describe_at(
    client: Client, coordinator: Node, group_ids: list[str]
) -> dict[str, GroupDescription | KafkaError]:
    """Return the descriptions of the groups of one coordinator, or their errors."""
    results: dict[str, GroupDescription | KafkaError] = {}
    try:
        request = ConsumerGroupDescribeRequest(group_ids=group_ids)
        response: ConsumerGroupDescribeResponse = await request_once(
            client, coordinator, request_class=ConsumerGroupDescribeRequest, build=lambda version: request
        )
    except UnsupportedVersion:
        classic = group_ids
    else:
        for group in response.groups:
            error = error_of(group.error_code, group.error_message)
            results[group.group_id] = error or _consumer_group(group, coordinator)
        classic = [group_id for group_id in group_ids if _may_be_classic(results.get(group_id))]
    if classic:
        results.update(await _describe_classic(client, coordinator, classic))
    return results


def _may_be_classic(result: GroupDescription | KafkaError | None) -> bool:
    return isinstance(result, KafkaError) and result.code in _NOT_A_CONSUMER_GROUP


async def _describe_classic(
    client: Client, coordinator: Node, group_ids: list[str]
) -> dict[str, GroupDescription | KafkaError]:
    request = DescribeGroupsRequest(groups=group_ids)
    response: DescribeGroupsResponse = await request_once(
        client, coordinator, request_class=DescribeGroupsRequest, build=lambda version: request
    )
    return {
        group.group_id: error_of(group.error_code, group.error_message) or _classic_group(group, coordinator)
        for group in response.groups
    }


def _consumer_group(group: DescribedConsumerGroup, coordinator: Node) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=CONSUMER,
        protocol_type=consumer_protocol.PROTOCOL_TYPE,
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(map(_consumer_member, group.members)),
        epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        subscribed_topics=tuple(member.subscribed_topic_names),
        rack_id=member.rack_id,
        target_assignment=_partitions(member.target_assignment),
        subscribed_regex=member.subscribed_topic_regex or None,
        epoch=member.member_epoch,
        is_classic=None if member.member_type < 0 else member.member_type == 0,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


def _classic_group(group: DescribedClassicGroup, coordinator: Node) -> GroupDescription | KafkaError:
    try:
        members = tuple(_classic_member(member, group.protocol_type) for member in group.members)
    except DecodeError as error:
        return KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"a member of group `{group.group_id}` has metadata that is not a consumer's: {error.message}",
        )
    return GroupDescription(
        group_id=group.group_id,
        type=CLASSIC,
        protocol_type=group.protocol_type,
        state=group.group_state,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=members,
    )


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    is_consumer = protocol_type == consumer_protocol.PROTOCOL_TYPE
    # Other programs, such as Connect, have their own metadata formats.
    subscription = consumer_protocol.decode_subscription(member.member_metadata if is_consumer else b"")
    assignment = consumer_protocol.decode_assignment(member.member_assignment if is_consumer else b"")
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=tuple(
            sorted(
                TopicPartition(topic, index)
                for topic, indexes in assignment.partitions.items()
                for index in indexes
            )
        ),
        subscribed_topics=subscription.topics,
        rack_id=subscription.rack_id,
    )
