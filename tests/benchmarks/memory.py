"""Resident memory of idle brokers: kcli with one node and three, against its peers."""

from __future__ import annotations

from statistics import median

from tests.benchmarks.measure import wait_until_idle
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio

ROUNDS = 3
MEGABYTE = 1024 * 1024
SUBJECTS = (
    ("kcli, 1 node", "kcli", 1),
    ("kcli, 3 nodes", "kcli", 3),
    ("Apache Kafka, 1 node", "apache", 1),
    ("kfake, 1 node", "kfake", 1),
)


def run() -> list[Table]:
    """Start each of them alone, wait until it is idle, and look."""
    table = Table("memory", ("", "resident MB", "/ kcli"))
    found = {}
    for label, name, nodes in SUBJECTS:
        values = [size for _ in range(ROUNDS) if (size := _resident_bytes(name, nodes))]
        if values:
            found[label] = median(values) / MEGABYTE
    ours = found["kcli, 1 node"]
    for label, size in found.items():
        table.add(label, size, ratio(size, ours))
    if "Apache Kafka, 1 node" in found:
        theirs = found["Apache Kafka, 1 node"]
        table.gates.append(Gate("Apache Kafka / kcli, 1 node", theirs / ours, 8, at_least=True))
        three = 3 * theirs / found["kcli, 3 nodes"]
        table.notes.append(f"three Apache Kafka processes / kcli with 3 nodes: {three:.1f}")
    return [table]


def _resident_bytes(name: str, nodes: int) -> int:
    """Return the resident memory of an idle peer, 0 if there is none."""
    with running(name, nodes=nodes) as peers:
        for peer in peers.values():
            wait_until_idle(peer.process.pid)
            return peer.process.resident_bytes()
    return 0
