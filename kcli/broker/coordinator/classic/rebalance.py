"""Rebalances of classic groups: from a change of membership to the next generation, and the responses.

Timers: `("join", group id)` ends the join phase without the members that have not joined, and paces the delay
of an initial rebalance. `("sync", group id)` removes members that joined and never sent SyncGroup
(KAFKA-13134: without it the group waits for as long as heartbeats come).

A refusal has an empty protocol name, which every version can carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import ClassicGroupState, session_key
from kcli.broker.coordinator.effects import Append, Cancel, Effect, Reply, Schedule
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.classic.group import ClassicGroup, ClassicMember
    from kcli.broker.coordinator.effects import Now, Token


NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session of a new member until its first join is answered: without an id it cannot send heartbeats."""


def refuse_join(token: Token, error: ErrorCode, member_id: str = "") -> list[Effect]:
    """Answer a join with an error; `member_id` is the id that the client uses from now on."""
    response = JoinGroupResponse(
        error_code=error, protocol_name="", leader="", member_id=member_id, members=[]
    )
    return [Reply(token, response)]


def accept_join(
    token: Token,
    group: ClassicGroup,
    member: ClassicMember,
    *,
    leader_id: str | None = None,
    skip_assignment: bool = False,
) -> list[Effect]:
    """Answer a join with the current generation; the leader also gets all members and their metadata.

    `leader_id` replaces the actual leader in the response.
    """
    leader_id = leader_id or group.leader_id or ""
    response = JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=leader_id,
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=group.join_members() if member.member_id == leader_id else [],
    )
    return [Reply(token, response)]


def refuse_sync(token: Token, error: ErrorCode) -> list[Effect]:
    return [Reply(token, SyncGroupResponse(error_code=error, assignment=b""))]


def accept_sync(token: Token, group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    response = SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
    return [Reply(token, response)]


def refuse_parked(group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> list[Effect]:
    """Answer a member's parked requests; UNKNOWN_MEMBER_ID makes the client forget its id."""
    effects: list[Effect] = []
    if (token := group.take_join(member)) is not None:
        kept_id = "" if error is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        effects += refuse_join(token, error, kept_id)
    if (token := member.awaiting_sync) is not None:
        member.awaiting_sync = None
        effects += refuse_sync(token, error)
    return effects


def join_key(group_id: str) -> Hashable:
    return ("join", group_id)


def sync_key(group_id: str) -> Hashable:
    return ("sync", group_id)


def rebalance(now: Now, group: ClassicGroup, config: GroupConfig) -> list[Effect]:
    """Begin a rebalance, or end the current one if all members have joined."""
    return prepare(now, group, config) if group.can_rebalance else complete_if_joined(now, group)


def prepare(now: Now, group: ClassicGroup, config: GroupConfig) -> list[Effect]:
    """Begin a rebalance; it ends at once if all members have joined."""
    effects: list[Effect] = []
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        effects += drop_assignments(now, group, ErrorCode.REBALANCE_IN_PROGRESS)
    effects += end_sync_phase(group)
    is_initial = group.state is ClassicGroupState.EMPTY
    group.transition(now, ClassicGroupState.PREPARING_REBALANCE)
    if is_initial:
        return effects + _begin_initial(now, group, config)
    if group.all_joined:
        return effects + complete(now, group)
    return effects + _await_joins(now, group, group.rebalance_timeout_ms)


def _begin_initial(now: Now, group: ClassicGroup, config: GroupConfig) -> list[Effect]:
    """Delay the first rebalance of a group, so that members can arrive together."""
    delay_ms = config.initial_rebalance_delay_ms
    if delay_ms == 0:
        return complete(now, group)
    group.new_member_added = False
    group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    return _await_joins(now, group, delay_ms)


def _await_joins(now: Now, group: ClassicGroup, delay_ms: int) -> list[Effect]:
    group.join_deadline_ms = now.ms + delay_ms
    return [Schedule(join_key(group.group_id), delay_ms)]


def drop_assignments(now: Now, group: ClassicGroup, error: ErrorCode) -> list[Effect]:
    """Drop the assignments of this generation, and answer the parked syncs."""
    effects: list[Effect] = []
    for member in group.members.values():
        member.assignment = b""
        if member.awaiting_sync is not None:
            effects += refuse_parked(group, member, error)
            effects += group.renew_session(now, member)
    return effects


def end_sync_phase(group: ClassicGroup) -> list[Effect]:
    group.pending_syncs.clear()
    if group.sync_deadline_ms is None:
        return []
    group.sync_deadline_ms = None
    return [Cancel(sync_key(group.group_id))]


def complete_if_joined(now: Now, group: ClassicGroup) -> list[Effect]:
    """End the join phase if all members have joined; the delay of an initial rebalance is kept."""
    preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    if preparing and group.initial_delay_left_ms is None and group.all_joined:
        return complete(now, group)
    return []


def complete(now: Now, group: ClassicGroup) -> list[Effect]:
    """End the join phase: the members that have joined form the next generation.

    Static members stay even if they have not joined, because they may be restarting. If no other member is
    there, the phase goes on until one joins or the last session ends.
    """
    effects = _end_join_phase(group)
    for member in [each for each in group.members.values() if each.awaiting_join is None]:
        if member.group_instance_id is None:
            effects += drop_member(group, member)
    if not group.elect_joined_leader() and group.members:
        return effects + _await_joins(now, group, group.rebalance_timeout_ms)
    group.next_generation(now)
    if group.state is ClassicGroupState.EMPTY:
        # If this write fails, a restart restores members that never answer; their sessions end then.
        return [*effects, Append((group.record({}),))]
    return effects + _begin_sync_phase(now, group)


def _end_join_phase(group: ClassicGroup) -> list[Effect]:
    group.initial_delay_left_ms = None
    if group.join_deadline_ms is None:
        return []
    group.join_deadline_ms = None
    return [Cancel(join_key(group.group_id))]


def _begin_sync_phase(now: Now, group: ClassicGroup) -> list[Effect]:
    effects: list[Effect] = []
    for member in group.members.values():
        if (token := group.take_join(member)) is not None:
            effects += accept_join(token, group, member)
        member.is_new = False
        effects += group.arm_session(now, member)
    timeout_ms = group.rebalance_timeout_ms
    group.sync_deadline_ms = now.ms + timeout_ms
    return [*effects, Schedule(sync_key(group.group_id), timeout_ms)]


def drop_member(group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Remove a member; its parked requests get UNKNOWN_MEMBER_ID, so that the client joins anew."""
    effects = refuse_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
    group.remove(member.member_id)
    return effects + group.end_session(member.member_id)


def dissolve(now: Now, group: ClassicGroup, error: ErrorCode) -> list[Effect]:
    """Unload a group: answer all parked requests with an error and cancel its timers."""
    effects = end_sync_phase(group) + _end_join_phase(group)
    for member in group.members.values():
        effects += refuse_parked(group, member, error)
    for member_id in (*group.members, *group.pending):
        effects += group.end_session(member_id)
    group.transition(now, ClassicGroupState.DEAD)
    return effects


def expire_session(now: Now, group: ClassicGroup, member_id: str, *, config: GroupConfig) -> list[Effect]:
    """Remove a member or a pending id whose session is over."""
    pending_until_ms = group.pending.get(member_id)
    if pending_until_ms is not None:
        if now.ms < pending_until_ms:
            return [Schedule(session_key(group.group_id, member_id), pending_until_ms - now.ms)]
        group.remove(member_id)
        return complete_if_joined(now, group)
    member = group.members.get(member_id)
    if member is None:
        return []
    if now.ms < member.deadline_ms or member.is_waiting:
        return group.rearm_session(now, member)
    return drop_member(group, member) + rebalance(now, group, config)


def expire_join(now: Now, group: ClassicGroup, config: GroupConfig) -> list[Effect]:
    """End the join phase, or extend the delay of an initial rebalance while members still arrive."""
    if group.join_deadline_ms is None:
        return []
    if now.ms < group.join_deadline_ms:
        return _await_joins(now, group, group.join_deadline_ms - now.ms)
    left_ms = group.initial_delay_left_ms
    if left_ms and group.new_member_added:
        delay_ms = min(config.initial_rebalance_delay_ms, left_ms)
        group.new_member_added = False
        group.initial_delay_left_ms = left_ms - delay_ms
        return _await_joins(now, group, delay_ms)
    return complete(now, group)


def expire_sync(now: Now, group: ClassicGroup, config: GroupConfig) -> list[Effect]:
    """Remove the members that joined and never sent SyncGroup."""
    deadline_ms = group.sync_deadline_ms
    if deadline_ms is None:
        return []
    if now.ms < deadline_ms:
        return [Schedule(sync_key(group.group_id), deadline_ms - now.ms)]
    group.sync_deadline_ms = None
    effects: list[Effect] = []
    for member_id in sorted(group.pending_syncs):
        effects += drop_member(group, group.members[member_id])
    return effects + prepare(now, group, config)
