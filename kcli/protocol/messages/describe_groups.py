"""DescribeGroups (key 15): describe classic groups and their members.

A member's metadata and assignment are those of the chosen protocol, and empty unless the group is stable.
Version 3 adds authorized operations (KIP-430), 4 static members (KIP-345). For a missing group version 6
returns an error, earlier ones a group in state Dead (KIP-1043).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, bytes_, i16, i32, ignorable, message, string, struct, v


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[string]
    include_authorized_operations: Annotated[boolean, v("3+")] = False


@struct
class DescribedGroupMember:
    member_id: string
    group_instance_id: Annotated[string | None, v("4+"), ignorable] = None
    client_id: string
    client_host: string
    member_metadata: bytes_
    member_assignment: bytes_


@struct
class DescribedGroup:
    error_code: i16 = 0
    error_message: Annotated[string | None, v("6+")] = None
    group_id: string
    group_state: string
    protocol_type: string
    protocol_data: string
    members: list[DescribedGroupMember]
    authorized_operations: Annotated[i32, v("3+")] = -2147483648


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    groups: list[DescribedGroup]
