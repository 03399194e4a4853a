"""SaslHandshake and SaslAuthenticate where no login is going on: ILLEGAL_SASL_STATE.

Before a login they do not come here: `broker.security.authentication` has the connection then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest


def sasl_handshake(_request: SaslHandshakeRequest, _context: RequestContext) -> SaslHandshakeResponse:
    """Refuse to begin a login."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def sasl_authenticate(
    _request: SaslAuthenticateRequest, _context: RequestContext
) -> SaslAuthenticateResponse:
    """Refuse a token without a login."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="no login is going on",
    )
