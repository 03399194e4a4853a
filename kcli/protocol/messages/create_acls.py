"""CreateAcls (key 30): add access control entries (KIP-140).

Version 1 adds pattern types (KIP-290), 3 user resources (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i8, i16, i32, message, string, struct, v


@struct
class AclCreation:
    resource_type: i8
    resource_name: string
    resource_pattern_type: Annotated[i8, v("1+")] = 3
    principal: string
    host: string
    operation: i8
    permission_type: i8


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: i16 = 0
    error_message: string | None = None


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: i32 = 0
    results: list[AclCreationResult]
