"""Memory of 10,000 connections, idle and with a parked fetch, and how those bear on a producer.

Idle means connected after one ApiVersions request. Parked means one fetch each at the end of one partition. A
producer to another partition must not notice them; then a single record answers them all.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.benchmarks import wire
from tests.benchmarks.measure import percentile, raise_file_limit, wait_until_idle
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table

if TYPE_CHECKING:
    from tests.benchmarks.peers import Peer
    from tests.support.raw_client import RawClient

CONNECTIONS = 10_000
PRODUCED = 500
PRODUCE_PAUSE_SECONDS = 0.005
PARKED_MS = 120_000
IDLE_LIMIT_KB, PARKED_LIMIT_KB = 8, 16
PRODUCER_LIMIT_MS = 50


def run() -> list[Table]:
    """Connect, look, park, look, wake; then produce beside consumers that poll."""
    raise_file_limit()
    table = Table("connections", (f"{CONNECTIONS} connections", "KB each"))
    batch, _ = wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)
    with ExitStack() as stack:
        peer = stack.enter_context(running("kcli"))["kcli"]
        producer = stack.enter_context(peer.connect())
        wire.make_topic(producer, "parked")
        wait_until_idle(peer.process.pid)
        before = peer.process.resident_bytes()
        clients = [_connect(stack, peer) for _ in range(CONNECTIONS)]
        idle = _kilobytes_each(peer, before)
        for client in clients:
            client.send(wire.fetch_frame("parked", 0, 1024, max_wait_ms=PARKED_MS))
        parked = _kilobytes_each(peer, before)
        table.add("idle", idle)
        table.add("parked", parked)
        times = _produce_beside(stack, peer, batch)
        p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
        table.notes.append(f"a producer beside the parked ones: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
        woken_ms = _wake(producer, batch, clients)
        table.notes.append(f"one record answers all parked ones in {woken_ms:.0f} ms")
    table.gates += [
        Gate("KB per idle connection", idle, IDLE_LIMIT_KB),
        Gate("KB per parked connection", parked, PARKED_LIMIT_KB),
        Gate("p99 of a producer beside the parked ones, ms", p99, PRODUCER_LIMIT_MS),
    ]
    return [table]


def _connect(stack: ExitStack, peer: Peer) -> RawClient:
    client = stack.enter_context(peer.connect())
    client.ask(ApiVersionsRequest(), 0)
    return client


def _kilobytes_each(peer: Peer, before: int) -> float:
    wait_until_idle(peer.process.pid)
    return (peer.process.resident_bytes() - before) / CONNECTIONS / 1024


def _wake(producer: RawClient, batch: bytes, clients: list[RawClient]) -> float:
    """Append one record; return after how many milliseconds the last fetch was answered."""
    poll = select.epoll()
    for client in clients:
        poll.register(client.socket.fileno(), select.EPOLLIN)
    started = time.perf_counter()
    producer.send(wire.produce_frame("parked", batch))
    answered: set[int] = set()
    while len(answered) < len(clients):
        for descriptor, _ in poll.poll():
            answered.add(descriptor)
            poll.unregister(descriptor)
    poll.close()
    return (time.perf_counter() - started) * 1000


def _produce_beside(stack: ExitStack, peer: Peer, batch: bytes) -> list[float]:
    """Produce to a topic of its own; return the milliseconds of each round trip."""
    client = stack.enter_context(peer.connect())
    wire.make_topic(client, "other")
    producing = wire.Producing(client, "other", batch)
    times = []
    for _ in range(PRODUCED):
        times.append(producing.one() * 1000)
        time.sleep(PRODUCE_PAUSE_SECONDS)
    return times
