"""Why a first connection failed: what client and listener have not in common.

A broker that expects another security protocol hangs up without a word. One more connection, which asks for
one thing, makes sure of the hint; it takes at most `PROBE_SECONDS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import trio

from kcli.client.network.bootstrap import LoginFailed, NotKafka, Unreachable, WrongProtocol
from kcli.client.network.connection import HungUp
from kcli.client.network.secure_stream import TlsBroken, secured
from kcli.client.network.tls_failures import no_tls, ssl_error_of, tls_refusal
from kcli.protocol.frames import RequestHeader, encode_request
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from kcli.client.config import ClientConfig
    from kcli.client.network.bootstrap import OpenStream
    from kcli.client.network.metadata import Node
    from kcli.errors import KcliError

PROBE_SECONDS = 2.0

Seen = TypeVar("Seen")


class FirstFailure:
    """The failure of the first connection to a node, to be explained."""

    def __init__(self, node: Node, config: ClientConfig, open_stream: OpenStream) -> None:
        self._node = node
        self._config = config
        self._open_stream = open_stream
        self._is_tls = config.security is not None and config.security.is_tls
        self._is_sasl = config.security is not None and config.security.is_sasl
        self._has_key = self._is_tls and config.security is not None and config.security.has_key

    async def explained(self, error: KcliError) -> KcliError:
        """Return the error with its cause, as far as it can be found; the same one otherwise."""
        address = self._node.address
        verdict = ssl_error_of(error) if self._is_tls else None
        if verdict is not None:
            return await self._refusal(verdict)
        if isinstance(error, TlsBroken):
            return no_tls(address) if await self._sees(self._kafka_without_tls) else error
        if not isinstance(error, HungUp | NotKafka):
            return error
        if self._is_tls and not self._has_key:
            verdict = await self._sees(self._alert)
            return error if verdict is None else await self._refusal(verdict)
        if not self._is_tls and await self._sees(self._tls):
            wanted = "SASL_SSL" if self._is_sasl else "SSL or SASL_SSL"
            return WrongProtocol(f"{address} speaks TLS", hint=f"set `security.protocol` to {wanted}")
        return error

    async def explained_loss(self, error: KcliError) -> KcliError:
        """Return the error of a connection that was closed at the first request after the versions."""
        if self._is_sasl or not await self._sees(self._sasl):
            return error
        wanted = "SASL_SSL" if self._is_tls else "SASL_PLAINTEXT"
        return LoginFailed(
            f"{self._node.address} wants a login",
            hint=f"set `security.protocol` to {wanted}, and `sasl.mechanism` and `sasl.jaas.config`",
        )

    async def _refusal(self, verdict: ssl.SSLError) -> KcliError:
        import ssl

        certificate = None
        if isinstance(verdict, ssl.SSLCertVerificationError):
            certificate = await self._sees(self._certificate)
        return tls_refusal(verdict, self._node, has_key=self._has_key, certificate=certificate)

    async def _sees(self, look: Callable[[trio.abc.Stream], Awaitable[Seen]]) -> Seen | None:
        """Return what one more connection shows, None if it shows nothing in time."""
        with trio.move_on_after(PROBE_SECONDS):
            try:
                stream = await self._open_stream(self._node, self._config)
            except Unreachable:
                return None
            try:
                return await look(stream)
            except (trio.BrokenResourceError, TlsBroken):
                # It hung up again: nothing is to be seen.
                return None
            finally:
                await trio.aclose_forcefully(stream)
        return None

    async def _kafka_without_tls(self, stream: trio.abc.Stream) -> bool:
        """Return whether a plain ApiVersions is answered."""
        return await _answer(stream, RequestHeader(18, 0, 1, None), ApiVersionsRequest()) is not None

    async def _tls(self, stream: trio.abc.Stream) -> bool:
        """Return whether a ClientHello is answered by TLS, be it an alert."""
        try:
            await secured(stream, self._node, _unchecked())
        except TlsBroken as error:
            verdict = ssl_error_of(error)
            return verdict is not None and "ALERT" in (verdict.reason or "")
        return True

    async def _certificate(self, stream: trio.abc.Stream) -> bytes | None:
        """Return the certificate that the broker shows."""
        tls = await secured(stream, self._node, _unchecked())
        found: bytes | None = tls.getpeercert(binary_form=True)
        return found

    async def _alert(self, stream: trio.abc.Stream) -> ssl.SSLError | None:
        """Return the alert that comes after a handshake; a request on its way would have lost it."""
        assert self._config.security is not None
        try:
            tls = await secured(stream, self._node, self._config.security.tls_context())
            await tls.receive_some(1)
        except (trio.BrokenResourceError, TlsBroken) as error:
            return ssl_error_of(error)
        return None

    async def _sasl(self, stream: trio.abc.Stream) -> bool:
        """Return whether the listener takes a login."""
        if self._is_tls:
            assert self._config.security is not None
            stream = await secured(stream, self._node, self._config.security.tls_context())
        answer = await _answer(stream, RequestHeader(17, 1, 1, None), SaslHandshakeRequest(mechanism=""))
        # No error, or one about the mechanism: the listener has SASL.
        return answer is not None and answer[4:6] in (b"\0\0", b"\0\x21")


def _unchecked() -> ssl.SSLContext:
    """Return a context that only looks: nothing is said on its connections."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _answer(stream: trio.abc.Stream, header: RequestHeader, request: object) -> bytes | None:
    """Return the frame that answers a request, from the correlation id on; None for anything else."""
    await stream.send_all(encode_request(header, request))
    received = b""
    while len(received) < 10:
        data = await stream.receive_some(4096)
        if not data:
            return None
        received += data
    return received[4:] if received[4:8] == (1).to_bytes(4, "big") else None
