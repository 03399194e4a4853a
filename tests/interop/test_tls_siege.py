"""Thousands of clients that begin a handshake and do not end it: others hardly notice, memory stays flat."""

from __future__ import annotations

import socket
import ssl
import statistics
import threading
import time
from contextlib import ExitStack, closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.support.connections import many_files
from tests.support.hostile_tls import mutated
from tests.support.pinger import Pinger
from tests.support.tls_broker import TlsBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.interop

HALF_OPEN = 10_000
MEDIAN_SECONDS = 0.010
KILOBYTES_EACH = 10
SHAKING_SECONDS = 2.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path)
    with many_files(), closing(broker):
        broker.start()
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.messages()


def context_of(broker: TlsBroker) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(broker.trusted))


def hello(context: ssl.SSLContext) -> bytes:
    """A client's first flight."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def shake_hands(broker: TlsBroker, context: ssl.SSLContext, until: float) -> None:
    """Make one handshake after the other."""
    while time.monotonic() < until:
        with socket.create_connection(("127.0.0.1", broker.tls_port), timeout=60) as plain:
            context.wrap_socket(plain, server_hostname="localhost").close()


def test_half_open_and_slow_handshakes_delay_nobody(broker: TlsBroker, show: Callable[[str], None]) -> None:
    context = context_of(broker)
    first = hello(context)
    with ExitStack() as stack, many_files() as room:
        count = min(HALF_OPEN, room)
        tls = stack.enter_context(Pinger(broker.tls_bootstrap, context=context))
        plain = stack.enter_context(Pinger(f"127.0.0.1:{broker.plaintext_port}"))
        before = broker.process.resident_bytes()
        clients = []
        for number in range(count):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", broker.tls_port)))
            # Silent ones, those in the middle of their first record, and some that never answer the server.
            client.sendall(first if number % 100 == 0 else first[: number % 50])
            clients.append(client)
        for client in clients[1::10]:
            client.sendall(first[1:2])
        with context.wrap_socket(
            socket.create_connection(("127.0.0.1", broker.tls_port), timeout=60), server_hostname="localhost"
        ) as newcomer:
            assert newcomer.version() == "TLSv1.3"
        kilobytes = (broker.process.resident_bytes() - before) / count / 1024
    medians = [statistics.median(pinger.delays) * 1000 for pinger in (tls, plain)]
    show(
        f"{count} unfinished handshakes: {kilobytes:.1f} KB each, median delay {medians[0]:.2f} ms over TLS, "
        f"{medians[1]:.2f} ms without"
    )
    assert kilobytes < KILOBYTES_EACH
    assert max(medians) < MEDIAN_SECONDS * 1000


def test_handshakes_without_end_delay_nobody_much(broker: TlsBroker, show: Callable[[str], None]) -> None:
    context = context_of(broker)
    until = time.monotonic() + SHAKING_SECONDS
    threads = [threading.Thread(target=shake_hands, args=(broker, context, until)) for _ in range(4)]
    with Pinger(broker.tls_bootstrap, context=context) as tls:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    median_ms = statistics.median(tls.delays) * 1000
    show(f"beside four that shake hands all the time the median delay is {median_ms:.2f} ms")
    assert median_ms < MEDIAN_SECONDS * 1000


def test_mutated_handshakes_cost_their_connections_and_nothing_else(broker: TlsBroker) -> None:
    context, choose = context_of(broker), Random(1)
    first = hello(context)
    with Pinger(broker.tls_bootstrap, context=context) as tls:
        for _ in range(300):
            with socket.create_connection(("127.0.0.1", broker.tls_port), timeout=60) as client:
                client.sendall(mutated(first, choose))
                client.shutdown(socket.SHUT_WR)
                answer = received(client)
                assert answer[:1] in (b"", b"\x15", b"\x16")
    assert statistics.median(tls.delays) < MEDIAN_SECONDS


def received(client: socket.socket) -> bytes:
    """All that comes until the broker closes, which it does soon."""
    parts = []
    try:
        while data := client.recv(65536):
            parts.append(data)
    except ConnectionResetError:
        return b""
    return b"".join(parts)
