"""ExpireDelegationToken (key 40): end or shorten the life of a delegation token (KIP-48)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import bytes_, i16, i32, i64, message


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes_
    expiry_time_period_ms: i64


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: i16 = 0
    expiry_timestamp_ms: i64 = 0
    throttle_time_ms: i32 = 0
