"""SyncGroup (key 14): hand in the assignment as the leader of a classic group, and get one's own.

Version 3 adds static members (KIP-345), 5 the protocol in request and response (KIP-559).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import bytes_, i16, i32, ignorable, message, string, struct, v


@struct
class SyncGroupRequestAssignment:
    member_id: string
    assignment: bytes_


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: string
    generation_id: i32
    member_id: string
    group_instance_id: Annotated[string | None, v("3+")] = None
    protocol_type: Annotated[string | None, v("5+"), ignorable] = None
    protocol_name: Annotated[string | None, v("5+"), ignorable] = None
    assignments: list[SyncGroupRequestAssignment]


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: i16 = 0
    protocol_type: Annotated[string | None, v("5+"), ignorable] = None
    protocol_name: Annotated[string | None, v("5+"), ignorable] = None
    assignment: bytes_
