"""Groups: heartbeats of 500 with 4 members each beside 2,000 commits a second, and first records.

Members send a heartbeat every 3 seconds, each over a connection of its own; commits come from librdkafka. The
memory is that of the broker before the groups came, when they had joined, and at the end. A first record is
that of a consumer of librdkafka in a new group on an idle broker, timed from `subscribe`: without and with
the tenth of a second that the library itself waits in a group that has no offset yet.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.first_record import as_the_library_does, first_record_seconds, from_the_beginning
from tests.benchmarks.group_crowd import Crowd, milliseconds
from tests.benchmarks.measure import alternate, cpu_seconds, percentile, raise_file_limit, wait_until_idle
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "apache")
GROUPS, MEMBERS = 500, 4
HEARTBEAT_SECONDS = 3.0
COMMITS_PER_SECOND = 2_000
SECONDS = 9.0
ROUNDS = 3
MEGABYTE = 1024 * 1024
SETTINGS: Mapping[str, str] = {
    # Members of a new group come one by one; this gathers them.
    "group.initial.rebalance.delay.ms": "3000",
    "offsets.topic.num.partitions": "50",
}
FIRST_PEERS = ("kcli", "apache", "mock")
FIRST_ROUNDS = 5
FIRST_LIMIT_MS = 100
WAYS = (from_the_beginning, as_the_library_does)


def run() -> list[Table]:
    """Measure the crowd, then the newcomers."""
    return [_crowd(), _first_records()]


class Load:
    """The crowd of one peer, and what was found."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        with peer.connect() as client:
            wire.make_topic(client, "commits")
        wait_until_idle(peer.process.pid)
        self.before = peer.process.resident_bytes()
        self.crowd = Crowd(peer, GROUPS, MEMBERS)
        self.groups = peer.process.resident_bytes()
        self.found: dict[str, list[float]] = {}

    def measure(self) -> None:
        """Let members beat and consumers commit at the same time."""
        command = [sys.executable, "-m", "tests.benchmarks.committing", self.peer.bootstrap, "commits"]
        with tempfile.TemporaryFile("w+") as output:
            commits = subprocess.Popen([*command, str(COMMITS_PER_SECOND), str(SECONDS)], stdout=output)
            before = cpu_seconds(self.peer.process.pid)
            times = milliseconds(self.crowd.beat(HEARTBEAT_SECONDS, SECONDS))
            spent = cpu_seconds(self.peer.process.pid) - before
            if commits.wait(timeout=SECONDS + wire.LEADER_TIMEOUT_SECONDS):
                raise wire.BenchmarkFailed("the commits failed")
            output.seek(0)
            committed = json.load(output)
        self._note(
            beat50=percentile(times, 0.5),
            beat99=percentile(times, 0.99),
            commit50=committed["p50"],
            commit99=committed["p99"],
            rate=committed["per_second"],
            cpu=100 * spent / SECONDS,
        )

    def _note(self, **values: float) -> None:
        for name, value in values.items():
            self.found.setdefault(name, []).append(value)

    def row(self) -> list[float]:
        """Return the medians of all rounds but the first, and the memory."""
        names = ("beat50", "beat99", "commit50", "commit99", "rate", "cpu")
        figures = [median(self.found[name][1:]) for name in names]
        resident = self.peer.process.resident_bytes()
        return [*figures, self.before / MEGABYTE, self.groups / MEGABYTE, resident / MEGABYTE]


def _crowd() -> Table:
    raise_file_limit()
    table = Table(
        f"groups: {GROUPS} with {MEMBERS} members, a heartbeat every {HEARTBEAT_SECONDS:.0f} s, "
        f"{COMMITS_PER_SECOND} commits/s; ms",
        ("", "beat p50", "p99", "commit p50", "p99", "commits/s", "CPU %", "MB before", "joined", "after"),
    )
    with ExitStack() as stack:
        peers = stack.enter_context(running(*PEERS, settings=SETTINGS))
        loads = {name: Load(peer) for name, peer in peers.items()}
        for _ in range(1 + ROUNDS):
            for load in loads.values():
                load.measure()
        rows = {name: load.row() for name, load in loads.items()}
        for load in loads.values():
            load.crowd.close()
    for name, row in rows.items():
        table.add(name, *row)
    ours = rows["kcli"]
    table.gates.append(Gate("kcli: commits/s", ours[4], 0.98 * COMMITS_PER_SECOND, at_least=True))
    if "apache" in rows:
        theirs = rows["apache"]
        for at, what, limit in ((1, "heartbeat p99", 1.5), (3, "commit p99", 1.5), (8, "memory", 0.25)):
            table.gates.append(Gate(f"{what}: kcli / apache", ratio(ours[at], theirs[at]), limit))
    return table


def _first_records() -> Table:
    table = Table(
        "groups: first record of a new group after subscribe, ms", ("", "the broker", "the library's way")
    )
    with running(*FIRST_PEERS) as peers:
        for peer in peers.values():
            with peer.connect() as client:
                wire.make_topic(client, "first")
                wire.Producing(client, "first", wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)[0])
        subjects = {
            f"{name} {how.__name__}": _first_record(peer, how) for name, peer in peers.items() for how in WAYS
        }
        found = alternate(subjects, rounds=FIRST_ROUNDS)
    for name in peers:
        table.add(name, *(found[f"{name} {how.__name__}"] for how in WAYS))
    table.gates.append(Gate("kcli, ms", found[f"kcli {from_the_beginning.__name__}"], FIRST_LIMIT_MS))
    return table


def _first_record(peer: Peer, how: Callable[..., None]) -> Callable[[], float]:
    numbers = iter(range(1_000))

    def measure() -> float:
        group = f"first-{how.__name__}-{next(numbers)}"
        return 1000 * first_record_seconds(peer.bootstrap, "first", group, how)

    return measure
