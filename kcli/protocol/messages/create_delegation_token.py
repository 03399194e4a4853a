"""CreateDelegationToken (key 38): make a delegation token (KIP-48).

Version 3 adds an owner other than the requester (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import bytes_, i16, i32, i64, ignorable, message, string, struct, v


@struct
class CreatableRenewers:
    principal_type: string
    principal_name: string


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[string | None, v("3+")] = None
    owner_principal_name: Annotated[string | None, v("3+")] = None
    renewers: list[CreatableRenewers]
    max_lifetime_ms: i64


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: i16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: Annotated[string, v("3+"), ignorable] = ""
    token_requester_principal_name: Annotated[string, v("3+"), ignorable] = ""
    issue_timestamp_ms: i64 = 0
    expiry_timestamp_ms: i64 = 0
    max_timestamp_ms: i64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    throttle_time_ms: i32 = 0
