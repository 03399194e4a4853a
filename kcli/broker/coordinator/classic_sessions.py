"""Sessions of classic members: until when each is believed to live, and the timer that says otherwise.

Every member and every pending id has one timer, `("session", group id, member id)`. A heartbeat only moves
the member's deadline; the timer is set again when it fires before that, or when the deadline comes closer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Cancel, Effect, Schedule

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.coordinator.classic_group import ClassicGroup
    from kcli.broker.coordinator.classic_member import ClassicMember
    from kcli.broker.coordinator.effects import Now

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member's first join may stay parked: it has no id yet, so it cannot send heartbeats."""


def session_key(group_id: str, member_id: str) -> Hashable:
    """Return the key of a session's timer."""
    return ("session", group_id, member_id)


def arm_session(
    now: Now, group: ClassicGroup, member: ClassicMember, *, timeout_ms: int | None = None
) -> list[Effect]:
    """Start a member's session anew, for its own session timeout unless another is given."""
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    member.deadline_ms = member.timer_ms = now.ms + delay_ms
    return [Schedule(session_key(group.group_id, member.member_id), delay_ms)]


def renew_session(now: Now, group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Note that a member lives."""
    member.deadline_ms = now.ms + member.session_timeout_ms
    if member.deadline_ms < member.timer_ms:
        return arm_session(now, group, member)
    return []


def rearm_session(now: Now, group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Set the timer of a member that outlived it, for the rest of its session."""
    if member.deadline_ms <= now.ms:
        return arm_session(now, group, member)
    return arm_session(now, group, member, timeout_ms=member.deadline_ms - now.ms)


def end_session(group: ClassicGroup, member_id: str) -> list[Effect]:
    """Forget the timer of somebody who is gone."""
    return [Cancel(session_key(group.group_id, member_id))]
