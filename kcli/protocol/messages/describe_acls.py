"""DescribeAcls (key 29): find access control entries (KIP-140).

Version 1 adds pattern types (KIP-290), 3 user resources (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i8, i16, i32, message, string, struct, v


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: i8
    resource_name_filter: string | None
    pattern_type_filter: Annotated[i8, v("1+")] = 3
    principal_filter: string | None
    host_filter: string | None
    operation: i8
    permission_type: i8


@struct
class AclDescription:
    principal: string
    host: string
    operation: i8
    permission_type: i8


@struct
class DescribeAclsResource:
    resource_type: i8
    resource_name: string
    pattern_type: Annotated[i8, v("1+")] = 3
    acls: list[AclDescription]


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
    resources: list[DescribeAclsResource]
