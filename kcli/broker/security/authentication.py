"""AuthenticatingEngine: the SASL login of one connection (Kafka class `SaslServerAuthenticator`).

| state | what may come | then |
|---|---|---|
| START | ApiVersions | HANDSHAKE, or START if it was malformed or of an unknown version |
| START, HANDSHAKE | SaslHandshake with a mechanism of the listener | TOKEN |
| TOKEN after SaslHandshake v0 | a raw token, without a header | COMPLETE after the last |
| TOKEN after SaslHandshake v1 | SaslAuthenticate | COMPLETE after the last |
| COMPLETE | any request; after the end of the session only SaslHandshake | |

Everything else closes the connection. What a failed login gets waits for a while, so that guessing is slow.
Once the client is known, the engine leaves the connection, unless its session ends some time (KIP-368).
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

import trio

from kcli.broker.network.request_context import CloseConnection
from kcli.broker.network.responses import AwaitedResponse
from kcli.broker.waiting.timer import monotonic_ms
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.frames import API_VERSIONS, encode_response, parse_request_header
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.schema.declaration import DecodeError, codec, message_info, response_class
from kcli.protocol.schema.fields import fields_of
from kcli.security.sasl import SaslFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kcli.broker.config.sasl_settings import SaslSettings
    from kcli.broker.network.listener_security import Visitor
    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.request_engine import Engine
    from kcli.broker.network.responses import Response
    from kcli.protocol.frames import RequestHeader
    from kcli.security.principal import Principal
    from kcli.security.sasl import Authenticated, SaslExchange, SaslMechanism

MAX_FRAMES = 16
"""The requests and tokens of one login; SCRAM needs five."""
LEAST_REAUTHENTICATION_MS = 1000
"""A client may not begin a login again so soon."""

_SASL_HANDSHAKE = message_info(SaslHandshakeRequest).key
_SASL_AUTHENTICATE = message_info(SaslAuthenticateRequest).key
_KEY = Struct(">h")
_SIZE = Struct(">i")
_ERROR_AT = 8
"""Where the error code is in a response to ApiVersions: after its size and the correlation id."""


class LoginHost(Protocol):
    """The listener of a login: how its clients may log in, and what a login brings."""

    engine: Engine

    @property
    def settings(self) -> SaslSettings: ...

    @property
    def failure_delay_ms(self) -> int: ...

    def mechanism(self, name: str) -> SaslMechanism:
        """Return one of the mechanisms of the settings."""
        ...

    def lifetime_ms(self, mechanism: str, outcome: Authenticated) -> int:
        """Return how long a login holds; 0 is for good."""
        ...


class _State(Enum):
    START = "start"
    HANDSHAKE = "handshake"
    TOKEN = "token"
    COMPLETE = "complete"


class AuthenticatingEngine:
    """Stands before the engine `behind` it until the client of `visitor` has logged in."""

    def __init__(self, listener: LoginHost, visitor: Visitor, engine: Engine) -> None:
        self.behind = engine
        self.max_request_bytes = listener.settings.max_receive_bytes
        self._listener = listener
        self._visitor = visitor
        self._state = _State.START
        self._frames = 0
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        # Version 0 of SaslHandshake: tokens have no headers.
        self._is_raw = False
        # After the first login.
        self._principal: Principal | None = None
        self._began_again_ms: int | None = None

    def feed(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Handle the request or token in `buffer[start:end]`. Raises `CloseConnection`."""
        if self._state is _State.COMPLETE:
            return self._feed_known(context, buffer, start, end)
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise CloseConnection(f"more than {MAX_FRAMES} requests before the end of the login")
        if self._state is _State.TOKEN and self._is_raw:
            return self._step(context, bytes(buffer[start:end]), None)
        header, position = _header(buffer, start, end)
        if self._state is _State.TOKEN:
            return self._take_token(context, header, buffer, position, end)
        if header.api_key == _SASL_HANDSHAKE:
            return self._handshake(header, buffer, position, end)
        if header.api_key == API_VERSIONS and self._state is _State.START:
            # Nothing stands before these APIs yet, no fault and no quota.
            response = self._listener.engine.feed(context, buffer, start, end)
            if type(response) is tuple and response[0][_ERROR_AT : _ERROR_AT + 2] == b"\0\0":
                self._state = _State.HANDSHAKE
            return response
        raise CloseConnection(f"a request of API {header.api_key} before the login")

    def _feed_known(self, context: RequestContext, buffer: memoryview, start: int, end: int) -> Response:
        """Handle a request after the login; `session_ends_ms` is 0 if it never ends."""
        ends_ms = context.session_ends_ms
        if ends_ms == 0:
            return self.behind.feed(context, buffer, start, end)
        now_ms = monotonic_ms()
        is_handshake = end - start >= _KEY.size and _KEY.unpack_from(buffer, start)[0] == _SASL_HANDSHAKE
        last_ms = self._began_again_ms
        if is_handshake and (last_ms is None or now_ms - last_ms >= LEAST_REAUTHENTICATION_MS):
            self._began_again_ms, self._frames = now_ms, 1
            header, position = _header(buffer, start, end)
            return self._handshake(header, buffer, position, end)
        if now_ms > ends_ms:
            raise CloseConnection(f"the session of {self._principal} is over")
        return self.behind.feed(context, buffer, start, end)

    def _handshake(self, header: RequestHeader, buffer: memoryview, position: int, end: int) -> Response:
        request = _decoded(SaslHandshakeRequest, header, buffer, position, end)
        names = [each.name for each in self._listener.settings.mechanisms]
        if request.mechanism not in names:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names
            )
            return self._refuse(header, response, f"mechanism {request.mechanism!r} is not enabled")
        if self._principal is not None and request.mechanism != self._mechanism:
            raise CloseConnection(f"a client that logged in by {self._mechanism} tried {request.mechanism}")
        self._mechanism = request.mechanism
        self._exchange = self._listener.mechanism(request.mechanism).begin()
        self._is_raw = header.api_version == 0
        self._state = _State.TOKEN
        response = SaslHandshakeResponse(mechanisms=names)
        return (encode_response(_SASL_HANDSHAKE, header.api_version, header.correlation_id, response),)

    def _take_token(
        self, context: RequestContext, header: RequestHeader, buffer: memoryview, position: int, end: int
    ) -> Response:
        if header.api_key != _SASL_AUTHENTICATE:
            response = _out_of_order(header)
            return self._refuse(header, response, f"a request of API {header.api_key} instead of a token")
        request = _decoded(SaslAuthenticateRequest, header, buffer, position, end)
        return self._step(context, request.auth_bytes, header)

    def _step(self, context: RequestContext, token: bytes, header: RequestHeader | None) -> Response:
        """Answer a token, raw without a header."""
        assert self._exchange is not None
        try:
            challenge = self._exchange.step(token)
        except SaslFailure as failure:
            return self._failed(header, failure)
        if isinstance(challenge, bytes):
            return self._answer(context, challenge, header)
        return AwaitedResponse(challenge, lambda source: self._await_step(context, source, header))

    async def _await_step(
        self, context: RequestContext, challenge: Awaitable[bytes], header: RequestHeader | None
    ) -> Response:
        try:
            return self._answer(context, await challenge, header)
        except SaslFailure as failure:
            return self._failed(header, failure)

    def _answer(self, context: RequestContext, challenge: bytes, header: RequestHeader | None) -> Response:
        assert self._exchange is not None
        lifetime_ms = 0
        if self._exchange.outcome is not None:
            outcome, self._exchange = self._exchange.outcome, None
            if self._principal not in (None, outcome.principal):
                return self._failed(header, SaslFailure("another principal than before"))
            lifetime_ms = self._let_in(context, outcome)
        if header is None:
            return (_SIZE.pack(len(challenge)) + challenge,)
        response = SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms)
        return (encode_response(_SASL_AUTHENTICATE, header.api_version, header.correlation_id, response),)

    def _let_in(self, context: RequestContext, outcome: Authenticated) -> int:
        """Serve the client from now on; return how long, in ms, 0 for as long as it likes."""
        lifetime_ms = self._listener.lifetime_ms(self._mechanism, outcome)
        now_ms = monotonic_ms()
        self._principal = outcome.principal
        self._state = _State.COMPLETE
        context.admit(outcome.principal, ends_ms=now_ms + lifetime_ms if lifetime_ms else 0)
        self._visitor.let_in(keeps_login=lifetime_ms > 0)
        return lifetime_ms

    def _failed(self, header: RequestHeader | None, failure: SaslFailure) -> Response:
        """Tell the client after a while that its login has failed; after raw tokens only the end tells."""
        response = None
        if header is not None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=failure.message
            )
        return self._refuse(header, response, failure.message)

    def _refuse(self, header: RequestHeader | None, response: object, why: str) -> Response:
        last = b""
        if header is not None and response is not None:
            last = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        return AwaitedResponse(CloseConnection(why, last), self._close_later)

    async def _close_later(self, end: CloseConnection) -> Response:
        await trio.sleep(self._listener.failure_delay_ms / 1000)
        raise end


def _header(buffer: memoryview, start: int, end: int) -> tuple[RequestHeader, int]:
    """Return the header of the request in `buffer[start:end]`, and where its body begins."""
    try:
        header, size = parse_request_header(buffer[start:end])
    except DecodeError as error:
        raise CloseConnection(f"no request of a login: {error.message}") from error
    return header, start + size


def _out_of_order(header: RequestHeader) -> Any:  # noqa: ANN401 - a response of any API
    """Return an ILLEGAL_SASL_STATE of an API, without a look at the request; None if there is none."""
    try:
        response = response_class(header.api_key)
    except KeyError:
        return None
    info = message_info(response)
    if not info.min_version <= header.api_version <= info.max_version:
        return None
    values = {field.name: field.make_default() for field in fields_of(response)}
    if "error_code" in values:
        values["error_code"] = ErrorCode.ILLEGAL_SASL_STATE
    return response(**values)


def _decoded(request: type, header: RequestHeader, buffer: memoryview, position: int, end: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """Return a request whose header is read. Raises `CloseConnection`."""
    info = message_info(request)
    if not info.min_version <= header.api_version <= info.max_version:
        raise CloseConnection(f"{info.name} version {header.api_version} is not supported")
    try:
        return codec(request, header.api_version).decode(buffer, position, end)[0]
    except DecodeError as error:
        raise CloseConnection(error.message) from error
