"""Describing groups at their coordinator, in the words of both protocols, as one kind of value.

As Java's admin client does (class `DescribeConsumerGroupsHandler`): ConsumerGroupDescribe for all, then
DescribeGroups for those that are no Consumer groups, or where the broker is too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.driver import error_of, request_once
from kcli.client.admin.types import CLASSIC, CONSUMER, GroupDescription, GroupMember
from kcli.client.network.connection import UnsupportedVersion
from kcli.protocol import consumer_protocol
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from kcli.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.client.network.metadata import Node
    from kcli.protocol.messages import consumer_group_describe, describe_groups

_NOT_A_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


async def describe_at(
    client: Client, coordinator: Node, group_ids: list[str]
) -> dict[str, GroupDescription | KafkaError]:
    """Return the groups that one broker coordinates, or why it does not describe them."""
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


# --- Consumer groups -------------------------------------------------------------------------------------


def _consumer_group(group: consumer_group_describe.DescribedGroup, coordinator: Node) -> GroupDescription:
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


# --- Classic groups --------------------------------------------------------------------------------------


def _classic_group(group: describe_groups.DescribedGroup, coordinator: Node) -> GroupDescription | KafkaError:
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
    # Not those of other programs, such as Connect: their bytes are their own.
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
