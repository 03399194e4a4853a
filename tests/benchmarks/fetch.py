"""Fetch throughput: librdkafka and raw frames, by the size of the stored batches.

Every peer holds the same records. librdkafka's consumer reads them with its defaults, but for the limits of
its queue; the raw rows send one fetch of up to 1 MiB after the other. The limit is `sendfile` of the same
number of bytes over loopback, read by the same loop.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.librdkafka import consume
from tests.benchmarks.measure import alternate
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "apache", "kfake")
MEGABYTE = 1_000_000
RUN_BYTES = 64 * MEGABYTE
ROUNDS = 9
FETCH_BYTES = 1024 * 1024
CASES = ((1000, 16_384), (1000, 131_072), (1000, 1_000_000), (100, 16_384), (100, 131_072))
CONSUMER_LIMIT_SHARE = 0.25
CONSUMER_MIN_RATE = 100
APACHE_FROM_BYTES = 131_072


def run() -> list[Table]:
    """Fill every peer for each case, then read in turn."""
    consumer = Table(
        "fetch: librdkafka, MB/s", ("records, batches", *PEERS, "limit", "kcli / limit", "kcli / apache")
    )
    raw = Table("fetch: raw frames, MB/s", consumer.head)
    with running(*PEERS, "drain") as found:
        drain = found.pop("drain")
        for table in (consumer, raw):
            table.head = ("records, batches", *found, "limit", "kcli / limit", "kcli / apache")
        for number, (record_bytes, batch_bytes) in enumerate(CASES):
            label = f"{record_bytes} B, {_size(batch_bytes)}"
            batch, records = wire.batch_of(batch_bytes, record_bytes)
            count = RUN_BYTES // len(batch)
            topic = f"case-{number}"
            for peer in found.values():
                _fill(peer, topic, batch, count)
            size = count * len(batch)
            limit = {"limit": partial(_rate, partial(_drain, drain, size), size)}
            consumers: dict[str, Callable[[], float]] = {
                name: partial(_consume_rate, peer, topic, count * records, size)
                for name, peer in found.items()
            }
            _add(consumer, label, alternate(consumers | limit, rounds=ROUNDS), batch_bytes, is_consumer=True)
            readers: dict[str, Callable[[], float]] = {
                name: partial(_read_rate, peer, topic, len(batch), records, count)
                for name, peer in found.items()
            }
            _add(raw, label, alternate(readers | limit, rounds=ROUNDS), batch_bytes, is_consumer=False)
    return [consumer, raw]


def _fill(peer: Peer, topic: str, batch: bytes, count: int) -> None:
    with peer.connect() as client:
        wire.make_topic(client, topic)
        # The first request belongs to the constructor.
        wire.Producing(client, topic, batch).stream(count - 1, 4)


def _consume_rate(peer: Peer, topic: str, records: int, size: int) -> float:
    return consume(peer.bootstrap, topic, records, {}) * size / records / MEGABYTE


def _read_rate(peer: Peer, topic: str, batch_bytes: int, batch_records: int, count: int) -> float:
    with peer.connect() as client:
        fetching = wire.Fetching(
            client, topic, batch_bytes=batch_bytes, batch_records=batch_records, max_bytes=FETCH_BYTES
        )
        return count * batch_bytes / fetching.read(count) / MEGABYTE


def _drain(drain: Peer, size: int) -> None:
    buffer = memoryview(bytearray(FETCH_BYTES))
    with drain.connect() as client:
        wire.send_size(client.socket, b"S", size)
        while size:
            size -= client.socket.recv_into(buffer)


def _rate(read: Callable[[], object], size: int) -> float:
    started = time.perf_counter()
    read()
    return size / (time.perf_counter() - started) / MEGABYTE


def _add(
    table: Table, label: str, found: Mapping[str, float], batch_bytes: int, *, is_consumer: bool
) -> None:
    kcli = found["kcli"]
    share = ratio(kcli, found["limit"])
    cells = [*found.values(), share]
    if "apache" in found:
        cells.append(ratio(kcli, found["apache"]))
        if batch_bytes >= APACHE_FROM_BYTES:
            table.gates.append(Gate(f"{label}: kcli / apache", cells[-1], 1, at_least=True))
    else:
        cells.append(float("nan"))
    table.add(label, *cells)
    if is_consumer and table.head and label.startswith("1000"):
        table.gates.append(Gate(f"{label}: kcli / limit", share, CONSUMER_LIMIT_SHARE, at_least=True))
        table.gates.append(Gate(f"{label}: kcli, MB/s", kcli, CONSUMER_MIN_RATE, at_least=True))


def _size(size: int) -> str:
    return "1 MB" if size == MEGABYTE else f"{size // 1024} KB"
