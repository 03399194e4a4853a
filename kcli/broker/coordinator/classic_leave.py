"""LeaveGroup and Heartbeat for classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_rebalance import complete_if_joined, drop_member, rebalance
from kcli.broker.coordinator.classic_sessions import end_session, renew_session
from kcli.broker.coordinator.classic_states import ClassicGroupState
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.leave_group import MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.classic_group import ClassicGroup
    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.protocol.messages.heartbeat import HeartbeatRequest


def heartbeat(now: Now, request: HeartbeatRequest, group: ClassicGroup) -> tuple[ErrorCode, list[Effect]]:
    """Note that a member lives, and return what it is told: REBALANCE_IN_PROGRESS to make it join."""
    state = group.state
    if state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error, []
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION, []
    effects = renew_session(now, group, group.members[request.member_id])
    if state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS, effects
    return ErrorCode.NONE, effects


def leave_group(
    now: Now, identities: Iterable[MemberIdentity], group: ClassicGroup, config: GroupConfig
) -> tuple[list[MemberResponse], list[Effect]]:
    """Remove members, named by id, or by instance id alone as tools do, and say of each if it was there."""
    answers: list[MemberResponse] = []
    effects: list[Effect] = []
    members_before = len(group.members)
    for identity in identities:
        error = _leave(identity, group, effects)
        answers.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
        )
    if len(group.members) < members_before:
        effects += rebalance(now, group, config)
    else:
        effects += complete_if_joined(now, group)
    return answers, effects


def _leave(identity: MemberIdentity, group: ClassicGroup, effects: list[Effect]) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        member_id = group.static_members.get(identity.group_instance_id or "", "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending:
        group.remove(member_id)
        effects += end_session(group, member_id)
        return ErrorCode.NONE
    elif error := group.check_member(member_id, identity.group_instance_id):
        return error
    effects += drop_member(group, group.members[member_id])
    return ErrorCode.NONE
