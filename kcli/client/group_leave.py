"""LeaveGroup: a member tells its coordinator that it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.retry import check
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from kcli.client.client import Client

LEAVE_SECONDS = 5.0
"""How long a member that leaves waits for the coordinator to take note of it."""

_FIRST_VERSION_OF_MEMBERS = 3
_MAX_REASON = 255


async def leave_group(client: Client, node_id: int, *, group_id: str, member_id: str, reason: str) -> None:
    """Have the coordinator drop a member; raise `KcliError` if it does not."""

    def build(version: int) -> LeaveGroupRequest:
        if version < _FIRST_VERSION_OF_MEMBERS:
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        member = MemberIdentity(member_id=member_id, reason=reason[:_MAX_REASON])
        return LeaveGroupRequest(group_id=group_id, members=[member])

    response: LeaveGroupResponse = await client.request_by_version(node_id, LeaveGroupRequest, build)
    check(response.error_code)
    for member in response.members:
        check(member.error_code)
