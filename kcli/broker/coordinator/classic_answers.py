"""What members of classic groups are answered, as effects.

A refusal names no protocol: the field is an empty text, which every version can carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.effects import Effect, Reply
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from kcli.broker.coordinator.classic_group import ClassicGroup
    from kcli.broker.coordinator.classic_member import ClassicMember
    from kcli.broker.coordinator.effects import Token


def refuse_join(token: Token, error: ErrorCode, member_id: str = "") -> list[Effect]:
    """Answer a join with an error; `member_id` is what the client is to call itself from now on."""
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
    """Answer a join with the current generation, and the leader with all members and what they offer.

    `leader_id` is whom the member is to believe the leader, if not the one who is.
    """
    leader_id = leader_id or group.leader_id or ""
    response = JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=leader_id,
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=_member_list(group) if member.member_id == leader_id else [],
    )
    return [Reply(token, response)]


def refuse_sync(token: Token, error: ErrorCode) -> list[Effect]:
    """Answer a sync with an error."""
    return [Reply(token, SyncGroupResponse(error_code=error, assignment=b""))]


def accept_sync(token: Token, group: ClassicGroup, member: ClassicMember) -> list[Effect]:
    """Answer a sync with the member's assignment."""
    response = SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
    return [Reply(token, response)]


def refuse_parked(group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> list[Effect]:
    """Answer what a member has parked, if anything, with an error.

    Who is no member any more (UNKNOWN_MEMBER_ID) is to forget its id; the others hear theirs again.
    """
    effects: list[Effect] = []
    if (token := group.take_join(member)) is not None:
        kept_id = "" if error is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        effects += refuse_join(token, error, kept_id)
    if (token := member.awaiting_sync) is not None:
        member.awaiting_sync = None
        effects += refuse_sync(token, error)
    return effects


def _member_list(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]
