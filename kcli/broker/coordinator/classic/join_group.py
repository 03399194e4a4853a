"""JoinGroup for classic groups (Kafka class `GroupMetadataManager`, its methods `classicGroupJoin…`).

A client without a member id is new. A dynamic member first gets its id and then joins with it
(MEMBER_ID_REQUIRED, KIP-394, from version 4), so that a client that misses the response leaves no member
behind. A static member (KIP-345) that returns replaces its former self.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import (
    ClassicGroupState,
    ClassicMember,
    MemberProtocol,
    session_key,
)
from kcli.broker.coordinator.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    accept_join,
    complete_if_joined,
    drop_member,
    prepare,
    rebalance,
    refuse_join,
    refuse_parked,
)
from kcli.broker.coordinator.effects import Append, Effect, Schedule
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.classic.group import ClassicGroup
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import ClientInfo
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.join_group import JoinGroupRequest


SKIP_ASSIGNMENT_FROM = 9
MEMBER_ID_REQUIRED_FROM = 4


@dataclass(frozen=True, slots=True)
class JoinContext:
    """One JoinGroup request with its context, for both kinds of groups; `new_id` returns a unique text."""

    now: Now
    token: Token
    request: JoinGroupRequest
    version: int
    client: ClientInfo
    config: GroupConfig
    new_id: Callable[[], str]

    @property
    def has_valid_session(self) -> bool:
        config = self.config
        session_ms = self.request.session_timeout_ms
        return config.min_session_timeout_ms <= session_ms <= config.max_session_timeout_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to join again; version 0 uses the session timeout."""
        return self.request.session_timeout_ms if self.version == 0 else self.request.rebalance_timeout_ms

    @property
    def lacks_id(self) -> bool:
        """True for a new dynamic member that must join again with the id it gets (KIP-394)."""
        is_new = not self.request.member_id and self.request.group_instance_id is None
        return is_new and self.version >= MEMBER_ID_REQUIRED_FROM

    def refuse(self, error: ErrorCode) -> list[Effect]:
        """Answer with an error and the member id of the request."""
        return refuse_join(self.token, error, self.request.member_id)


def join_group(join: JoinContext, group: ClassicGroup) -> list[Effect]:
    """Join a group, which may be a new and empty one."""
    request = join.request
    if group.state is ClassicGroupState.DEAD:
        return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not _has_room(group, request.member_id, join.config.max_size):
        return _turn_away(join, group)
    if not group.supports(request.protocol_type, {each.name for each in request.protocols}):
        return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id:
        return _join_with_id(join, group)
    return _join_without_id(join, group)


def _has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Return whether the group takes this member.

    During a rebalance the members that have joined count, not all members: if the limit was lowered, the last
    ones to join are refused.
    """
    member = group.members.get(member_id)
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            joined = member is not None and member.awaiting_join is not None
            return joined or group.awaiting_joins < max_size
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return member is not None or len(group.members) < max_size
        case _:
            return True


def _turn_away(join: JoinContext, group: ClassicGroup) -> list[Effect]:
    effects = refuse_join(join.token, ErrorCode.GROUP_MAX_SIZE_REACHED)
    member_id = join.request.member_id
    if (member := group.members.get(member_id)) is not None:
        effects += drop_member(group, member)
    elif member_id in group.pending:
        group.remove(member_id)
        effects += group.end_session(member_id)
    else:
        return effects
    return effects + complete_if_joined(join.now, group)


def _join_without_id(join: JoinContext, group: ClassicGroup) -> list[Effect]:
    instance_id = join.request.group_instance_id
    if instance_id is not None:
        member_id = f"{instance_id}-{join.new_id()}"
        former_id = group.static_members.get(instance_id)
        if former_id is not None:
            return _return_as(join, group, former_id=former_id, new_id=member_id)
        return _add(join, group, member_id)
    member_id = f"{join.client.client_id}-{join.new_id()}"
    if not join.lacks_id:
        return _add(join, group, member_id)
    timeout_ms = join.request.session_timeout_ms
    group.pending[member_id] = join.now.ms + timeout_ms
    return [
        Schedule(session_key(group.group_id, member_id), timeout_ms),
        *refuse_join(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id),
    ]


def _member(join: JoinContext, member_id: str) -> ClassicMember:
    request = join.request
    return ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=join.client.client_id,
        client_host=join.client.host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=tuple(MemberProtocol(each.name, each.metadata) for each in request.protocols),
    )


def _add(join: JoinContext, group: ClassicGroup, member_id: str) -> list[Effect]:
    member = _member(join, member_id)
    member.is_new = True
    if not group.members:
        group.protocol_type = join.request.protocol_type
    if group.initial_delay_left_ms is not None:
        group.new_member_added = True
    group.add(member)
    group.park_join(member, join.token)
    effects = group.arm_session(join.now, member, timeout_ms=NEW_MEMBER_JOIN_TIMEOUT_MS)
    return effects + rebalance(join.now, group, join.config)


def _join_with_id(join: JoinContext, group: ClassicGroup) -> list[Effect]:
    request = join.request
    if request.member_id in group.pending and request.group_instance_id is None:
        return _add(join, group, request.member_id)
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return join.refuse(error)
    member = group.members[request.member_id]
    if _needs_rebalance(group, member, _member(join, member.member_id)):
        return _park(join, group, member) + rebalance(join.now, group, join.config)
    # It may have missed the first response.
    return accept_join(join.token, group, member)


def _needs_rebalance(group: ClassicGroup, member: ClassicMember, update: ClassicMember) -> bool:
    """Return whether this join needs a rebalance; otherwise the response is the current generation.

    The leader of a stable group joins when it noticed a change, such as new partitions.
    """
    match group.state:
        case ClassicGroupState.COMPLETING_REBALANCE:
            return member.protocols != update.protocols
        case ClassicGroupState.STABLE:
            return member.member_id == group.leader_id or member.protocols != update.protocols
        case _:
            return True


def _park(join: JoinContext, group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Update a member and park its join; answer the join that it sent before."""
    group.offer(member, _member(join, member.member_id))
    superseded = group.park_join(member, join.token)
    if superseded is None:
        return []
    return refuse_join(superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)


def _return_as(join: JoinContext, group: ClassicGroup, *, former_id: str, new_id: str) -> list[Effect]:
    """Replace a static member by its new self; the parked requests of the old one are fenced.

    A stable group stays stable if the protocol stays the same: the new id is stored, then answered.
    """
    former = group.members[former_id]
    effects = refuse_parked(group, former, ErrorCode.FENCED_INSTANCE_ID) + group.end_session(former_id)
    member = group.rename(former, new_id)
    effects += _park(join, group, member)
    effects += group.arm_session(join.now, member)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader may have assigned to the former id.
        return effects + prepare(join.now, group, join.config)
    if group.state is ClassicGroupState.STABLE and group.select_protocol() == group.protocol_name:
        assignments = {each.member_id: each.assignment for each in group.members.values()}

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            return _returned(now, join, group, former=former, member=member, error=error)

        return [*effects, Append((group.record(assignments),), stored)]
    return effects + rebalance(join.now, group, join.config)


def _returned(
    now: Now,
    join: JoinContext,
    group: ClassicGroup,
    *,
    former: ClassicMember,
    member: ClassicMember,
    error: KafkaError | None,
) -> list[Effect]:
    """Answer a returned static member once its new id is stored; on failure restore the old id.

    If the group has begun a rebalance meanwhile, the rebalance answers and stores the new id.
    """
    waits = member.awaiting_join is join.token and group.members.get(member.member_id) is member
    if not waits or group.state is not ClassicGroupState.STABLE:
        return []
    token = join.token
    group.take_join(member)
    if error is not None:
        effects = group.end_session(member.member_id)
        group.offer(member, former)
        effects += group.arm_session(now, group.rename(member, former.member_id))
        return effects + refuse_join(token, error.code)
    leads = member.member_id == group.leader_id
    if join.version >= SKIP_ASSIGNMENT_FROM:
        effects = accept_join(token, group, member, skip_assignment=leads)
    else:
        # It must not assign: the response names another leader.
        effects = accept_join(token, group, member, leader_id=former.member_id if leads else group.leader_id)
    return effects + group.renew_session(now, member)
