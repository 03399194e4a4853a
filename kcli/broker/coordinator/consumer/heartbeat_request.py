"""ConsumerGroupHeartbeat: the checks of a request, and the member that it describes (KIP-848, KIP-1082)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.broker.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kcli.broker.coordinator.consumer.group import ConsumerGroup
    from kcli.broker.coordinator.consumer.member import ConsumerMember
    from kcli.broker.coordinator.group import ClientInfo
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

CLIENTS_MAKE_IDS_FROM = 1
NO_TIMEOUT = -1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that is invalid for any group."""
    epoch = request.member_epoch
    if version >= CLIENTS_MAKE_IDS_FROM or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH:
        _require(not _is_blank(request.member_id), "MemberId can't be empty")
    _require(not _is_blank(request.group_id), "GroupId can't be empty")
    _require(not _is_blank(request.instance_id), "InstanceId can't be empty")
    _require(not _is_blank(request.rack_id), "RackId can't be empty")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null")
    else:
        _require(epoch > STATIC_LEAVE_EPOCH, "MemberEpoch is invalid")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _require(
        request.rebalance_timeout_ms != NO_TIMEOUT, "RebalanceTimeoutMs must be provided in first request"
    )
    _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining")
    _require(
        request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining",
    )


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def owned_by(request: ConsumerGroupHeartbeatRequest) -> Mapping[bytes, Collection[int]] | None:
    """Return the partitions that the member owns, None if the request does not say."""
    if request.topic_partitions is None:
        return None
    owned: dict[bytes, set[int]] = {}
    for entry in request.topic_partitions:
        owned.setdefault(entry.topic_id, set()).update(entry.partitions)
    return owned


def updated_by(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
) -> ConsumerMember:
    """Return the member updated from its request; the same object if nothing changed."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    assignor, rack_id, timeout_ms = request.server_assignor, request.rack_id, request.rebalance_timeout_ms
    says_nothing = names is None and regex is None and assignor is None and rack_id is None
    if says_nothing and timeout_ms == NO_TIMEOUT:
        is_known = request.instance_id is None or request.instance_id == member.instance_id
        is_same = (client.client_id, client.host) == (member.client_id, member.client_host)
        if is_known and is_same and member.classic is None:
            return member
    said = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if rack_id is None else rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        client_id=client.client_id,
        client_host=client.host,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        assignor=member.assignor if assignor is None else assignor,
        classic=None,
    )
    return member if said == member else said


def check_epoch(member: ConsumerMember, epoch: int, owned: Mapping[bytes, Collection[int]] | None) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member that must start again.

    A member that missed the last response may send its previous epoch, if it owns no partition that was
    revoked.
    """
    if epoch == JOIN_EPOCH or epoch == member.epoch:
        return
    missed_the_response = epoch == member.previous_epoch < member.epoch
    has_no_more = owned is not None and all(
        topic_id in member.assigned and member.assigned[topic_id].keys() >= set(partitions)
        for topic_id, partitions in owned.items()
    )
    if not (missed_the_response and has_no_more):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"the member is in epoch {member.epoch}, not {epoch}; "
            "it must give up all its partitions and join again",
        )


def known_static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the member with an instance id; raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"the instance id is unknown: `{instance_id}`")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance id `{instance_id}` is that of member `{member.member_id}` now, not of `{member_id}`",
        )
    return member


def check_released(member: ConsumerMember) -> None:
    """Raise UNRELEASED_INSTANCE_ID unless the static member left (-2), even for the same member id."""
    if member.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"instance id `{member.instance_id}` is in use by member `{member.member_id}`",
        )


def refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def assignment_of(member: ConsumerMember) -> Assignment:
    """Return the partitions that a member may use now."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
            for topic_id in sorted(member.assigned)
        ]
    )
