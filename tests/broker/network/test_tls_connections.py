"""Connections over TLS, from the handshake to the end, with real sockets."""

from __future__ import annotations

import logging
import random
import socket
import ssl
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.listener_config import ListenerConfig
from kcli.broker.network import handshakes, socket_server
from kcli.broker.network.connection import MAX_LOGIN_SECONDS
from kcli.broker.network.handshakes import LINES_PER_SECOND, MAX_DUE, Handshakes
from kcli.broker.network.transport import Transport
from kcli.broker.security.listener_security import TlsSecurity
from kcli.broker.security.tls_contexts import TlsContexts
from kcli.broker.waiting.pause_gate import PauseGate
from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.network.frames import all_metadata, frame
from tests.broker.records import batch, fetch_request, fetched, produce_request, produced, values
from tests.broker.single_node import Client, Node, running_node
from tests.support.tls_pair import write_pem
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import trustme


APIS = frame(ApiVersionsRequest(), 0)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    import trustme

    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What a client trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def tls_node(directory: Path, authority: trustme.CA) -> AsyncIterator[Node]:
    """A node whose listener has TLS."""
    store = write_pem(authority.issue_cert("localhost"), directory / "broker.pem")
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    listener = ListenerConfig("SSL", "127.0.0.1", 0, "SSL")
    security = TlsSecurity(TlsContexts().open(BrokerConfig.from_properties(properties), listener))
    async with running_node(directory / "data", properties, security=security) as node:
        yield node


class TlsClient(Client):
    """A client that does one step of TLS at a time, as it is told."""

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext) -> None:
        super().__init__(stream)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def hello(self) -> bytes:
        """Return the first flight."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    async def shake_hands(self, *, last: bytes = b"") -> None:
        """Make the handshake; send `last` in one piece with the end of it."""
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._send_records()
                await self._receive_records()
        await self.send_bytes(last)

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes in one record."""
        if data:
            self.tls.write(data)
        await self._send_records()

    async def say_end(self) -> None:
        """Say that nothing more comes, and go on reading."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self._send_records()

    async def _send_records(self) -> None:
        if data := self._outgoing.read():
            await self.stream.send_all(data)

    async def _receive_records(self) -> None:
        data = await self.stream.receive_some()
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _fill(self, count: int) -> None:
        while len(self._received) < count:
            try:
                data = self.tls.read(1 << 20)
            except ssl.SSLWantReadError:
                await self._receive_records()
                continue
            if not data:
                raise EOFError("the broker closed the connection")
            self._received += data


@asynccontextmanager
async def tls_client(node: Node, context: ssl.SSLContext) -> AsyncIterator[TlsClient]:
    """Connect, without a handshake yet."""
    async with await trio.open_tcp_stream("127.0.0.1", node.port) as stream:
        yield TlsClient(stream, context)


class Requests(TlsClient):
    """A client that asks over TLS."""

    async def send(self, request: object, version: int, client_id: str | None = "test") -> int:
        self._correlation_id += 1
        await self.send_bytes(frame(request, version, self._correlation_id))
        return self._correlation_id


@asynccontextmanager
async def asking(node: Node, context: ssl.SSLContext) -> AsyncIterator[Requests]:
    """Connect and shake hands."""
    async with await trio.open_tcp_stream("127.0.0.1", node.port) as stream:
        client = Requests(stream, context)
        await client.shake_hands()
        yield client


@pytest.fixture(params=["reactor", "no reactor"])
def with_or_without_reactor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no reactor":
        monkeypatch.setattr(socket_server, "new_reactor", lambda _gate: None)


@pytest.mark.usefixtures("with_or_without_reactor")
async def test_records_are_produced_and_fetched(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    large = random.Random(1).randbytes(900_000)
    async with tls_node(tmp_path, authority) as node, asking(node, trusting) as client:
        node.create_topic("t")
        assert produced(await client.ask(produce_request("t", batch(b"one")), 9)).base_offset == 0
        assert produced(await client.ask(produce_request("t", batch(large)), 9)).base_offset == 1
        answer = await client.ask(fetch_request("t", 0), 12)
        assert values(fetched(answer)) == [(0, b"one"), (1, large)]


@pytest.mark.usefixtures("with_or_without_reactor")
async def test_a_waiting_fetch_is_answered_when_records_come(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    async with (
        tls_node(tmp_path, authority) as node,
        asking(node, trusting) as consumer,
        asking(node, trusting) as producer,
    ):
        node.create_topic("t")
        await consumer.send(fetch_request("t", 0, max_wait_ms=60_000), 12)
        await until(lambda: node.purgatory.parked)
        await producer.ask(produce_request("t", batch(b"late")), 9)
        with trio.fail_after(30):
            assert values(fetched((await consumer.receive(1, 12))[1])) == [(0, b"late")]


@pytest.mark.usefixtures("with_or_without_reactor")
async def test_requests_that_come_with_the_end_of_the_handshake_are_answered(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    """No event of the socket tells of them any more."""
    async with tls_node(tmp_path, authority) as node, tls_client(node, trusting) as client:
        with trio.fail_after(30):
            await client.shake_hands(last=APIS + APIS)
            assert await client.receive_frame() == await client.receive_frame()


@pytest.mark.usefixtures("with_or_without_reactor")
async def test_a_client_that_says_its_end_gets_the_answers_before(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    async with tls_node(tmp_path, authority) as node, asking(node, trusting) as client:
        node.create_topic("t")
        await client.send(fetch_request("t", 0, max_wait_ms=60_000), 12)
        await client.say_end()
        await until(lambda: node.purgatory.parked)
        async with asking(node, trusting) as producer:
            await producer.ask(produce_request("t", batch(b"late")), 9)
        with trio.fail_after(30):
            assert await client.stream.receive_some()
            await until(lambda: not node.server.connections)


async def test_what_a_client_that_is_gone_waited_for_is_dropped(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    """The first byte of the answer, by which the broker finds out, is encrypted."""
    async with tls_node(tmp_path, authority) as node:
        node.create_topic("t")
        async with asking(node, trusting) as client:
            await client.send(fetch_request("t", 0, max_wait_ms=60_000), 12)
            await until(lambda: node.purgatory.parked)
        await until(lambda: not node.purgatory.parked and not node.server.connections)


async def test_silent_clients_keep_nobody_out(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    async with tls_node(tmp_path, authority) as node:
        with ExitStack() as stack:
            address = ("127.0.0.1", node.port)
            for number in range(3 * MAX_DUE):
                silent = stack.enter_context(socket.create_connection(address))
                silent.sendall(b"\x16\x03\x01"[: number % 4])
            async with asking(node, trusting) as client:
                assert (await client.ask(all_metadata(), 9)).topics == []


async def test_a_handshake_that_takes_too_long_is_ended(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    async with (
        tls_node(tmp_path, authority) as node,
        asking(node, trusting) as served,
        tls_client(node, trusting) as slow,
        tls_client(node, trusting) as silent,
    ):
        await slow.stream.send_all(slow.hello()[:-1])
        await until(lambda: len(node.server.connections) == 3)
        now = trio.current_time()
        await node.server.sweep_once(now + MAX_LOGIN_SECONDS - 1)
        assert not slow.has_received
        assert not silent.has_received
        await node.server.sweep_once(now + MAX_LOGIN_SECONDS + 1)
        assert await slow.is_closed()
        assert await silent.is_closed()
        assert (await served.ask(all_metadata(), 9)).topics == []


class Slow(Transport):
    """A handshake of so many steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def advance(self) -> bool:
        self.steps -= 1
        return self.steps == 0


async def test_accepting_pauses_while_many_handshakes_are_due() -> None:
    gate = PauseGate()
    gate.close()
    shaken = Handshakes(gate)
    transports = [Slow(1) for _ in range(MAX_DUE)]
    async with trio.open_nursery() as nursery:
        for transport in transports:
            assert not shaken.are_many
            nursery.start_soon(shaken.step, transport)
            await trio.testing.wait_all_tasks_blocked()
        assert shaken.are_many
        with trio.move_on_after(0) as waiting:
            await shaken.until_few()
        assert waiting.cancelled_caught
        # Every listener of the node waits.
        async with trio.open_nursery() as listeners:
            listeners.start_soon(shaken.until_few)
            listeners.start_soon(shaken.until_few)
            await trio.testing.wait_all_tasks_blocked()
            gate.open()
        assert not shaken.are_many
    assert not any(transport.steps for transport in transports)


async def test_other_tasks_run_between_the_steps_of_handshakes() -> None:
    shaken = Handshakes(PauseGate())
    seen: list[int] = []
    transports = [Slow(1) for _ in range(20)]

    async def other() -> None:
        while any(transport.steps for transport in transports):
            seen.append(sum(transport.steps for transport in transports))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for transport in transports:
            nursery.start_soon(shaken.step, transport)
        nursery.start_soon(other)
    # Tasks run in no order: this one may be the first of a turn and then the last of the next.
    assert all(before - after <= 2 for before, after in pairwise(seen))


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        (b"\0\0\0\x10" + bytes(16), "the client speaks Kafka's protocol without TLS"),
        (bytes.fromhex("160301000402000000"), "unexpected message"),
        (bytes.fromhex("1503010002022a"), "the client does not speak TLS"),
    ],
    ids=["Kafka's protocol", "a broken hello", "an alert"],
)
async def test_a_failed_handshake_leads_to_an_alert_a_line_and_the_end(
    authority: trustme.CA,
    greeting: bytes,
    text: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        tls_node(tmp_path, authority) as node,
        await trio.open_tcp_stream("127.0.0.1", node.port) as stream,
    ):
        # More than the broker reads before it fails: closing at once would reset the connection.
        await stream.send_all(greeting + bytes(100_000))
        with trio.fail_after(30):
            alert = await stream.receive_some()
            assert alert[:1] == b"\x15"
            assert await stream.receive_some() == b""
    assert text in caplog.text.lower() or text in caplog.text


async def test_failures_beyond_some_are_counted_only(
    authority: trustme.CA, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "LINGER_SECONDS", 0.0)
    clock = [0.0]
    monkeypatch.setattr(handshakes.trio, "current_time", lambda: clock[0])
    caplog.set_level(logging.WARNING)
    async with tls_node(tmp_path, authority) as node:
        for count in (LINES_PER_SECOND + 5, 1):
            clock[0] += 10
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", node.port)) as client:
                    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    await trio.to_thread.run_sync(client.recv, 100)
    assert caplog.text.count("speaks HTTP") == LINES_PER_SECOND + 1
    assert "5 more clients were not let in" in caplog.text
