"""ClassicGroupManager: the requests and the life of a shard's classic groups.

`join_group` and `rebalance` hold the decisions about one group. SyncGroup stores the generation together with
its assignment before any member is answered; a leader that sends SyncGroup again meanwhile waits like the
others, because a generation has one assignment (Kafka class `GroupMetadataManager`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kcli.broker.coordinator.classic.join_group import join_group
from kcli.broker.coordinator.classic.rebalance import (
    accept_sync,
    complete_if_joined,
    dissolve,
    drop_assignments,
    drop_member,
    end_sync_phase,
    expire_join,
    expire_session,
    expire_sync,
    prepare,
    rebalance,
    refuse_sync,
)
from kcli.broker.coordinator.effects import Append, Effect
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.leave_group import MemberResponse

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.classic.group import ClassicMember
    from kcli.broker.coordinator.classic.join_group import JoinContext
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import Group
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.internal.coordinator_records import GroupMetadataKey, GroupMetadataValue
    from kcli.protocol.messages.heartbeat import HeartbeatRequest
    from kcli.protocol.messages.leave_group import MemberIdentity
    from kcli.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroupManager:
    """The classic groups among a shard's groups; `groups` is shared with the managers of other groups."""

    def __init__(self, groups: dict[str, Group], config: GroupConfig) -> None:
        self._groups = groups
        self._config = config
        self._is_live = False

    def join_group(self, join: JoinContext) -> list[Effect]:
        """Join a classic group; a client without a member id creates it if it does not exist."""
        group_id = join.request.group_id
        found = self._groups.get(group_id)
        if found is None and join.request.member_id:
            return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        group = found if isinstance(found, ClassicGroup) else ClassicGroup(group_id)
        effects = join_group(join, group)
        if found is not group and (group.members or group.pending):
            self._groups[group.group_id] = group
        return effects

    def sync_group(
        self, now: Now, token: Token, request: SyncGroupRequest, group: ClassicGroup
    ) -> list[Effect]:
        """Answer with the member's assignment, now or once it is stored."""
        error = _check_sync(request, group)
        if error:
            return refuse_sync(token, error)
        member = group.members[request.member_id]
        effects = group.renew_session(now, member)
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            effects += end_sync_phase(group)
        if group.state is ClassicGroupState.STABLE:
            return effects + accept_sync(token, group, member)
        effects += _park_sync(member, token)
        if member.member_id == group.leader_id and group.assigned_generation != group.generation:
            effects.append(self._store_assignment(group, request))
        return effects

    def _store_assignment(self, group: ClassicGroup, request: SyncGroupRequest) -> Effect:
        generation = group.generation
        group.assigned_generation = generation
        assignments = {each.member_id: each.assignment for each in request.assignments}

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            # A rebalance that began meanwhile has answered all members.
            if group.state is ClassicGroupState.COMPLETING_REBALANCE and group.generation == generation:
                return self._assignment_stored(now, group, error)
            return []

        return Append((group.record(assignments),), stored)

    def _assignment_stored(self, now: Now, group: ClassicGroup, error: KafkaError | None) -> list[Effect]:
        """Answer the parked syncs once the assignment is in the log; begin a rebalance if it is not."""
        if error is not None:
            return drop_assignments(now, group, error.code) + rebalance(now, group, self._config)
        group.transition(now, ClassicGroupState.STABLE)
        effects: list[Effect] = []
        for member in group.members.values():
            token, member.awaiting_sync = member.awaiting_sync, None
            if token is not None:
                effects += accept_sync(token, group, member)
                effects += group.renew_session(now, member)
        return effects

    def heartbeat(
        self, now: Now, request: HeartbeatRequest, group: ClassicGroup
    ) -> tuple[ErrorCode, list[Effect]]:
        """Renew a member's session; REBALANCE_IN_PROGRESS tells the member to join again."""
        state = group.state
        if state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            return error, []
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION, []
        effects = group.renew_session(now, group.members[request.member_id])
        if state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS, effects
        return ErrorCode.NONE, effects

    def leave_group(
        self, now: Now, identities: Iterable[MemberIdentity], group: ClassicGroup
    ) -> tuple[list[MemberResponse], list[Effect]]:
        """Remove members, named by id, or by instance id alone as tools do; return a result for each."""
        answers: list[MemberResponse] = []
        effects: list[Effect] = []
        members_before = len(group.members)
        for identity in identities:
            error = _leave(identity, group, effects)
            answers.append(member_response(identity, error))
        if len(group.members) < members_before:
            effects += rebalance(now, group, self._config)
        else:
            effects += complete_if_joined(now, group)
        return answers, effects

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Apply a group's record; None deletes the group.

        After loading, the record comes from this classic group itself, or from a group that has just become
        classic. The live group then takes only the assignments from it.
        """
        group = self._groups.get(key.group)
        live = group if self._is_live and isinstance(group, ClassicGroup) else None
        if value is None:
            if isinstance(group, ClassicGroup):
                del self._groups[key.group]
        elif live is None:
            self._groups[key.group] = ClassicGroup.from_record(key.group, value)
        elif live.generation == value.generation and live.state is ClassicGroupState.COMPLETING_REBALANCE:
            for stored in value.members:
                if (member := live.members.get(stored.member_id)) is not None:
                    member.assignment = stored.assignment

    def loaded(self, now: Now) -> list[Effect]:
        """Start all sessions after loading; a group above the size limit rebalances."""
        self._is_live = True
        effects: list[Effect] = []
        for group in self._classic():
            for member in group.members.values():
                effects += group.arm_session(now, member)
            if len(group.members) > self._config.max_size:
                effects += prepare(now, group, self._config)
        return effects

    def unloaded(self, now: Now) -> list[Effect]:
        """Answer all parked requests with NOT_COORDINATOR and cancel all timers."""
        effects: list[Effect] = []
        for group in self._classic():
            if group.state is not ClassicGroupState.DEAD:
                effects += dissolve(now, group, ErrorCode.NOT_COORDINATOR)
        return effects

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        """Handle a timer; a timer of a deleted group does nothing."""
        group = self._groups.get(key[1]) if isinstance(key, tuple) else None
        if not isinstance(group, ClassicGroup):
            return []
        match key:
            case ("session", _, str(member_id)):
                return expire_session(now, group, member_id, config=self._config)
            case ("join", _):
                return expire_join(now, group, self._config)
            case ("sync", _):
                return expire_sync(now, group, self._config)
        return []

    def _classic(self) -> list[ClassicGroup]:
        return [group for group in self._groups.values() if isinstance(group, ClassicGroup)]


def _check_sync(request: SyncGroupRequest, group: ClassicGroup) -> ErrorCode:
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


def _park_sync(member: ClassicMember, token: Token) -> list[Effect]:
    """Park a sync; answer the sync that the member sent before."""
    superseded, member.awaiting_sync = member.awaiting_sync, token
    return [] if superseded is None else refuse_sync(superseded, ErrorCode.REBALANCE_IN_PROGRESS)


def _leave(identity: MemberIdentity, group: ClassicGroup, effects: list[Effect]) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        member_id = group.static_members.get(identity.group_instance_id or "", "")
        if not member_id:
            return ErrorCode.UNKNOWN_MEMBER_ID
    elif member_id in group.pending:
        group.remove(member_id)
        effects += group.end_session(member_id)
        return ErrorCode.NONE
    elif error := group.check_member(member_id, identity.group_instance_id):
        return error
    effects += drop_member(group, group.members[member_id])
    return ErrorCode.NONE


def member_response(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )
