"""Leader failover under load: from the leader's `kill -9` to the first record acknowledged by another leader.

kcli with three nodes beside three Apache Kafka processes that are brokers and controllers at once, with equal
session time-outs. Whoever leads the topic is killed, whatever else the node does; that time-out is most of
what is measured. In turn: while one of them fails over the other one idles.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.acknowledgements import Acknowledgements
from tests.benchmarks.clusters import (
    ApacheNodes,
    create_topic,
    leader_of,
    wait_until_led,
)
from tests.benchmarks.table import Gate, Table
from tests.support.apache_cluster import ApacheCluster
from tests.support.apache_kafka import KafkaTools
from tests.support.kcli_cluster import NODES, KcliCluster

if TYPE_CHECKING:
    from tests.benchmarks.clusters import Cluster

TOPIC = "failover"
FAILOVERS = 20
SESSION_MS = 2000
LOAD_SECONDS = 0.5
SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "200",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
}


def run() -> list[Table]:
    """Kill leaders of both, in turn."""
    found: dict[str, list[float]] = {"kcli": [], "Apache Kafka": []}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcli-benchmarks-")))
        clusters: dict[str, Cluster] = {
            "kcli": _kcli(directory / "kcli", stack),
            "Apache Kafka": _apache(directory / "apache", stack),
        }
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
    return [table]


def _kcli(directory: Path, stack: ExitStack) -> Cluster:
    directory.mkdir()
    cluster = KcliCluster(directory, settings=SETTINGS)
    stack.callback(cluster.broker.close)
    cluster.broker.start()
    return cluster


def _apache(directory: Path, stack: ExitStack) -> Cluster:
    directory.mkdir()
    tools = KafkaTools(directory)
    try:
        cluster = ApacheCluster(directory, tools, nodes=NODES, settings=SETTINGS)
    finally:
        tools.close()
    stack.callback(cluster.kill)
    cluster.start()
    return ApacheNodes(cluster)


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
