"""Logins of a connection: their requests, what is refused, and the next login before a session ends."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from trio.testing import memory_stream_pair

from kcli.client.client import connect
from kcli.client.config import ClientConfig
from kcli.client.network.bootstrap import LoginFailed
from kcli.client.network.connection import Connection
from kcli.protocol.frames import FrameReader, encode_response, parse_request_header
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeResponse
from kcli.protocol.schema.declaration import codec
from kcli.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kcli.security.principal import Principal
from kcli.security.sasl import Authenticated
from kcli.security.scram import MECHANISMS, Known, ScramCredential, ScramExchange, ScramMechanism

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.network.metadata import Node

HANDSHAKE, AUTHENTICATE, VERSIONS, OTHER = 17, 36, 18, 22
TOKEN = b"\0alice\0secret"


class Broker:
    """The broker's end of a connection that logs in; `login` has the keys of a login in order."""

    def __init__(
        self, *, handshake_version: int = 1, lifetime_ms: int = 0, exchange: ScramExchange | None = None
    ) -> None:
        self.ours, self.theirs = memory_stream_pair()
        self.asked: list[int] = []
        self.tokens: list[bytes] = []
        self.mechanisms = ["PLAIN"]
        self.error_code = self.handshake_code = 0
        self._keys = {VERSIONS: 4, HANDSHAKE: handshake_version, AUTHENTICATE: 2, OTHER: 4}
        self._lifetime_ms = lifetime_ms
        self._reader = FrameReader(10**6)
        self._is_raw = False
        self.exchange = exchange
        mechanism, module = ("PLAIN", PLAIN_MODULE) if exchange is None else ("SCRAM-SHA-256", SCRAM_MODULE)
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="alice" password="secret";',
        }
        self.config = ClientConfig.from_properties(properties)
        self.connection = Connection(self.ours, "peer:9092", self.config)

    async def serve(self) -> None:
        """Answer every request."""
        while data := await self.theirs.receive_some():
            self._reader.feed(data)
            for frame in self._reader:
                await self.theirs.send_all(self._answer(frame))

    def _answer(self, frame: bytearray) -> bytes:
        if self._is_raw:
            self.tokens.append(bytes(frame))
            self._is_raw = False
            return bytes(4)
        header, body = parse_request_header(frame)
        self.asked.append(header.api_key)
        response: Any = InitProducerIdResponse(producer_id=len(self.asked), producer_epoch=0)
        if header.api_key == VERSIONS:
            keys = [
                ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in self._keys.items()
            ]
            response = ApiVersionsResponse(api_keys=keys)
        elif header.api_key == HANDSHAKE:
            response = SaslHandshakeResponse(error_code=self.handshake_code, mechanisms=self.mechanisms)
            self._is_raw = header.api_version == 0
        elif header.api_key == AUTHENTICATE:
            request, _ = codec(SaslAuthenticateRequest, header.api_version).decode(frame, body)
            self.tokens.append(request.auth_bytes)
            response = SaslAuthenticateResponse(
                error_code=self.error_code,
                error_message="who?",
                auth_bytes=self.exchange.step(request.auth_bytes) if self.exchange else b"",
                session_lifetime_ms=self._lifetime_ms,
            )
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)


async def with_broker(broker: Broker, test: Callable[[Connection], Awaitable[None]]) -> None:
    """Run a test against a connection that has logged in."""
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.serve)
        nursery.start_soon(broker.connection.run, ready.set)
        await ready.wait()
        await test(broker.connection)
        nursery.cancel_scope.cancel()


async def ask(connection: Connection) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    await connection.request(request, 4)


@pytest.mark.parametrize(("version", "login"), [(1, [HANDSHAKE, AUTHENTICATE]), (0, [HANDSHAKE])])
async def test_a_login_comes_before_other_requests(
    version: int, login: list[int], autojump_clock: trio.testing.MockClock
) -> None:
    broker = Broker(handshake_version=version)
    await with_broker(broker, ask)
    assert broker.asked == [VERSIONS, *login, OTHER]
    assert broker.tokens == [TOKEN]


async def test_the_next_login_comes_late_in_a_session_with_nothing_in_flight(
    autojump_clock: trio.testing.MockClock,
) -> None:
    broker = Broker(lifetime_ms=10_000)

    async def test(connection: Connection) -> None:
        begin = trio.current_time()
        logins = []
        for _ in range(300):
            before = broker.asked.count(AUTHENTICATE)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask, connection)
            if broker.asked.count(AUTHENTICATE) > before:
                logins.append(trio.current_time() - begin)
            await trio.sleep(0.1)
        times = [0.0, *logins]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert len(gaps) == 3
        assert all(8.5 <= gap <= 9.7 for gap in gaps), gaps

    await with_broker(broker, test)
    assert broker.asked.count(HANDSHAKE) == 4
    assert set(broker.tokens) == {TOKEN}


async def test_a_credential_that_is_gone_at_the_next_login_fails_what_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    broker = Broker(lifetime_ms=1000)

    async def test(connection: Connection) -> None:
        await trio.sleep(0.99)
        broker.error_code = 58
        with pytest.raises(LoginFailed, match="authentication failed as alice at peer:9092"):
            await ask(connection)

    await with_broker(broker, test)


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (33, "peer:9092 does not offer the SASL mechanism PLAIN",
         "set `sasl.mechanism` to one that it offers: GSSAPI, OAUTHBEARER"),
        (34, "the listener peer:9092 has no SASL",
         "set `security.protocol` to PLAINTEXT, or use the port of a SASL listener"),
    ],
)  # fmt: skip
async def test_what_a_listener_has_not_is_told(code: int, message: str, hint: str) -> None:
    broker = Broker()
    broker.handshake_code, broker.mechanisms = code, ["GSSAPI", "OAUTHBEARER"]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.serve)
        with pytest.raises(LoginFailed) as raised:
            await broker.connection.run(lambda: None)
        nursery.cancel_scope.cancel()
    assert (raised.value.message, raised.value.hint) == (message, hint)


@pytest.mark.parametrize("is_genuine", [True, False])
async def test_a_broker_proves_that_it_knows_the_password(is_genuine: bool) -> None:
    scram = MECHANISMS["SCRAM-SHA-256"]
    credential = ScramCredential.of(scram, scram.salted_password("secret", b"salt", 4096), b"salt", 4096)
    if not is_genuine:
        credential = credential._replace(server_key=bytes(32))
    known = Known(credential, Authenticated(Principal("User", "alice")))
    broker = Broker(exchange=ScramMechanism(scram, lambda name, is_token: known).begin())
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.serve)
        if is_genuine:
            nursery.start_soon(broker.connection.run, ready.set)
            await ready.wait()
        else:
            with pytest.raises(LoginFailed) as raised:
                await broker.connection.run(ready.set)
            assert raised.value.message.startswith(
                "cannot log in to peer:9092: the broker does not know the password"
            )
        nursery.cancel_scope.cancel()
    assert ready.is_set() is is_genuine
    assert broker.asked == [VERSIONS, HANDSHAKE, AUTHENTICATE, AUTHENTICATE]


async def test_a_refused_login_is_told_at_once_and_not_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    opened: list[Broker] = []

    async def open_stream(node: Node, config: ClientConfig) -> trio.abc.Stream:
        broker = Broker()
        broker.error_code = 58
        opened.append(broker)
        nursery.start_soon(broker.serve)
        return broker.ours

    config = Broker().config
    async with trio.open_nursery() as nursery:
        begin = trio.current_time()
        with pytest.raises(LoginFailed, match="authentication failed as alice at peer:9092"):
            async with connect("peer:9092", config, open_stream=open_stream):
                raise AssertionError("it is refused")
        assert (len(opened), trio.current_time() - begin) == (1, 0.0)
        nursery.cancel_scope.cancel()
