"""DescribeDelegationToken (key 41): list delegation tokens by owner (KIP-48).

Version 3 adds the requester (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import bytes_, i16, i32, i64, ignorable, message, string, struct, v


@struct
class DescribeDelegationTokenOwner:
    principal_type: string
    principal_name: string


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribedDelegationTokenRenewer:
    principal_type: string
    principal_name: string


@struct
class DescribedDelegationToken:
    principal_type: string
    principal_name: string
    token_requester_principal_type: Annotated[string, v("3+"), ignorable] = ""
    token_requester_principal_name: Annotated[string, v("3+"), ignorable] = ""
    issue_timestamp: i64
    expiry_timestamp: i64
    max_timestamp: i64
    token_id: string
    hmac: bytes_
    renewers: list[DescribedDelegationTokenRenewer]


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: i16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: i32 = 0
