"""Fetch throughput: librdkafka, raw frames and Java's consumer, by the size of the stored batches.

Every peer holds the same records. librdkafka's consumer reads them with its defaults, but for the limits of
its queue; the raw rows send one fetch of up to 1 MiB after the other; the last table is what Apache Kafka's
`kafka-consumer-perf-test` says of itself. The limit is `sendfile` of the same number of bytes over loopback,
read by the loop of the raw rows. Ratios are medians of what each round found, for the machine is not the same
from round to round; beside them stands what a broker's process takes of the CPU.

With records of 100 B librdkafka is the limit: its thread parses and allocates, the program's thread frees,
and both want one lock of the allocator for every record, the more so the sooner a broker answers. So brokers
are compared in the rows "jemalloc", with an allocator that has no such lock. In the row "one core" both
threads have one core, so that they hardly meet at it. Java's consumer, too, is limited by itself.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import wire
from tests.benchmarks.jemalloc import JemallocClient, find_jemalloc
from tests.benchmarks.librdkafka import consume
from tests.benchmarks.measure import alternate_rounds, cpu_seconds, on_cores, paired_ratio
from tests.benchmarks.peers import kafka_tools, running
from tests.benchmarks.table import Gate, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.benchmarks.peers import Peer
    from tests.support.apache_kafka import KafkaTools

PEERS = ("kcli", "apache", "kfake")
MEGABYTE = 1_000_000
RUN_BYTES = 128 * MEGABYTE
RAW_PASSES = 4
"""One takes 20 ms, in which other programs count for much."""
ROUNDS = 6
WARM_UP = 2
FIRST_READS = 30
"""So often a broker is read before anything is measured: a JVM goes on compiling for 15 GB."""
FETCH_BYTES = 1024 * 1024
LAST_COLUMNS = ("limit", "kcli / limit", "kcli / apache", "kcli, CPU s/GB", "apache, CPU s/GB")
CONSUMER_LIMIT_SHARE = 0.25
CONSUMER_MIN_RATE = 100
APACHE_FROM_BYTES = 131_072
LARGE_RECORD_BYTES = 1000
"""From this size on librdkafka waits for the broker rather than for its allocator."""
ONE_CORE, JEMALLOC = "one core", "jemalloc"
RATE_FIELD = 8
"""Megabytes of 2^20 bytes a second, without the time to join the group, in the line of the perf test."""


class Case(NamedTuple):
    """The records to read, and how else librdkafka is to read them."""

    record_bytes: int
    batch_bytes: int
    variants: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What its rows begin with."""
        size = "1 MB" if self.batch_bytes == MEGABYTE else f"{self.batch_bytes // 1024} KB"
        return f"{self.record_bytes} B, {size}"


CASES = (
    Case(1000, 16_384),
    Case(1000, 131_072),
    Case(1000, MEGABYTE),
    Case(100, 16_384),
    Case(100, 131_072, (ONE_CORE, JEMALLOC)),
    Case(100, MEGABYTE, (JEMALLOC,)),
)


def run() -> list[Table]:
    """Fill every peer for each case, then read in turn."""
    library = find_jemalloc()
    with running(*PEERS, "drain") as found, kafka_tools() as tools:
        drain = found.pop("drain")
        head = ("records, batches", *found, *LAST_COLUMNS)
        titles = ("librdkafka", "raw frames", "kafka-consumer-perf-test")
        consumer, raw, java = tables = [Table(f"fetch: {title}, MB/s", head) for title in titles]
        for number, case in enumerate(CASES):
            topic = _Topic(f"case-{number}", case)
            for peer in found.values():
                topic.fill(peer)
                for _ in range(FIRST_READS if number == 0 else 0):
                    topic.read(peer)
            rows = _Rows(case, found, topic.size, drain)
            rows.add(consumer, topic.consume, is_gated=case.record_bytes >= LARGE_RECORD_BYTES)
            if ONE_CORE in case.variants:
                with on_cores(os.getpid(), {max(os.sched_getaffinity(0))}):
                    rows.add(consumer, topic.consume, ONE_CORE)
            if JEMALLOC in case.variants and library is not None:
                with _jemalloc_clients(library, found, topic) as clients:
                    read = partial(topic.consume_with, clients)
                    rows.add(consumer, read, JEMALLOC, is_gated=True)
            rows.add(raw, topic.read, passes=RAW_PASSES, is_gated=True)
            if tools is not None:
                rows.add(java, partial(topic.perf_test, tools), is_gated=True)
            for peer in found.values():
                with peer.connect() as client:
                    wire.drop_topic(client, topic.name)
    return tables


@contextmanager
def _jemalloc_clients(
    library: str, peers: Mapping[str, Peer], topic: _Topic
) -> Iterator[dict[str, JemallocClient]]:
    with ExitStack() as stack:
        clients = {}
        for name, peer in peers.items():
            clients[name] = client = JemallocClient.consumer(library, peer.bootstrap, topic=topic.name)
            stack.callback(client.close)
        yield clients


class _Topic:
    """The topic of a case, and every way to read all of it; each returns MB/s."""

    def __init__(self, name: str, case: Case) -> None:
        self.name = name
        self._batch, self._batch_records = wire.batch_of(case.batch_bytes, case.record_bytes)
        self._batches = RUN_BYTES // len(self._batch)
        self._records = self._batches * self._batch_records
        self.size = self._batches * len(self._batch)

    def fill(self, peer: Peer) -> None:
        with peer.connect() as client:
            wire.make_topic(client, self.name)
            # The first request belongs to the constructor.
            wire.Producing(client, self.name, self._batch).stream(self._batches - 1, 4)

    def consume(self, peer: Peer) -> float:
        return self._bytes(consume(peer.bootstrap, self.name, self._records, {}))

    def consume_with(self, clients: Mapping[str, JemallocClient], peer: Peer) -> float:
        return self._bytes(clients[peer.name].move(self._records))

    def _bytes(self, records_per_second: float) -> float:
        return records_per_second * self.size / self._records / MEGABYTE

    def read(self, peer: Peer) -> float:
        with peer.connect() as client:
            fetching = wire.Fetching(
                client,
                self.name,
                batch_bytes=len(self._batch),
                batch_records=self._batch_records,
                max_bytes=FETCH_BYTES,
            )
            seconds = sum(fetching.read(self._batches) for _ in range(RAW_PASSES))
            return RAW_PASSES * self.size / seconds / MEGABYTE

    def perf_test(self, tools: KafkaTools, peer: Peer) -> float:
        result = tools(
            "kafka-consumer-perf-test", "--bootstrap-server", peer.bootstrap, "--topic", self.name,
            "--num-records", str(self._records), "--timeout", "60000", "--hide-header",
        )  # fmt: skip
        if result.code:
            raise wire.BenchmarkFailed(result.errors or result.output)
        return float(result.lines[-1].split(",")[RATE_FIELD]) * 2**20 / MEGABYTE


class _Reader:
    """Reads everything of one peer, and keeps what that took of the peer's CPU time."""

    def __init__(self, peer: Peer, size: int, read: Callable[[], float]) -> None:
        self._peer = peer
        self._size = size
        self._read = read
        self.cpu_per_gigabyte: list[float] = []

    def __call__(self) -> float:
        pid = self._peer.process.pid
        before = cpu_seconds(pid)
        rate = self._read()
        self.cpu_per_gigabyte.append((cpu_seconds(pid) - before) / self._size * 1e9)
        return rate


class _Rows:
    """Makes the rows of one case, each with every peer and the limit in turn."""

    def __init__(self, case: Case, peers: Mapping[str, Peer], size: int, drain: Peer) -> None:
        self._case = case
        self._peers = peers
        self._size = size
        self._limit = partial(_drain, drain, size)

    def add(
        self,
        table: Table,
        read: Callable[[Peer], float],
        variant: str = "",
        *,
        passes: int = 1,
        is_gated: bool = False,
    ) -> None:
        """Read with `read`, everything so often, and add the rates; with `is_gated` brokers are compared."""
        case = self._case
        readers = {
            name: _Reader(peer, passes * self._size, partial(read, peer))
            for name, peer in self._peers.items()
        }
        subjects: dict[str, Callable[[], float]] = {**readers, "limit": self._limit}
        found = alternate_rounds(subjects, rounds=ROUNDS, warm_up=WARM_UP)
        against = {name: paired_ratio(found["kcli"], found.get(name, [])) for name in ("limit", "apache")}
        cpu = [
            median(readers[name].cpu_per_gigabyte[WARM_UP:]) if name in readers else float("nan")
            for name in ("kcli", "apache")
        ]
        label = f"{case.label}, {variant}" if variant else case.label
        table.add(label, *map(median, found.values()), *against.values(), *cpu)
        if is_gated and case.batch_bytes >= APACHE_FROM_BYTES and "apache" in found:
            table.gates.append(Gate(f"{label}: kcli / apache", against["apache"], 1, at_least=True))
        if table.title.startswith("fetch: librdkafka") and case.record_bytes >= LARGE_RECORD_BYTES:
            share, rate = against["limit"], median(found["kcli"])
            table.gates.append(Gate(f"{label}: kcli / limit", share, CONSUMER_LIMIT_SHARE, at_least=True))
            table.gates.append(Gate(f"{label}: kcli, MB/s", rate, CONSUMER_MIN_RATE, at_least=True))


def _drain(drain: Peer, size: int) -> float:
    buffer = memoryview(bytearray(FETCH_BYTES))
    left = size
    started = time.perf_counter()
    with drain.connect() as client:
        wire.send_size(client.socket, b"S", size)
        while left:
            left -= client.socket.recv_into(buffer)
    return size / (time.perf_counter() - started) / MEGABYTE
