"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups whose coordinator assigns (KIP-848).

* One heartbeat joins, leaves, reports what a member owns and brings what it is to own.
* Describing shows what members have and what they are to have. An empty group id is INVALID_GROUP_ID.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.consumer_description import not_described
from kcli.broker.handlers.described_groups import describe_each
from kcli.broker.handlers.groups import client_info
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kcli.broker.coordinator.effects import Now
    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.coordinator.waiting import Answer
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Answer:
    """Let a member join, stay, reconcile or leave."""
    version, client = context.api_version, client_info(context)
    response: ConsumerGroupHeartbeatResponse | Answer = context.broker.groups.ask_for(
        request.group_id,
        lambda shard, now, token: shard.consumer_group_heartbeat(now, token, request, version, client),
    )
    return response


def failed_consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, error: KafkaError
) -> ConsumerGroupHeartbeatResponse:
    """Answer with an error."""
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    """Answer with epochs, assignor and members of each group."""
    groups = describe_each(
        context,
        request.group_ids,
        describe=_describe,
        refused=not_described,
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(shard: GroupCoordinator, now: Now, group_id: str) -> DescribedGroup:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    (group,) = shard.consumer_group_describe(now, [group_id])
    return group


def failed_consumer_group_describe(
    request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    """Answer every group with the same error."""
    return ConsumerGroupDescribeResponse(
        groups=[not_described(group_id, error) for group_id in request.group_ids]
    )
