"""TLS on a server's connection: what comes in, goes out and ends, whatever the socket takes at once."""

from __future__ import annotations

import random
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.network.outbox import Outbox
from kcli.broker.network.tls_failures import NoTlsClient, failure_text
from kcli.broker.network.tls_transport import STEPS, TlsListener, TlsTransport
from kcli.broker.network.transport import TURN_BYTES
from kcli.storage.log.file_records import FileRecords
from tests.support.hostile_tls import mutated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import trustme

PLAINTEXT_CLIENTS_ALERT = bytes.fromhex("15030100020246")


class Contexts:
    """Both sides' contexts; `client` trusts `server`."""

    def __init__(self, authority: trustme.CA) -> None:
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.options |= ssl.OP_NO_RENEGOTIATION
        authority.issue_cert("localhost").configure_cert(self.server)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(self.client)


@pytest.fixture(scope="module")
def contexts() -> Contexts:
    import trustme

    return Contexts(trustme.CA(key_type=trustme.KeyType.ECDSA))


class Peer:
    """A client whose records can be held back and cut: it knows no socket but that of its transport."""

    def __init__(self, contexts: Contexts, *, buffer_bytes: int = 0) -> None:
        ours, self.socket = socket.socketpair()
        if buffer_bytes:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        ours.setblocking(False)
        self.socket.setblocking(False)
        self.transport = TlsTransport(ours, TlsListener("SSL", contexts.server))
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = contexts.client.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()
        self.socket.close()

    def shake_hands(self) -> None:
        """Make the handshake."""
        is_over = False
        while not (is_over and self.transport.is_open):
            try:
                self.tls.do_handshake()
                is_over = True
            except ssl.SSLWantReadError:
                pass
            self.socket.send(self.outgoing.read())
            self.transport.advance()
            self.take()

    def take(self, count: int = 1 << 20) -> bool:
        """Take ciphertext off the socket; return whether there was any."""
        try:
            data = self.socket.recv(count)
        except BlockingIOError:
            return False
        self.incoming.write(data)
        return bool(data)

    def read(self) -> bytes:
        """Decrypt all that was taken."""
        parts = []
        try:
            while data := self.tls.read(1 << 20):
                parts.append(data)
        except ssl.SSLWantReadError:
            pass
        return b"".join(parts)


@pytest.fixture
def peer(contexts: Contexts) -> Iterator[Peer]:
    with Peer(contexts) as peer:
        peer.shake_hands()
        yield peer


def received(transport: TlsTransport, size: int = 1 << 20) -> bytes:
    """Receive once."""
    view = memoryview(bytearray(size))
    return bytes(view[: transport.receive_into(view)])


VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
SIZES = st.one_of(st.integers(1, 40), st.integers(1, 50_000))


@settings(max_examples=60, deadline=None)
@given(messages=st.lists(SIZES, max_size=12), seed=st.integers(0, 1 << 32))
def test_everything_arrives_once_and_in_order_if_it_is_looked_for_after_events_alone(
    contexts: Contexts, messages: list[int], seed: int
) -> None:
    """As with edge-triggered events: bytes that came are looked for until `more` says that none are left."""
    choose = random.Random(seed)
    with Peer(contexts) as peer:
        peer.shake_hands()
        sent = [choose.randbytes(size) for size in messages]
        for message in sent:
            peer.tls.write(message)
        ciphertext, got = memoryview(peer.outgoing.read()), bytearray()
        while ciphertext:
            size = peer.socket.send(ciphertext[: choose.choice((1, 5, 100, 4000, 20_000, 200_000))])
            ciphertext = ciphertext[size:]
            peer.transport.more = True
            while peer.transport.more:
                try:
                    got += received(peer.transport, choose.choice((1, 7, 1000, 16_384, 100_000)))
                except BlockingIOError:
                    assert not peer.transport.more
        assert bytes(got) == b"".join(sent)


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(SIZES, min_size=1, max_size=8), seed=st.integers(0, 1 << 32))
def test_everything_is_sent_once_and_in_order_through_a_small_socket(
    contexts: Contexts, sizes: list[int], seed: int
) -> None:
    choose = random.Random(seed)
    with Peer(contexts, buffer_bytes=choose.choice((1, 10_000, 100_000))) as peer:
        peer.shake_hands()
        outbox = Outbox(peer.transport)
        expected, got = bytearray(), bytearray()
        for size in sizes:
            data = choose.randbytes(size)
            expected += data
            outbox.add((data,))
            is_sent = outbox.send_now()
            assert is_sent == (not outbox.parts and peer.transport.is_flushed)
            if choose.random() < 0.3:
                peer.take(choose.choice((1, 3000, 100_000)))
        while len(got) < len(expected):
            peer.take(choose.choice((100, 3000, 100_000)))
            outbox.send_now()
            got += peer.read()
        assert outbox.send_now()
        assert got == expected


@pytest.mark.parametrize("buffer_bytes", [1, 50_000, 0])
def test_files_are_encrypted_on_their_way(contexts: Contexts, buffer_bytes: int, tmp_path: Path) -> None:
    choose = random.Random(buffer_bytes)
    data = choose.randbytes(3 * TURN_BYTES + 17)
    file = FileRecords.create(str(tmp_path / "log"))
    file.append(data)
    with Peer(contexts, buffer_bytes=buffer_bytes) as peer:
        peer.shake_hands()
        outbox = Outbox(peer.transport)
        outbox.add((b"head", file.slice(5, len(data) - 5), b"tail"))
        got = bytearray()
        while not outbox.send_now():
            peer.take()
            got += peer.read()
        while peer.take():
            got += peer.read()
        assert got == b"head" + data[5:] + b"tail"


def test_records_of_one_byte_are_served_in_turns(peer: Peer) -> None:
    for _ in range(3 * STEPS):
        peer.tls.write(b"x")
    peer.socket.send(peer.outgoing.read())
    sizes = []
    while peer.transport.more:
        sizes.append(len(received(peer.transport)))
    assert sum(sizes) == 3 * STEPS
    assert max(sizes) <= STEPS


def test_a_client_that_says_that_it_ends_still_gets_answers(peer: Peer) -> None:
    peer.tls.write(b"question")
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.socket.send(peer.outgoing.read())
    assert received(peer.transport) == b"question"
    assert peer.transport.more
    assert received(peer.transport) == received(peer.transport) == b""
    assert peer.transport.send(b"answer") == 6
    peer.take()
    with pytest.raises(ssl.SSLError, match=r"APPLICATION_DATA_AFTER_CLOSE_NOTIFY|application data"):
        peer.tls.unwrap()


@pytest.mark.parametrize("cut", [0, 10])
def test_a_client_that_ends_without_a_word_has_ended(peer: Peer, cut: int) -> None:
    peer.tls.write(b"question")
    record = peer.outgoing.read()
    peer.socket.send(record + record[:cut])
    peer.socket.shutdown(socket.SHUT_WR)
    assert received(peer.transport) == b"question"
    assert received(peer.transport) == received(peer.transport) == b""


def test_the_end_is_told_to_the_client(peer: Peer) -> None:
    peer.transport.close()
    peer.take()
    assert peer.tls.read(1) == b""


def test_a_mutated_record_ends_the_connection_with_an_alert(peer: Peer) -> None:
    peer.tls.write(b"question")
    record = bytearray(peer.outgoing.read())
    record[-1] ^= 1
    peer.socket.send(record)
    with pytest.raises(ssl.SSLError, match=r"BAD_RECORD_MAC|BAD_DECRYPT"):
        received(peer.transport)
    peer.transport.close()
    peer.take()
    with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
        peer.tls.read(1)


@pytest.mark.parametrize(
    ("greeting", "text"),
    [
        (b"\0\0\0\x20\0\x12\0\0", "the client speaks Kafka's protocol without TLS"),
        (b"GET / HTTP/1.1\r\n\r\n", "the client speaks HTTP, not TLS"),
        (b"PRI * HTTP/2.0\r\n\r\n", "the client speaks HTTP, not TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the client does not speak TLS"),
    ],
)
def test_a_client_without_tls_gets_an_alert(contexts: Contexts, greeting: bytes, text: str) -> None:
    with Peer(contexts) as peer:
        peer.socket.send(greeting)
        with pytest.raises(NoTlsClient) as failure:
            peer.transport.advance()
        assert failure_text(failure.value) == text
        peer.transport.end()
        assert peer.socket.recv(100) == PLAINTEXT_CLIENTS_ALERT
        assert peer.socket.recv(100) == b""


def test_a_hello_that_comes_byte_by_byte_makes_a_session_when_it_is_whole(contexts: Contexts) -> None:
    with Peer(contexts) as peer:
        with pytest.raises(ssl.SSLWantReadError):
            peer.tls.do_handshake()
        hello = peer.outgoing.read()
        for byte in hello[:-1]:
            peer.socket.send(bytes([byte]))
            assert not peer.transport.advance()
            assert peer.transport.peer_certificate is None
        peer.socket.send(hello[-1:])
        assert not peer.transport.advance()
        assert peer.take()
        peer.shake_hands()
        assert peer.transport.version == "TLSv1.3"


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 1 << 32), version=st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
)
def test_a_mutated_handshake_ends_or_waits_and_fails_in_no_other_way(
    contexts: Contexts, seed: int, version: ssl.TLSVersion
) -> None:
    choose = random.Random(seed)
    mutated_flight = choose.choice((0, 1))
    failure: str | None = None
    with Peer(contexts) as peer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = version
        peer.tls = context.wrap_bio(peer.incoming, peer.outgoing)
        try:
            for flight in range(3):
                with suppress(ssl.SSLWantReadError):
                    peer.tls.do_handshake()
                data = peer.outgoing.read()
                peer.socket.send(mutated(data, choose) if flight == mutated_flight else data)
                peer.transport.advance()
                peer.take()
        except (ssl.SSLError, NoTlsClient, ConnectionResetError) as error:
            failure = failure_text(error)  # Whichever side noticed.
        assert failure != ""
        peer.transport.end()
        peer.take()
