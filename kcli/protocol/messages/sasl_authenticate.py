"""SaslAuthenticate (key 36): exchange one token of a SASL login (KIP-152).

From version 1 on the response has the lifetime of the session (KIP-368).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import bytes_, i16, i64, ignorable, message, string, v


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes_


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: i16 = 0
    error_message: string | None = None
    auth_bytes: bytes_ = b""
    session_lifetime_ms: Annotated[i64, v("1+"), ignorable] = 0
