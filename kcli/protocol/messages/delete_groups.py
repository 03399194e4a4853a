"""DeleteGroups (key 42): delete groups without members, and their offsets (KIP-229)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, message, string, struct


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[string]


@struct
class DeletableGroupResult:
    group_id: string
    error_code: i16 = 0


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult]
