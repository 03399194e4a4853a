"""Round trips of single records with acks=1: one in flight, and 16 connections with 4 each.

The frame is ready-made, 100 bytes of record. `blocking` is kcli's own engine behind a blocking thread: what
is above it is the price of the trio loop. CPU is that of the broker, per request.

With one in flight, client and broker sleep in turn, and where the system runs them matters more than what
they do: a core that both use only switches from one to the other, another one may have to be woken, which
takes a virtual machine several times as long as the whole request. The system puts them now here, now there,
and rarely two peers alike. So each peer is measured as the system places it, with both on one core, and with
one on each of two; what the loop costs shows in the last two, where the placement is the same for all.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.measure import ROUNDS, alternate_rounds, cpu_seconds, on_cores, paired_ratio, percentile
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table

if TYPE_CHECKING:
    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "blocking", "mock", "apache", "kfake")
REQUESTS = 2_000
WARM_UP_REQUESTS = 5_000
CONNECTIONS, IN_FLIGHT = 16, 4
SECONDS = 1.0
FREE = "free"
"""Wherever the system runs client and broker."""


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
        table = _round_trips(peers, single)
        for each in single.values():
            each.socket.close()
        peers.pop("blocking", None)
        return [table, _together(stack, peers, batch)]


def _round_trips(peers: dict[str, Peer], single: dict[str, wire.Producing]) -> Table:
    p50: dict[str, dict[str, float]] = {name: {} for name in single}
    p99: dict[str, dict[str, float]] = {name: {} for name in single}
    for placement, (client_cores, broker_cores) in _placements().items():
        times: dict[str, list[list[float]]] = {name: [] for name in single}
        for _ in range(ROUNDS):
            for name, producing in single.items():
                with on_cores(os.getpid(), client_cores), on_cores(peers[name].process.pid, broker_cores):
                    for _ in range(REQUESTS // 10):
                        producing.one()  # until everything is where it is to be
                    times[name].append([producing.one() * 1e6 for _ in range(REQUESTS)])
        for name, rounds in times.items():
            p50[name][placement] = median(percentile(each, 0.5) for each in rounds)
            p99[name][placement] = median(percentile(each, 0.99) for each in rounds)
    pinned = [placement for placement in _placements() if placement != FREE]
    table = Table(
        "latency: one in flight, microseconds",
        ("", "p50", "p99", "p50 / kcli", *(f"p50, {placement}" for placement in pinned)),
    )
    ours = p50["kcli"]
    for name in single:
        found = p50[name]
        table.add(name, found[FREE], p99[name][FREE], found[FREE] / ours[FREE], *map(found.get, pinned))
    for placement in pinned:
        table.gates.append(
            Gate(f"p50, {placement}: kcli / blocking", ours[placement] / p50["blocking"][placement], 2)
        )
    if "apache" in single:
        table.gates.append(Gate("p50: kcli / apache", ours[FREE] / p50["apache"][FREE], 1))
    return table


def _placements() -> dict[str, tuple[set[int], set[int]]]:
    """Return the cores of the client and of the broker."""
    cores = os.sched_getaffinity(0)
    first, last = {min(cores)}, {max(cores)}
    placements = {FREE: (cores, cores), "one core": (first, first)}
    return placements if first == last else {**placements, "two cores": (first, last)}


def _together(stack: ExitStack, peers: dict[str, Peer], batch: bytes) -> Table:
    subjects = {}
    cpu: dict[str, list[float]] = {name: [] for name in peers}
    for name, peer in peers.items():
        clients = [stack.enter_context(peer.connect()) for _ in range(CONNECTIONS)]
        connections = [wire.Producing(client, "single", batch) for client in clients]
        subjects[name] = partial(_rate, connections, peer.process.pid, cpu[name])
    found = alternate_rounds(subjects)
    table = Table(
        f"latency: {CONNECTIONS} connections, {IN_FLIGHT} in flight each",
        ("", "requests/s", "kcli / it", "CPU us"),
    )
    ratios = {name: paired_ratio(found["kcli"], rates) for name, rates in found.items()}
    for name, rates in found.items():
        table.add(name, median(rates), ratios[name], median(cpu[name]))
    table.gates.append(Gate("requests/s: kcli / mock", ratios["mock"], 0.5, at_least=True))
    return table


def _rate(connections: list[wire.Producing], pid: int, cpu: list[float]) -> float:
    """Return requests per second; add the CPU microseconds that each took to `cpu`."""
    before = cpu_seconds(pid)
    rate = wire.together(connections, IN_FLIGHT, SECONDS)
    cpu.append((cpu_seconds(pid) - before) / (rate * SECONDS) * 1e6)
    return rate
