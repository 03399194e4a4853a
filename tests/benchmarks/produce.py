"""Produce throughput: librdkafka, raw frames and Java's producer, by batch size and record size.

librdkafka sends 1 KB and 100 B records in batches as large as the row says; "python" is confluent-kafka's
producer with its defaults, one call and one delivery callback per record. The raw rows send one ready-made
frame again and again, eight unanswered at most. The limit beside them is the same bytes over loopback with
nobody looking at them. The last table is what Apache Kafka's `kafka-producer-perf-test` says of itself with
its default settings, batches of 16 KB and acks=all.

With records of 100 B librdkafka is the limit, with its own mock cluster, too: the program's thread allocates
messages, the client's frees them, and both want one lock of the allocator. So kcli is compared with Apache
Kafka in the rows "jemalloc", with an allocator that has no such lock. In batches of 16 KB the broker is the
limit whatever their records are, which it looks at one by one.

Ratios are medians of what each round found, for the machine is not the same in each. kcli and Apache Kafka
keep little of what they are sent, so that its memory is used again: where a virtual machine has to ask its
host for every new page, that would be most of what is measured.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from functools import partial
from random import Random
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import confluent_kafka

from tests.benchmarks import wire
from tests.benchmarks.jemalloc import JemallocClient, find_jemalloc
from tests.benchmarks.librdkafka import LOG_ERRORS, Producer
from tests.benchmarks.measure import alternate_rounds, paired_ratio
from tests.benchmarks.peers import kafka_tools, running
from tests.benchmarks.table import Gate, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.benchmarks.peers import Peer
    from tests.support.apache_kafka import KafkaTools

PEERS = ("kcli", "mock", "apache", "kfake")
RIVALS = ("mock", "apache", "kfake")
SETTINGS = {
    "log.segment.bytes": "67108864",
    "log.retention.bytes": "67108864",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
MEGABYTE = 1_000_000
RUN_BYTES = 64 * MEGABYTE
CLIENT_RUN_BYTES = 192 * MEGABYTE
"""What librdkafka sends in one run: where the client is the limit, shorter runs differ by a tenth."""
ROUNDS = 9
PAYLOADS = 64
SMALL_BATCH_BYTES = 16_384
"""The default of Java's producer; the broker, not the client, is the limit."""
JAVA_RECORD_BYTES = (100, 1000)
JAVA_RUN_BYTES = 96 * MEGABYTE
JAVA_ROUNDS = 5
JAVA_WARM_UP = 2
JAVA_RATE = re.compile(r"([\d.]+) records/sec")
IN_FLIGHT = 8
PYTHON_RECORDS = 200_000


class Case(NamedTuple):
    """What librdkafka is to send, and the lowest share of the mock cluster's throughput for kcli.

    `largest_bytes` is above `record_bytes` for records of any size between them.
    """

    record_bytes: int
    batch_bytes: int
    codec: str
    gate: float
    largest_bytes: int = 0

    @property
    def label(self) -> str:
        """What its rows begin with."""
        records = f"{self.record_bytes} to {self.largest_bytes}" if self.largest_bytes else self.record_bytes
        return f"{records} B, {_size(self.batch_bytes)}, {self.codec}"

    @property
    def payloads(self) -> list[bytes]:
        """The values of the records, sent again and again."""
        values = wire.payloads(self.largest_bytes or self.record_bytes, PAYLOADS)
        if self.largest_bytes:
            sizes = Random(self.record_bytes)
            values = [value[: sizes.randint(self.record_bytes, self.largest_bytes)] for value in values]
        return values

    @property
    def is_gated(self) -> bool:
        """Whether the broker is the limit, so that kcli must not be slower than Apache Kafka."""
        if self.batch_bytes == SMALL_BATCH_BYTES:
            return True
        return self.record_bytes >= LARGE_RECORD_BYTES and _is_large(self.batch_bytes)

    @property
    def config(self) -> dict[str, object]:
        """The producer's configuration."""
        return {"batch.size": self.batch_bytes, "compression.codec": self.codec}


CASES = (
    Case(1000, SMALL_BATCH_BYTES, "none", 0.7),
    Case(1000, 131_072, "none", 0.5),
    Case(1000, 1_000_000, "none", 0.5),
    Case(1000, 1_000_000, "lz4", 0.85),
    Case(100, SMALL_BATCH_BYTES, "none", 0.7),
    Case(50, SMALL_BATCH_BYTES, "none", 0.7, largest_bytes=500),
    Case(100, 131_072, "none", 0.8),
    Case(100, 1_000_000, "none", 0.8),
)
RAW_CASES = ((1000, 16_384), (1000, 131_072), (1000, 1_000_000), (100, 16_384), (100, 131_072))
APACHE_FROM_BYTES = 131_072
"""From this batch size on kcli must not be slower than Apache Kafka."""
LARGE_RECORD_BYTES = 1000
"""From this size on librdkafka waits for the broker rather than for its allocator."""


def run() -> list[Table]:
    """Measure every case with every peer, in turn."""
    with running(*PEERS, "drain", settings=SETTINGS) as found, kafka_tools() as tools:
        peers = {name: peer for name, peer in found.items() if name != "drain"}
        tables = [_librdkafka(peers), _raw(peers, found["drain"])]
        if tools is not None:
            tables.append(_java(peers, tools))
        return tables


def _librdkafka(peers: Mapping[str, Peer]) -> Table:
    table = Table(
        "produce: librdkafka, MB/s",
        ("records, batches, codec", *peers, *(f"kcli / {name}" for name in RIVALS)),
    )
    library = find_jemalloc()
    for number, case in enumerate(CASES):
        topic = f"case-{number}"
        is_large = case.record_bytes >= LARGE_RECORD_BYTES
        producers = {name: _producer(peer, topic, case) for name, peer in peers.items()}
        size = sum(map(len, case.payloads))
        count = CLIENT_RUN_BYTES // size * PAYLOADS
        subjects = {
            name: partial(_rate, partial(producer.send, count), count // PAYLOADS * size)
            for name, producer in producers.items()
        }
        rates = alternate_rounds(subjects, rounds=ROUNDS)
        _add(table, case.label, rates, mock_gate=case.gate, is_gated=case.is_gated)
        for name, producer in producers.items():
            producer.close()
            _drop(peers[name], topic)
        if library is not None and not is_large and _is_large(case.batch_bytes):
            rates = _with_jemalloc(library, peers, topic, case)
            _add(table, f"{case.label}, jemalloc", rates, mock_gate=0, is_gated=True)
    subjects = {name: partial(_python_rate, peer) for name, peer in peers.items()}
    _add(table, "1000 B, python, none", alternate_rounds(subjects, rounds=ROUNDS), mock_gate=0.9)
    return table


def _producer(peer: Peer, topic: str, case: Case) -> Producer:
    with peer.connect() as client:
        wire.make_topic(client, topic)
    producer = Producer(peer.bootstrap, topic, case.payloads, case.config)
    producer.send(1)
    return producer


def _with_jemalloc(library: str, peers: Mapping[str, Peer], topic: str, case: Case) -> dict[str, list[float]]:
    subjects = {}
    with ExitStack() as stack:
        for name, peer in peers.items():
            with peer.connect() as connection:
                wire.make_topic(connection, topic)
            client = JemallocClient.producer(
                library, peer.bootstrap, topic=topic, record_bytes=case.record_bytes, config=case.config
            )
            stack.callback(client.close)
            subjects[name] = partial(client.move, CLIENT_RUN_BYTES // case.record_bytes)
        rates = alternate_rounds(subjects, rounds=ROUNDS)
    for peer in peers.values():
        _drop(peer, topic)
    return {name: [rate * case.record_bytes / MEGABYTE for rate in found] for name, found in rates.items()}


def _python_rate(peer: Peer) -> float:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "linger.ms": 5,
            "log_level": LOG_ERRORS,
            # The queue of a slow peer must not become full: that is an error, not a wait.
            "queue.buffering.max.messages": 2 * PYTHON_RECORDS,
        }
    )
    producer.produce("python", b"first")
    producer.flush()
    values = wire.payloads(1000)
    delivered = 0

    def count(error: object, _message: object) -> None:
        nonlocal delivered
        delivered += error is None

    started = time.perf_counter()
    for number in range(PYTHON_RECORDS):
        producer.produce("python", values[number % len(values)], partition=0, on_delivery=count)
        producer.poll(0)
    producer.flush(60)
    if delivered != PYTHON_RECORDS:
        raise wire.BenchmarkFailed(f"{delivered} of {PYTHON_RECORDS} records were delivered")
    rate = PYTHON_RECORDS * 1000 / (time.perf_counter() - started) / MEGABYTE
    _drop(peer, "python")
    return rate


def _drop(peer: Peer, topic: str) -> None:
    if peer.name != "mock":  # which forgets what it was given by itself
        with peer.connect() as client:
            wire.drop_topic(client, topic)


def _raw(peers: Mapping[str, Peer], drain: Peer) -> Table:
    table = Table(
        "produce: raw frames, MB/s",
        ("records, batches", *peers, "limit", *(f"kcli / {name}" for name in RIVALS)),
    )
    for number, (record_bytes, batch_bytes) in enumerate(RAW_CASES):
        batch, _ = wire.batch_of(batch_bytes, record_bytes)
        count = max(8, RUN_BYTES // len(batch))
        subjects: dict[str, Callable[[], float]] = {}
        clients = []
        for name, peer in peers.items():
            clients.append(peer.connect())
            topic = f"raw-{number}"
            wire.make_topic(clients[-1], topic)
            producing = wire.Producing(clients[-1], topic, batch)
            subjects[name] = partial(_rate, partial(producing.stream, count, IN_FLIGHT), count * len(batch))
        clients.append(drain.connect())
        subjects["limit"] = partial(_rate, partial(_drain, clients[-1], batch, count), count * len(batch))
        label = f"{record_bytes} B, {_size(batch_bytes)}"
        _add(table, label, alternate_rounds(subjects), mock_gate=0, is_gated=_is_large(batch_bytes))
        for client in clients:
            client.close()
        for peer in peers.values():
            _drop(peer, f"raw-{number}")
    return table


def _java(peers: Mapping[str, Peer], tools: KafkaTools) -> Table:
    """Return what Java's producer achieves with its defaults, which the mock cluster does not serve."""
    peers = {name: peer for name, peer in peers.items() if name != "mock"}
    table = Table(
        "produce: kafka-producer-perf-test, MB/s", ("records", *peers, *(f"kcli / {name}" for name in RIVALS))
    )
    for record_bytes in JAVA_RECORD_BYTES:
        topic = f"java-{record_bytes}"
        for peer in peers.values():
            with peer.connect() as client:
                wire.make_topic(client, topic)
        subjects = {
            name: partial(_perf_test, tools, peer, topic, record_bytes) for name, peer in peers.items()
        }
        found = alternate_rounds(subjects, rounds=JAVA_ROUNDS, warm_up=JAVA_WARM_UP)
        _add(table, f"{record_bytes} B", found, mock_gate=0, is_gated=True)
        for peer in peers.values():
            _drop(peer, topic)
    return table


def _perf_test(tools: KafkaTools, peer: Peer, topic: str, record_bytes: int) -> float:
    result = tools(
        "kafka-producer-perf-test", "--bootstrap-server", peer.bootstrap, "--topic", topic,
        "--num-records", str(JAVA_RUN_BYTES // record_bytes), "--record-size", str(record_bytes),
        "--throughput", "-1",
    )  # fmt: skip
    rates = JAVA_RATE.findall(result.output)
    if result.code or not rates:
        raise wire.BenchmarkFailed(result.errors or result.output)
    return float(rates[-1]) * record_bytes / MEGABYTE


def _drain(client: wire.RawClient, batch: bytes, count: int) -> None:
    wire.send_size(client.socket, b"R", count * len(batch))
    for _ in range(count):
        client.socket.sendall(batch)
    client.socket.recv(1)


def _rate(send: Callable[[], object], size: int) -> float:
    started = time.perf_counter()
    send()
    return size / (time.perf_counter() - started) / MEGABYTE


def _add(
    table: Table,
    label: str,
    found: Mapping[str, Sequence[float]],
    *,
    mock_gate: float,
    is_gated: bool = False,
) -> None:
    """Add a row; with `is_gated` kcli must be as fast as Apache Kafka, with `mock_gate` as kfake, too."""
    kcli = found["kcli"]
    against = {name: paired_ratio(kcli, found.get(name, [])) for name in RIVALS}
    table.add(label, *map(median, found.values()), *against.values())
    if mock_gate and "mock" in found:
        table.gates.append(Gate(f"{label}: kcli / mock", against["mock"], mock_gate, at_least=True))
    if is_gated and "apache" in found:
        table.gates.append(Gate(f"{label}: kcli / apache", against["apache"], 1, at_least=True))
    if is_gated and mock_gate and "kfake" in found:
        table.gates.append(Gate(f"{label}: kcli / kfake", against["kfake"], 1, at_least=True))


def _is_large(batch_bytes: int) -> bool:
    return batch_bytes >= APACHE_FROM_BYTES


def _size(size: int) -> str:
    return "1 MB" if size == MEGABYTE else f"{size // 1024} KB"
