"""What it costs that acknowledged means synced: 1, 8 and 32 producers of single records, one in flight each.

`durable` is kcli and Apache Kafka with log.flush.interval.messages=1, which `kcli broker start --durable`
sets: kcli lets all that wait for one log share an fdatasync, Apache Kafka syncs within each append. The limit
is one write and one fdatasync after the other, of the same bytes, on the same file system.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks import wire
from tests.benchmarks.measure import alternate_rounds, paired_ratio
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCERS = (1, 8, 32)
SECONDS = 1.0
DURABLE = {"log.flush.interval.messages": "1"}


def run() -> list[Table]:
    """Measure each number of producers with every peer, in turn."""
    batch, _ = wire.batch_of(wire.BATCH_OVERHEAD + 100, 90)
    with ExitStack() as stack:
        durable = stack.enter_context(running("kcli", "apache", settings=DURABLE))
        peers = {f"{name}, durable": peer for name, peer in durable.items()}
        peers |= stack.enter_context(running("kcli"))
        table = Table(
            "durable: records/s", ("producers", *peers, "limit", "durable / not", "kcli / apache, durable")
        )
        for number in PRODUCERS:
            subjects: dict[str, Callable[[], float]] = {"limit": partial(_limit, batch)}
            for name, peer in peers.items():
                clients = [stack.enter_context(peer.connect()) for _ in range(number)]
                wire.make_topic(clients[0], "durable")
                connections = [wire.Producing(client, "durable", batch) for client in clients]
                subjects[name] = partial(wire.together, connections, 1, SECONDS)
            found = alternate_rounds(subjects)
            ours = found["kcli, durable"]
            cost = paired_ratio(ours, found["kcli"])
            against = paired_ratio(ours, found.get("apache, durable", []))
            table.add(str(number), *(median(found[name]) for name in (*peers, "limit")), cost, against)
            if "apache, durable" in found:
                table.gates.append(Gate(f"{number}, durable: kcli / apache", against, 1, at_least=True))
        return [table]


def _limit(batch: bytes) -> float:
    """Return the writes per second of a program that syncs after each."""
    with tempfile.TemporaryFile() as file:
        ends, count = time.perf_counter() + SECONDS, 0
        while time.perf_counter() < ends:
            os.write(file.fileno(), batch)
            os.fdatasync(file.fileno())
            count += 1
        return count / SECONDS
