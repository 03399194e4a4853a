"""Heartbeat (key 12): keep a member of a classic group alive and tell it when to join again.

Version 3 adds static members (KIP-345).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, ignorable, message, string, v


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: string
    generation_id: i32
    member_id: string
    group_instance_id: Annotated[string | None, v("3+")] = None


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    error_code: i16 = 0
