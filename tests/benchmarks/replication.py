"""What replication costs: throughput, memory, and the time that 1,000 partitions take.

Three nodes in one process, every partition with a replica on each, against one node that has the only
replica. A partition is there when every node names a leader and three replicas in sync, and the last one
takes a record with acks=all.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import confluent_kafka

from tests.benchmarks import wire
from tests.benchmarks.clusters import create_topic, wait_until_led
from tests.benchmarks.librdkafka import LOG_ERRORS, Producer
from tests.benchmarks.measure import alternate, raise_file_limit, wait_until_idle
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio
from tests.support.kcli_cluster import NODES, KcliCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.peers import Peer

MEGABYTE = 1_000_000
RECORD_BYTES = 1000
RUN_BYTES = 96 * MEGABYTE
BATCHES = {"16 KB": 16_384, "128 KB": 131_072, "1 MB": 1_000_000}
GATED_BATCHES = "128 KB"
PARTITIONS = 1000
PARTITION_RECORDS = 20
ROUNDS = 3
TOPIC = "many"
SETTINGS = {"min.insync.replicas": "2", "log.segment.delete.delay.ms": "1000"}


def run() -> list[Table]:
    """Measure one after another."""
    raise_file_limit()
    return [_throughput(), _memory(), _many_partitions()]


@contextmanager
def _cluster() -> Iterator[KcliCluster]:
    with tempfile.TemporaryDirectory(prefix="kcli-benchmarks-") as directory:
        cluster = KcliCluster(Path(directory), settings=SETTINGS)
        try:
            cluster.broker.start()
            yield cluster
        finally:
            cluster.broker.close()


def _throughput() -> Table:
    table = Table(
        "replication: librdkafka, 1000 B records, MB/s",
        ("batches", "1 node, acks=1", "3 nodes, acks=1", "3 nodes, acks=all", "acks=all / 1 node"),
    )
    for label, size in BATCHES.items():
        with ExitStack() as stack:
            peer = stack.enter_context(running("kcli"))["kcli"]
            cluster = stack.enter_context(_cluster())
            rates = alternate(_subjects(peer, cluster, size, stack))
        alone, *_, all_acked = rates.values()
        table.add(label, *rates.values(), ratio(all_acked, alone))
        if label == GATED_BATCHES:
            gate = Gate(f"{label}: 3 nodes, acks=all / 1 node", ratio(all_acked, alone), 1 / 3, at_least=True)
            table.gates.append(gate)
    return table


def _subjects(
    peer: Peer, cluster: KcliCluster, batch_bytes: int, stack: ExitStack
) -> dict[str, Callable[[], float]]:
    with peer.connect() as client:
        wire.make_topic(client, "alone")
    for topic in ("one", "all"):
        create_topic(cluster, topic)
        wait_until_led(cluster, topic, in_sync=NODES)
    bootstrap = cluster.bootstraps[1]
    subjects: dict[str, Callable[[], float]] = {}
    for address, topic, acks in ((peer.bootstrap, "alone", 1), (bootstrap, "one", 1), (bootstrap, "all", -1)):
        config = {"batch.size": batch_bytes, "acks": acks}
        producer = Producer(address, topic, wire.payloads(RECORD_BYTES), config)
        stack.callback(producer.close)
        producer.send(1)
        subjects[topic] = partial(rate, producer)
    return subjects


def rate(producer: Producer, size_bytes: int = RUN_BYTES) -> float:
    """Send so many bytes and return how many megabytes a second were acknowledged."""
    started = time.perf_counter()
    producer.send(size_bytes // RECORD_BYTES)
    return size_bytes / (time.perf_counter() - started) / MEGABYTE


def _memory() -> Table:
    table = Table("replication: resident memory of three idle nodes", ("", "MB"))
    values = []
    for _ in range(ROUNDS):
        with _cluster() as cluster:
            wait_until_idle(cluster.broker.process.pid)
            values.append(cluster.broker.process.resident_bytes() / MEGABYTE)
            create_topic(cluster, "t")
            wait_until_led(cluster, "t", in_sync=NODES)
            wait_until_idle(cluster.broker.process.pid)
            with_topic = cluster.broker.process.resident_bytes() / MEGABYTE
    table.add("without topics", median(values))
    table.add("with a topic", with_topic)
    table.gates.append(Gate("without topics, MB", median(values), 60))
    return table


def _many_partitions() -> Table:
    results: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with _cluster() as cluster:
            create = partial(create_topic, cluster, TOPIC, partitions=PARTITIONS)
            results.setdefault("creation", []).append(_seconds_until_there(cluster, create))
            _fill(cluster)
            cluster.broker.stop()
            results.setdefault("start", []).append(_seconds_until_there(cluster, cluster.broker.start))
            _fill(cluster)
            cluster.broker.kill()
            results.setdefault("start after kill -9", []).append(
                _seconds_until_there(cluster, cluster.broker.start)
            )
            peak = cluster.broker.process.peak_resident_bytes() / MEGABYTE
    title = (
        f"replication: {PARTITIONS} partitions with {NODES} replicas, {PARTITION_RECORDS} KB written to each"
    )
    table = Table(title, ("", "s", "most s"))
    for (label, values), limit in zip(results.items(), (3, 5, 15), strict=True):
        table.add(label, median(values), max(values))
        table.gates.append(Gate(f"{label}, s", median(values), limit))
    table.notes.append(f"highest resident memory after `kill -9`: {peak:.0f} MB")
    return table


def _seconds_until_there(cluster: KcliCluster, begin: Callable[[], object]) -> float:
    started = time.perf_counter()
    begin()
    wait_until_led(cluster, TOPIC, partitions=PARTITIONS, in_sync=NODES)
    _write(cluster, [PARTITIONS - 1])
    return time.perf_counter() - started


def _fill(cluster: KcliCluster) -> None:
    _write(cluster, list(range(PARTITIONS)) * PARTITION_RECORDS)


def _write(cluster: KcliCluster, partitions: list[int]) -> None:
    """Write a record to each partition named, with acks=all."""
    config = {"bootstrap.servers": cluster.bootstraps[1], "acks": "all", "log_level": LOG_ERRORS}
    producer = confluent_kafka.Producer(config)
    failures = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in partitions:
        producer.produce(TOPIC, bytes(RECORD_BYTES), partition=number, on_delivery=delivered)
    if producer.flush(60) or failures:
        raise wire.BenchmarkFailed(f"records were not delivered: {failures[:1]}")
