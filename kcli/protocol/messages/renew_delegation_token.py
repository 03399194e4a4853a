"""RenewDelegationToken (key 39): prolong the life of a delegation token (KIP-48)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import bytes_, i16, i32, i64, message


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes_
    renew_period_ms: i64


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: i16 = 0
    expiry_timestamp_ms: i64 = 0
    throttle_time_ms: i32 = 0
