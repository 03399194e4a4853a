"""SyncGroup for classic groups: the leader hands in the assignment, the others wait for it.

The generation is stored with its assignment before anybody is answered. A leader that asks again while that
goes on waits like the others: a generation has one assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_answers import accept_sync, refuse_sync
from kcli.broker.coordinator.classic_rebalance import drop_assignments, end_sync_phase, rebalance
from kcli.broker.coordinator.classic_sessions import renew_session
from kcli.broker.coordinator.classic_states import ClassicGroupState
from kcli.broker.coordinator.effects import Append, Effect
from kcli.broker.coordinator.group_records import group_record
from kcli.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.classic_group import ClassicGroup
    from kcli.broker.coordinator.classic_member import ClassicMember
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.sync_group import SyncGroupRequest


def sync_group(
    now: Now,
    token: Token,
    request: SyncGroupRequest,
    *,
    group: ClassicGroup,
    config: GroupConfig,
) -> list[Effect]:
    """Let a member have its assignment, now or once it is stored."""
    error = _check(request, group)
    if error:
        return refuse_sync(token, error)
    member = group.members[request.member_id]
    effects = renew_session(now, group, member)
    group.pending_syncs.discard(member.member_id)
    if not group.pending_syncs:
        effects += end_sync_phase(group)
    if group.state is ClassicGroupState.STABLE:
        return effects + accept_sync(token, group, member)
    effects += _park(member, token)
    if member.member_id == group.leader_id and group.assigned_generation != group.generation:
        effects += _store(group, request, config)
    return effects


def _check(request: SyncGroupRequest, group: ClassicGroup) -> ErrorCode:
    if group.state is ClassicGroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in {None, group.protocol_type}:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in {None, group.protocol_name}:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _park(member: ClassicMember, token: Token) -> list[Effect]:
    """Let a sync wait. One that the member sent before is answered: it gave that up."""
    superseded, member.awaiting_sync = member.awaiting_sync, token
    return [] if superseded is None else refuse_sync(superseded, ErrorCode.REBALANCE_IN_PROGRESS)


def _store(group: ClassicGroup, request: SyncGroupRequest, config: GroupConfig) -> list[Effect]:
    generation = group.generation
    group.assigned_generation = generation
    assignments = {each.member_id: each.assignment for each in request.assignments}

    def stored(now: Now, error: KafkaError | None) -> list[Effect]:
        # A rebalance that began meanwhile has answered everybody.
        if group.state is ClassicGroupState.COMPLETING_REBALANCE and group.generation == generation:
            return _stored(now, group, config, error=error)
        return []

    return [Append((group_record(group, assignments),), stored)]


def _stored(now: Now, group: ClassicGroup, config: GroupConfig, *, error: KafkaError | None) -> list[Effect]:
    """Hand out the assignment that is in the log now, or rebalance if it is not."""
    if error is not None:
        return drop_assignments(now, group, error.code) + rebalance(now, group, config)
    group.transition(now, ClassicGroupState.STABLE)
    effects: list[Effect] = []
    for member in group.members.values():
        token, member.awaiting_sync = member.awaiting_sync, None
        if token is not None:
            effects += accept_sync(token, group, member)
            effects += renew_session(now, group, member)
    return effects
