"""Metadata of 1,000 topics with 10 partitions each: a round trip cold, and once it is cached.

Every version of the request has an encoding of its own, so its first answer is a cold one. That includes
generating the version's codec.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.metadata import MetadataRequest
from tests.benchmarks.measure import wait_until_idle
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table
from tests.benchmarks.wire import BenchmarkFailed
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from tests.benchmarks.peers import Peer
    from tests.support.raw_client import RawClient

TOPICS, PARTITIONS = 1_000, 10
CREATED_AT_ONCE = 100
VERSIONS = (5, 7, 8, 9, 12)
CACHED_REQUESTS = 20
CREATE_VERSION = 5
CREATE_TIMEOUT_MS = 60_000


def run() -> list[Table]:
    """Create the topics, then ask in every version: once cold, then again and again."""
    table = Table("metadata: ms", ("", "cold", "cached", "create, s"))
    with running("kcli", "kfake") as peers:
        for name, peer in peers.items():
            with peer.connect() as client:
                created = _create(client)
                wait_until_idle(peer.process.pid)
                cold, cached = _ask(peer)
            table.add(name, cold, cached, created)
            if name == "kcli":
                table.gates += [Gate("kcli, cold, ms", cold, 15), Gate("kcli, cached, ms", cached, 1)]
    return [table]


def _create(client: RawClient) -> float:
    """Create the topics; return the seconds that took."""
    started = time.perf_counter()
    for first in range(0, TOPICS, CREATED_AT_ONCE):
        topics = [
            CreatableTopic(
                name=f"topic-{number:04d}",
                num_partitions=PARTITIONS,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            for number in range(first, first + CREATED_AT_ONCE)
        ]
        answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=CREATE_TIMEOUT_MS), CREATE_VERSION)
        for topic in answer.topics:
            if topic.error_code:
                raise BenchmarkFailed(f"{topic.name}: error {topic.error_code}: {topic.error_message}")
    return time.perf_counter() - started


def _ask(peer: Peer) -> tuple[float, float]:
    cold, cached = [], []
    with peer.connect() as client:
        for version in VERSIONS:
            cold.append(_round_trip(client, version))
            cached += [_round_trip(client, version) for _ in range(CACHED_REQUESTS)]
    return median(cold), median(cached)


def _round_trip(client: RawClient, version: int) -> float:
    frame = request_frame(MetadataRequest(topics=None), version)
    buffer = memoryview(bytearray(1024 * 1024))
    started = time.perf_counter()
    client.send(frame)
    have, size = 0, 4
    while have < size:
        have += client.socket.recv_into(buffer[have:])
        size = 4 + int.from_bytes(buffer[:4], "big")
    return (time.perf_counter() - started) * 1000
