"""JoinGroup (key 11): join the next generation of a classic group.

Version 1 adds the rebalance timeout (KIP-62). From 4 a new member joins twice, the second time with the id
that the first response assigned (KIP-394). 5 adds static members (KIP-345), 7 the protocol type in the
response (KIP-559), 8 the reason for joining (KIP-800), 9 tells a leader to skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    bytes_,
    i16,
    i32,
    ignorable,
    message,
    nullable,
    string,
    struct,
    v,
)


@struct
class JoinGroupRequestProtocol:
    name: string
    metadata: bytes_


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: string
    session_timeout_ms: i32
    rebalance_timeout_ms: Annotated[i32, v("1+"), ignorable] = -1
    member_id: string
    group_instance_id: Annotated[string | None, v("5+")] = None
    protocol_type: string
    protocols: list[JoinGroupRequestProtocol]
    reason: Annotated[string | None, v("8+"), ignorable] = None


@struct
class JoinGroupResponseMember:
    member_id: string
    group_instance_id: Annotated[string | None, v("5+"), ignorable] = None
    metadata: bytes_


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: Annotated[i32, v("2+"), ignorable] = 0
    error_code: i16 = 0
    generation_id: i32 = -1
    protocol_type: Annotated[string | None, v("7+"), ignorable] = None
    protocol_name: Annotated[string | None, nullable("7+")]
    leader: string
    skip_assignment: Annotated[boolean, v("9+")] = False
    member_id: string
    members: list[JoinGroupResponseMember]
