"""LeaveGroup (key 13): leave a classic group, or remove members from it.

Version 3 names several members, also static ones (KIP-345), 5 adds reasons (KIP-800).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import fresh, i16, i32, ignorable, message, string, struct, v


@struct
class MemberIdentity:
    member_id: Annotated[string, v("3+")]
    group_instance_id: Annotated[string | None, v("3+")] = None
    reason: Annotated[string | None, v("5+"), ignorable] = None


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: string
    member_id: Annotated[string, v("0-2")] = ""
    members: Annotated[list[MemberIdentity], v("3+")] = fresh(list)


@struct
class MemberResponse:
    member_id: Annotated[string, v("3+")]
    group_instance_id: Annotated[string | None, v("3+")]
    error_code: Annotated[i16, v("3+")] = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], v("3+")] = fresh(list)
