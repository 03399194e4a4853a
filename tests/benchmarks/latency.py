"""Round trips of single records with acks=1: one in flight, and 16 connections with 4 each.

The frame is ready-made, 100 bytes of record. `blocking` is kcli's own engine behind a blocking thread: what
is above it is the price of the trio loop. CPU is that of the broker, per request.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.measure import ROUNDS, alternate, cpu_seconds, percentile
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio

if TYPE_CHECKING:
    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "blocking", "mock", "apache", "kfake")
REQUESTS = 2_000
WARM_UP_REQUESTS = 5_000
CONNECTIONS, IN_FLIGHT = 16, 4
SECONDS = 1.0


def run() -> list[Table]:
    """Measure both ways with every peer, in turn."""
    batch, _ = wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)
    with ExitStack() as stack:
        peers = stack.enter_context(running(*PEERS))
        single = {}
        for name, peer in peers.items():
            client = stack.enter_context(peer.connect())
            wire.make_topic(client, "single")
            single[name] = wire.Producing(client, "single", batch)
            for _ in range(WARM_UP_REQUESTS):
                single[name].one()
        table = _round_trips(single)
        for each in single.values():
            each.socket.close()
        peers.pop("blocking", None)
        return [table, _together(stack, peers, batch)]


def _round_trips(single: dict[str, wire.Producing]) -> Table:
    p50: dict[str, list[float]] = {name: [] for name in single}
    p99: dict[str, list[float]] = {name: [] for name in single}
    for _ in range(ROUNDS):
        for name, producing in single.items():
            times = [producing.one() * 1e6 for _ in range(REQUESTS)]
            p50[name].append(percentile(times, 0.5))
            p99[name].append(percentile(times, 0.99))
    table = Table("latency: one in flight, microseconds", ("", "p50", "p99", "p50 / kcli"))
    ours = median(p50["kcli"])
    for name in single:
        table.add(name, median(p50[name]), median(p99[name]), median(p50[name]) / ours)
    table.gates.append(Gate("p50: kcli / blocking", ours / median(p50["blocking"]), 2))
    if "apache" in single:
        table.gates.append(Gate("p50: kcli / apache", ours / median(p50["apache"]), 1))
    return table


def _together(stack: ExitStack, peers: dict[str, Peer], batch: bytes) -> Table:
    subjects = {}
    cpu: dict[str, list[float]] = {name: [] for name in peers}
    for name, peer in peers.items():
        clients = [stack.enter_context(peer.connect()) for _ in range(CONNECTIONS)]
        connections = [wire.Producing(client, "single", batch) for client in clients]
        subjects[name] = partial(_rate, connections, peer.process.pid, cpu[name])
    found = alternate(subjects)
    table = Table(
        f"latency: {CONNECTIONS} connections, {IN_FLIGHT} in flight each",
        ("", "requests/s", "kcli / it", "CPU us"),
    )
    for name, rate in found.items():
        table.add(name, rate, ratio(found["kcli"], rate), median(cpu[name]))
    table.gates.append(Gate("requests/s: kcli / mock", found["kcli"] / found["mock"], 0.5, at_least=True))
    return table


def _rate(connections: list[wire.Producing], pid: int, cpu: list[float]) -> float:
    """Return requests per second; add the CPU microseconds that each took to `cpu`."""
    before = cpu_seconds(pid)
    rate = wire.together(connections, IN_FLIGHT, SECONDS)
    cpu.append((cpu_seconds(pid) - before) / (rate * SECONDS) * 1e6)
    return rate
