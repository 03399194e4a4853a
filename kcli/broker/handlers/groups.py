"""Groups: the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup; ListGroups, DescribeGroups,
DeleteGroups) and that of KIP-848 (ConsumerGroupHeartbeat, ConsumerGroupDescribe).

* A request for a group goes to the shard of its partition. A broker that is not the coordinator replies
  NOT_COORDINATOR, one that still loads the partition COORDINATOR_LOAD_IN_PROGRESS; but a classic heartbeat
  gets no error then, so that members stay.
* An empty group id is INVALID_GROUP_ID in requests of members and in ConsumerGroupDescribe. A classic group
  without a name can be described and deleted, because offsets can be committed without a name.
* ListGroups lists the groups of the broker that is asked; it fails while any of its partitions is loading.
  Filters ignore case, and an unknown state or type matches nothing.
* A ConsumerGroupHeartbeat joins, leaves, reports the partitions a member owns and brings its assignment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kcli.broker.coordinator.consumer.group_manager import not_described
from kcli.broker.coordinator.group import ClientInfo
from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
from kcli.broker.network.authorization import (
    authorize_group,
    authorize_groups,
    authorize_topics,
    authorized_operations,
    is_cluster_authorized,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kcli.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kcli.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.list_groups import ListGroupsResponse
from kcli.security.acl import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.coordinator.group_service import GroupRuntime
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from kcli.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
    from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
    from kcli.protocol.messages.heartbeat import HeartbeatRequest
    from kcli.protocol.messages.join_group import JoinGroupRequest
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kcli.protocol.messages.list_groups import ListGroupsRequest
    from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


PROTOCOL_IS_MANDATORY_FROM = 5
"""The first version of SyncGroup that names the protocol."""

JOIN_HAS_NULL_FROM = 7
"""The first version of JoinGroup whose protocol name may be null."""


class Described(Protocol):
    """A group of either kind in a response."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)


def _describe_each(
    context: RequestContext,
    group_ids: Iterable[str],
    *,
    describe: Callable[[GroupCoordinator, Now, str], D],
    refused: Callable[[str, KafkaError], D],
    with_operations: bool,
) -> list[D]:
    """Return each group as its shard describes it, or what `refused` makes of the error."""
    runtime = context.node.groups
    groups: list[D] = []
    for group_id in group_ids:
        try:
            authorize_group(context, Operation.DESCRIBE, group_id)
            group = describe(runtime.shard(runtime.partition_for(group_id)), runtime.now(), group_id)
        except KafkaError as error:
            group = refused(group_id, error)
        if with_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = authorized_operations(context, ResourceType.GROUP, group_id)
        groups.append(group)
    return groups


def _client(context: RequestContext) -> ClientInfo:
    hidden = None
    if context.access is not None:
        hidden = partial(authorize_topics, context, Operation.DESCRIBE, hides=True)
    return ClientInfo(context.client_id, f"/{context.peer_address}", hidden)


def join_group(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | CoordinatorResponse:
    """Let a client join; the response waits for the other members."""
    version, client = context.api_version, _client(context)
    shape = _without_protocol if version >= JOIN_HAS_NULL_FROM else None
    try:
        _check_member(context, request.group_id)
        response: JoinGroupResponse | CoordinatorResponse = context.node.groups.ask_for(
            request.group_id,
            lambda shard, now, token: shard.join_group(now, token, request, version, client),
            shape,
        )
    except KafkaError as error:
        refused = failed_join_group(request, error)
        return refused if shape is None else shape(refused)
    return response


def _without_protocol(response: JoinGroupResponse) -> JoinGroupResponse:
    """Say null where there is no protocol, as Kafka's JoinGroupResponse does in versions that can."""
    response.protocol_name = response.protocol_name or None
    return response


def failed_join_group(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, protocol_name="", leader="", member_id=request.member_id, members=[]
    )


def sync_group(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse | CoordinatorResponse:
    """Return the assignment of a member; the response waits for the leader of the group."""
    version = context.api_version
    if version >= PROTOCOL_IS_MANDATORY_FROM and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _check_member(context, request.group_id)
    response: SyncGroupResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id, lambda shard, now, token: shard.sync_group(now, token, request, version)
    )
    return response


def heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse | CoordinatorResponse:
    """Keep a member alive, and tell it of a rebalance."""
    _check_member(context, request.group_id)
    response: HeartbeatResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id, lambda shard, now, token: shard.heartbeat(now, token, request)
    )
    return response


def failed_heartbeat(request: HeartbeatRequest, error: KafkaError) -> HeartbeatResponse:
    loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error.code)


def leave_group(
    request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | CoordinatorResponse:
    """Remove members, given by member id or by instance id."""
    _check_member(context, request.group_id)
    version = context.api_version
    response: LeaveGroupResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id, lambda shard, now, token: shard.leave_group(now, token, request, version)
    )
    return response


def _check_member(context: RequestContext, group_id: str) -> None:
    """Raise `KafkaError` unless the client may be a member of a group with this id."""
    authorize_group(context, Operation.READ, group_id)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def list_groups(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Return the groups of this broker that are in the states and of the types asked for."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [
        group
        for shard in list(context.node.groups.shards())
        for group in shard.list_groups()
        if (not states or group.group_state.lower() in states)
        and (not types or group.group_type.lower() in types)
    ]
    if not is_cluster_authorized(context, Operation.DESCRIBE):
        hidden = authorize_groups(context, Operation.DESCRIBE, (group.group_id for group in groups))
        groups = [group for group in groups if group.group_id not in hidden]
    return ListGroupsResponse(groups=groups)


def describe_groups(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Return state, protocol and members of each group."""
    groups = _describe_each(
        context,
        request.groups,
        describe=lambda shard, now, name: shard.describe_groups(now, [name], context.api_version)[0],
        refused=_not_described,
        with_operations=request.include_authorized_operations,
    )
    return DescribeGroupsResponse(groups=groups)


def failed_describe_groups(request: DescribeGroupsRequest, error: KafkaError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_not_described(group_id, error) for group_id in request.groups])


def _not_described(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=[],
    )


def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | Coroutine[Any, Any, DeleteGroupsResponse]:
    """Delete groups without members, and their offsets."""
    runtime = context.node.groups
    by_partition: dict[int, list[str]] = {}
    denied = authorize_groups(context, Operation.DELETE, request.groups_names)
    for group_id in dict.fromkeys(request.groups_names):
        if group_id not in denied:
            by_partition.setdefault(runtime.partition_for(group_id), []).append(group_id)
    replies = [_delete(runtime, index, group_ids) for index, group_ids in by_partition.items()]
    if denied:
        replies.append(_not_deleted(sorted(denied), KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    if any(isinstance(reply, CoordinatorResponse) for reply in replies):
        return _gather_deleted(runtime, replies)
    return DeleteGroupsResponse(results=[result for results in replies for result in results])


def _delete(runtime: GroupRuntime, index: int, group_ids: list[str]) -> Any:  # noqa: ANN401 - as `ask`
    try:
        return runtime.ask(index, lambda shard, now, token: shard.delete_groups(now, token, group_ids))
    except KafkaError as error:
        return _not_deleted(group_ids, error)


async def _gather_deleted(runtime: GroupRuntime, replies: list[Any]) -> DeleteGroupsResponse:
    results: list[DeletableGroupResult] = []
    for reply in replies:
        results += await runtime.wait(reply) if isinstance(reply, CoordinatorResponse) else reply
    return DeleteGroupsResponse(results=results)


def failed_delete_groups(request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=_not_deleted(request.groups_names, error))


def _not_deleted(group_ids: list[str], error: KafkaError) -> list[DeletableGroupResult]:
    return [
        DeletableGroupResult(group_id=group_id, error_code=error.code)
        for group_id in dict.fromkeys(group_ids)
    ]


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | CoordinatorResponse:
    """Let a member join, stay, reconcile or leave."""
    authorize_group(context, Operation.READ, request.group_id)
    if authorize_topics(context, Operation.DESCRIBE, request.subscribed_topic_names or ()):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    version, client = context.api_version, _client(context)
    response: ConsumerGroupHeartbeatResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id,
        lambda shard, now, token: shard.consumer_group_heartbeat(now, token, request, version, client),
    )
    return response


def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Return epochs, assignor and members of each group."""
    groups = _describe_each(
        context,
        request.group_ids,
        describe=partial(_describe, context),
        refused=not_described,
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext, shard: GroupCoordinator, now: Now, group_id: str
) -> DescribedConsumerGroup:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    (group,) = shard.consumer_group_describe(now, [group_id])
    assigned = (
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    )
    if authorize_topics(context, Operation.DESCRIBE, assigned):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return group


def failed_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[not_described(group_id, error) for group_id in request.group_ids]
    )
