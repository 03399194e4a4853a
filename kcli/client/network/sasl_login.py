"""SaslLogin: the requests of one login, and what their responses mean (KIP-43, KIP-152, KIP-368).

The same object serves connections that await and those that block: the caller exchanges what it is given.
After version 0 of SaslHandshake the tokens travel as frames without a header.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.client.network.bootstrap import LoginFailed
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.schema.declaration import message_info
from kcli.security.sasl import SaslError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kcli.security.client_security import ClientSecurity

EARLIEST_RENEWAL, LATEST_RENEWAL = 0.85, 0.95
"""The parts of a session's lifetime between which the client logs in again, as in Kafka's Java clients."""


QUICK = ("PLAIN",)
"""Mechanisms that neither compute nor ask anybody."""


class Ask(NamedTuple):
    """What to send: a request of some version, or `token` as a frame of its own if there is none."""

    request: Any
    version: int
    token: bytes = b""


class SaslLogin:
    """One login of a connection. `ranges` are the versions that the broker advertises."""

    def __init__(self, security: ClientSecurity, address: str, ranges: Mapping[int, tuple[int, int]]) -> None:
        self._security = security
        self._address = address
        self._client = security.sasl_client()
        self._ranges = ranges
        self._handshake_version = self._version(SaslHandshakeRequest)
        self.lifetime_ms = 0

    async def run(self, exchange: Callable[[Ask], Awaitable[Any]]) -> None:
        """Log in; raise `LoginFailed` if the broker or the client refuses."""
        self.take_handshake(await exchange(self.handshake()))
        token = await self._step(None)
        while token is not None:
            challenge = self.challenge_of(await exchange(self.ask(token)))
            token = None if self._client.is_complete else await self._step(challenge)

    async def _step(self, challenge: bytes | None) -> bytes | None:
        if self._client.mechanism in QUICK:
            return self.step(challenge)
        import trio

        # Deriving a key from a password takes milliseconds, fetching a token seconds.
        return await trio.to_thread.run_sync(self.step, challenge)

    def run_blocking(self, exchange: Callable[[Ask], Any]) -> None:
        """Log in as `run` does, on a connection that blocks."""
        self.take_handshake(exchange(self.handshake()))
        token = self.step(None)
        while token is not None:
            challenge = self.challenge_of(exchange(self.ask(token)))
            token = None if self._client.is_complete else self.step(challenge)

    def step(self, challenge: bytes | None) -> bytes | None:
        """Return the next token, None if nothing is to be sent any more."""
        try:
            token = self._client.step(challenge)
        except SaslError as error:
            raise LoginFailed(
                f"cannot log in to {self._address}: {error.message}", hint=error.hint
            ) from error
        return token if token or not self._client.is_complete else None

    def handshake(self) -> Ask:
        """Return the request that chooses the mechanism."""
        return Ask(SaslHandshakeRequest(mechanism=self._client.mechanism), self._handshake_version)

    def take_handshake(self, response: SaslHandshakeResponse) -> None:
        """Raise `LoginFailed` if the listener has no SASL, or not this mechanism."""
        mechanism = self._client.mechanism
        match response.error_code:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                offered = ", ".join(response.mechanisms) or "none"
                raise LoginFailed(
                    f"{self._address} does not offer the SASL mechanism {mechanism}",
                    hint=f"set `sasl.mechanism` to one that it offers: {offered}",
                )
            case ErrorCode.ILLEGAL_SASL_STATE:
                without = "SSL" if self._security.is_tls else "PLAINTEXT"
                raise LoginFailed(
                    f"the listener {self._address} has no SASL",
                    hint=f"set `security.protocol` to {without}, or use the port of a SASL listener",
                )
        raise LoginFailed(
            f"{self._address} refused the login: {ErrorCode.of(response.error_code).description}"
        )

    def ask(self, token: bytes) -> Ask:
        """Return what carries a token."""
        if self._handshake_version == 0:
            return Ask(None, 0, token)
        return Ask(SaslAuthenticateRequest(auth_bytes=token), self._version(SaslAuthenticateRequest))

    def challenge_of(self, answer: SaslAuthenticateResponse | bytes) -> bytes:
        """Return the broker's challenge; raise `LoginFailed` if it refuses."""
        if isinstance(answer, bytes | bytearray):
            return bytes(answer)
        if answer.error_code:
            raise self.refused()
        self.lifetime_ms = answer.session_lifetime_ms
        return answer.auth_bytes

    def refused(self) -> LoginFailed:
        """Return the error of a broker that does not accept the credentials."""
        user, mechanism = self._security.user, self._client.mechanism
        return LoginFailed(
            f"authentication failed as {user or 'the bearer of the token'} at {self._address}",
            hint=f"check name and password, and that there is a credential for {mechanism}",
        )

    def renewal_seconds(self) -> float:
        """Return after how many seconds to log in again; infinite for a session without an end."""
        if self.lifetime_ms <= 0:
            return float("inf")
        return self.lifetime_ms / 1000 * random.uniform(EARLIEST_RENEWAL, LATEST_RENEWAL)

    def _version(self, request_class: type[Any]) -> int:
        info = message_info(request_class)
        return min(info.max_version, self._ranges.get(info.key, (0, 0))[1])
