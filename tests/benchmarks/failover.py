"""Three nodes beside three Apache Kafka processes: acks=all throughput, and failover of leaders under load.

Apache Kafka's processes are brokers and controllers at once, with the same session time-outs. A failover is
from the leader's `kill -9`, whatever else that node does, to the first record acknowledged by another leader;
the time-out is most of it. In turn: while one of them is measured the other one idles.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.acknowledgements import Acknowledgements
from tests.benchmarks.clusters import (
    create_topic,
    leader_of,
    start_apache,
    start_kcli,
    wait_until_led,
)
from tests.benchmarks.librdkafka import Producer
from tests.benchmarks.measure import alternate
from tests.benchmarks.replication import RECORD_BYTES, rate
from tests.benchmarks.table import Gate, Table, figure
from tests.support.kcli_cluster import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.benchmarks.clusters import Cluster

TOPIC = "failover"
FAILOVERS = 20
SESSION_MS = 2000
BATCH_BYTES = 131_072
RUN_BYTES = 48_000_000
LOAD_SECONDS = 0.5
SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "200",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


def run() -> list[Table]:
    """Load both, and kill the leaders of both, in turn."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcli-benchmarks-")))
        clusters: dict[str, Cluster] = {
            "kcli": start_kcli(directory / "kcli", stack, SETTINGS),
            "Apache Kafka": start_apache(directory / "apache", stack, SETTINGS),
        }
        return [_throughput(clusters), _failovers(clusters)]


def _throughput(clusters: Mapping[str, Cluster]) -> Table:
    title = f"failover: librdkafka, acks=all, {RECORD_BYTES} B records, {BATCH_BYTES // 1024} KB, MB/s"
    table = Table(title, (*clusters, "kcli / Apache Kafka"))
    with ExitStack() as stack:
        subjects = {}
        for name, cluster in clusters.items():
            create_topic(cluster, "throughput")
            wait_until_led(cluster, "throughput", in_sync=NODES)
            config = {"batch.size": BATCH_BYTES, "acks": -1}
            producer = Producer(cluster.bootstraps[1], "throughput", wire.payloads(RECORD_BYTES), config)
            stack.callback(producer.close)
            producer.send(1)
            subjects[name] = partial(rate, producer, RUN_BYTES)
        ours, theirs = alternate(subjects).values()
    table.rows.append((figure(ours), figure(theirs), figure(ours / theirs)))
    table.gates.append(Gate("kcli / Apache Kafka", ours / theirs, 1, at_least=True))
    return table


def _failovers(clusters: Mapping[str, Cluster]) -> Table:
    found: dict[str, list[float]] = {name: [] for name in clusters}
    for cluster in clusters.values():
        create_topic(cluster, TOPIC)
    for _ in range(FAILOVERS):
        for name, cluster in clusters.items():
            found[name].append(_fail_over(cluster))
    table = Table(
        f"failover: kill -9 to first acknowledged record, {FAILOVERS} times, session {SESSION_MS} ms",
        ("", "median ms", "least ms", "most ms", "median without session"),
    )
    for name, values in found.items():
        table.add(name, median(values), min(values), max(values), median(values) - SESSION_MS)
    ours, theirs = (median(values) for values in found.values())
    table.gates.append(Gate("kcli / Apache Kafka, median", ours / theirs, 1))
    return table


def _fail_over(cluster: Cluster) -> float:
    """Kill the leader and start it again; return the milliseconds that records waited."""
    wait_until_led(cluster, TOPIC, in_sync=NODES)
    leader = leader_of(cluster, TOPIC)
    with Acknowledgements(",".join(cluster.bootstraps.values()), TOPIC) as load:
        load.first_sent_after(time.monotonic() + LOAD_SECONDS)
        began = time.monotonic()
        cluster.kill_node(leader)
        # What is sent from here on cannot have come to the one that is gone.
        taken = load.first_sent_after(time.monotonic()) - began
    cluster.start_node(leader)
    return taken * 1000
