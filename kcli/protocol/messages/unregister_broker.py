"""UnregisterBroker (key 64): remove the registration of a broker (KIP-500)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, message, string


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: i32


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: string | None = None
