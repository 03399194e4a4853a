"""SaslHandshake (key 17): choose a SASL mechanism (KIP-43).

After version 0 tokens follow as raw frames, after version 1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, message, string


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    mechanism: string


@message(key=17, versions="0-1")
class SaslHandshakeResponse:
    error_code: i16 = 0
    mechanisms: list[string]
