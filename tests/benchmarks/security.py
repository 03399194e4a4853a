"""TLS: handshakes, small requests, produce and fetch, beside Apache Kafka and beside PLAINTEXT.

Both brokers have the same key, EC P-256, and speak TLS 1.3 with AES-256-GCM. A client on two cores is as slow
as a broker, so what counts is the broker's CPU time, garbage collection and compilers of the JVM included:
"/CPU s" is the rate of one core that does nothing else. Ratios are medians of what each round found.

A handshake is a whole one, on a connection of its own, that ends with the client's first request: resumed
sessions would be cheaper. Small requests are single records of 100 bytes. Produce and fetch move records of
1 KB in batches of 128 KB with librdkafka; the raw rows send ready-made requests.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.benchmarks import wire
from tests.benchmarks.librdkafka import Producer, consume
from tests.benchmarks.measure import alternate_rounds, cpu_seconds, paired_ratio
from tests.benchmarks.peers import APACHE_JVM_OPTIONS, BROKER_SETTINGS
from tests.benchmarks.table import Gate, Table
from tests.support.apache_kafka import ApacheKafka, KafkaTools
from tests.support.ports import free_ports
from tests.support.raw_client import RawClient, request_frame
from tests.support.tls_broker import TlsBroker
from tests.support.toolchain import need

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.processes import ChildProcess

MEGABYTE = 1_000_000
RECORD_BYTES, BATCH_BYTES = 1000, 131_072
RUN_BYTES = 128 * MEGABYTE
FETCH_BYTES = 1024 * 1024
HANDSHAKES = 300
FIRST_HANDSHAKES = 2_000
"""A JVM compiles what it does often."""
CONNECTIONS, IN_FLIGHT = 16, 4
SECONDS = 1.0
ROUNDS = 7
WARM_UP = 3
SETTINGS = {
    **BROKER_SETTINGS,
    "log.segment.bytes": "67108864",
    "log.retention.bytes": "268435456",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}


class TlsPeer(NamedTuple):
    """A running broker with a listener of each kind."""

    name: str
    process: ChildProcess
    plaintext: str
    tls: str
    authority: Path

    def librdkafka(self, *, tls: bool) -> dict[str, str]:
        """What a client of one of the listeners is configured with."""
        if not tls:
            return {"bootstrap.servers": self.plaintext}
        return {
            "bootstrap.servers": self.tls,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority),
        }

    def connect(self, *, tls: bool) -> RawClient:
        """Open a connection to one of the listeners."""
        client = RawClient(self.tls if tls else self.plaintext)
        if tls:
            client.socket = self.context().wrap_socket(client.socket, server_hostname="localhost")
        return client

    def context(self) -> ssl.SSLContext:
        """What a client trusts."""
        return ssl.create_default_context(cafile=str(self.authority))


def run() -> list[Table]:
    """Measure kcli and Apache Kafka in turn."""
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as directory, ExitStack() as stack:
        peers = _start(stack, Path(directory))
        return [_handshakes(peers), _small_requests(peers), _produce(peers), _fetch(peers)]


def _start(stack: ExitStack, directory: Path) -> list[TlsPeer]:
    need("java", "mvn")
    ours = TlsBroker(directory, settings=SETTINGS)
    stack.enter_context(closing(ours))
    ours.start()
    plaintext, secured, controller = (f"127.0.0.1:{port}" for port in free_ports(3))
    own = directory / "apache"
    own.mkdir()
    with closing(KafkaTools(own)) as tools:
        theirs = ApacheKafka(
            own,
            tools,
            settings={
                **SETTINGS,
                "controller.quorum.voters": f"1@{controller}",
                "listeners": f"PLAINTEXT://{plaintext},SSL://{secured},CONTROLLER://{controller}",
                "advertised.listeners": f"PLAINTEXT://{plaintext},SSL://{secured}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(ours.key_store),
            },
            jvm_options=APACHE_JVM_OPTIONS,
        )
    theirs.port = int(plaintext.rpartition(":")[2])
    theirs.start()
    stack.callback(theirs.kill)
    return [
        TlsPeer("kcli", ours.process, f"127.0.0.1:{ours.plaintext_port}", ours.tls_bootstrap, ours.trusted),
        TlsPeer("apache", theirs.process, plaintext, secured, ours.trusted),
    ]


class _Measured:
    """A subject that also keeps what it cost the broker: `per_core` has the rate of a core of its own."""

    def __init__(self, peer: TlsPeer, do: Callable[[], tuple[float, float]]) -> None:
        self._pid = peer.process.pid
        self._do = do
        self.per_core: list[float] = []

    def __call__(self) -> float:
        before = cpu_seconds(self._pid)
        amount, seconds = self._do()
        self.per_core.append(amount / (cpu_seconds(self._pid) - before))
        return amount / seconds


HEAD = ("", "kcli", "apache", "kcli / apache", "kcli, /CPU s", "apache, /CPU s", "kcli / apache, /CPU s")


def _add(table: Table, label: str, subjects: Mapping[str, _Measured], *, is_gated: bool = True) -> None:
    """Measure and add a row; with `is_gated` kcli must do at least as much in a second of CPU time."""
    found = alternate_rounds(subjects, rounds=ROUNDS, warm_up=WARM_UP)
    cores = {name: subject.per_core[WARM_UP:] for name, subject in subjects.items()}
    both = paired_ratio(cores["kcli"], cores["apache"])
    table.add(
        label,
        *(median(found[name]) for name in ("kcli", "apache")),
        paired_ratio(found["kcli"], found["apache"]),
        *(median(cores[name]) for name in ("kcli", "apache")),
        both,
    )
    if is_gated:
        table.gates.append(Gate(f"{table.title}, {label}: kcli / apache, /CPU s", both, 1, at_least=True))


def _handshakes(peers: list[TlsPeer]) -> Table:
    table = Table("TLS handshakes a second", HEAD)
    for peer in peers:
        _shake_hands(peer, FIRST_HANDSHAKES)
    _add(table, "TLS 1.3, P-256", {p.name: _Measured(p, partial(_shake_hands, p, HANDSHAKES)) for p in peers})
    return table


def _shake_hands(peer: TlsPeer, count: int) -> tuple[float, float]:
    context = peer.context()
    host, _, port = peer.tls.rpartition(":")
    request = request_frame(ApiVersionsRequest(), 0)
    started = time.perf_counter()
    for _ in range(count):
        with (
            socket.create_connection((host, int(port))) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(request)
            if not client.recv(4):
                raise wire.BenchmarkFailed("the connection was closed")
    return count, time.perf_counter() - started


def _small_requests(peers: list[TlsPeer]) -> Table:
    table = Table(f"requests a second, {CONNECTIONS} connections, {IN_FLIGHT} in flight each", HEAD)
    batch, _ = wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)
    for tls in (True, False):
        with ExitStack() as stack:
            subjects = {}
            for peer in peers:
                clients = [stack.enter_context(peer.connect(tls=tls)) for _ in range(CONNECTIONS)]
                wire.make_topic(clients[0], "single")
                connections = [wire.Producing(client, "single", batch) for client in clients]
                subjects[peer.name] = _Measured(peer, partial(_together, connections))
            _add(table, _label(tls=tls), subjects, is_gated=tls)
    return table


def _together(connections: list[wire.Producing]) -> tuple[float, float]:
    rate = wire.together(connections, IN_FLIGHT, SECONDS)
    return rate * SECONDS, SECONDS


def _produce(peers: list[TlsPeer]) -> Table:
    table = Table("produce, 1 KB records, 128 KB batches, MB/s", HEAD)
    batch, _ = wire.batch_of(BATCH_BYTES, RECORD_BYTES)
    count = RUN_BYTES // RECORD_BYTES
    for tls in (True, False):
        with ExitStack() as stack:
            subjects, raw = {}, {}
            for peer in peers:
                topic = f"produce-{tls}"
                client = stack.enter_context(peer.connect(tls=tls))
                wire.make_topic(client, topic)
                raw[peer.name] = _Measured(peer, partial(_stream, wire.Producing(client, topic, batch)))
                config = {**peer.librdkafka(tls=tls), "batch.size": BATCH_BYTES}
                producer = Producer(peer.tls, topic, wire.payloads(RECORD_BYTES), config)
                stack.callback(producer.close)
                subjects[peer.name] = _Measured(peer, partial(_send, producer, count))
            _add(table, f"{_label(tls=tls)}, librdkafka", subjects, is_gated=tls)
            _add(table, f"{_label(tls=tls)}, raw", raw, is_gated=tls)
    return table


def _send(producer: Producer, count: int) -> tuple[float, float]:
    started = time.perf_counter()
    producer.send(count)
    return count * RECORD_BYTES / MEGABYTE, time.perf_counter() - started


def _stream(producing: wire.Producing) -> tuple[float, float]:
    count = RUN_BYTES // len(producing.frame)
    seconds = producing.stream(count, 8)
    return count * len(producing.frame) / MEGABYTE, seconds


def _fetch(peers: list[TlsPeer]) -> Table:
    table = Table("fetch, 1 KB records, 128 KB batches, MB/s", HEAD)
    batch, records = wire.batch_of(BATCH_BYTES, RECORD_BYTES)
    batches = RUN_BYTES // len(batch)
    for peer in peers:
        with peer.connect(tls=False) as client:
            wire.make_topic(client, "fetch")
            wire.Producing(client, "fetch", batch).stream(batches - 1, 4)
    for tls in (True, False):
        with ExitStack() as stack:
            subjects, raw = {}, {}
            for peer in peers:
                client = stack.enter_context(peer.connect(tls=tls))
                fetching = wire.Fetching(
                    client, "fetch", batch_bytes=len(batch), batch_records=records, max_bytes=FETCH_BYTES
                )
                raw[peer.name] = _Measured(peer, partial(_read, fetching, batches, len(batch)))
                subjects[peer.name] = _Measured(peer, partial(_consume, peer, tls, batches * records))
            _add(table, f"{_label(tls=tls)}, librdkafka", subjects, is_gated=tls)
            _add(table, f"{_label(tls=tls)}, raw", raw, is_gated=tls)
    return table


def _consume(peer: TlsPeer, tls: bool, count: int) -> tuple[float, float]:
    rate = consume(peer.tls, "fetch", count, peer.librdkafka(tls=tls))
    return count * RECORD_BYTES / MEGABYTE, count / rate


def _read(fetching: wire.Fetching, batches: int, batch_bytes: int) -> tuple[float, float]:
    return batches * batch_bytes / MEGABYTE, fetching.read(batches)


def _label(*, tls: bool) -> str:
    return "TLS" if tls else "PLAINTEXT"
