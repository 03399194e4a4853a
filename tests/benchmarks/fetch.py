"""Fetch throughput: librdkafka and raw frames, by the size of the stored batches.

Every peer holds the same records. librdkafka's consumer reads them with its defaults, but for the limits of
its queue; the raw rows send one fetch of up to 1 MiB after the other. The limit is `sendfile` of the same
number of bytes over loopback, read by the same loop. Ratios are medians of what each round found, for the
machine is not the same from round to round; beside them stands what a broker's process takes of the CPU.

With records of 100 B the consumer is the limit: its thread parses and allocates, the program's thread frees,
and both want one lock of the allocator for every record, the more so the sooner a broker answers. In the row
"one core" both threads have one core, so that they hardly meet at that lock.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks import wire
from tests.benchmarks.librdkafka import consume
from tests.benchmarks.measure import alternate_rounds, cpu_seconds
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "apache", "kfake")
MEGABYTE = 1_000_000
RUN_BYTES = 128 * MEGABYTE
ROUNDS = 6
WARM_UP = 2
FETCH_BYTES = 1024 * 1024
LAST_COLUMNS = ("limit", "kcli / limit", "kcli / apache", "kcli, CPU s/GB", "apache, CPU s/GB")
CONSUMER_LIMIT_SHARE = 0.25
CONSUMER_MIN_RATE = 100
APACHE_FROM_BYTES = 131_072


class Case(NamedTuple):
    """The records to read; with `one_core` by librdkafka alone, with as much of the machine."""

    record_bytes: int
    batch_bytes: int
    one_core: bool = False

    @property
    def label(self) -> str:
        """What its row begins with."""
        size = "1 MB" if self.batch_bytes == MEGABYTE else f"{self.batch_bytes // 1024} KB"
        return f"{self.record_bytes} B, {size}" + (", one core" if self.one_core else "")


CASES = (
    Case(1000, 16_384),
    Case(1000, 131_072),
    Case(1000, MEGABYTE),
    Case(100, 16_384),
    Case(100, 131_072),
    Case(100, 131_072, one_core=True),
    Case(100, MEGABYTE),
)


def run() -> list[Table]:
    """Fill every peer for each case, then read in turn."""
    with running(*PEERS, "drain") as found:
        drain = found.pop("drain")
        head = ("records, batches", *found, *LAST_COLUMNS)
        consumer = Table("fetch: librdkafka, MB/s", head)
        raw = Table("fetch: raw frames, MB/s", head)
        for number, case in enumerate(CASES):
            batch, records = wire.batch_of(case.batch_bytes, case.record_bytes)
            count = RUN_BYTES // len(batch)
            size = count * len(batch)
            topic = f"case-{number}"
            for peer in found.values():
                _fill(peer, topic, batch, count)
            limit = {"limit": partial(_rate, partial(_drain, drain, size), size)}
            consumers = {
                name: _Reader(peer, size, partial(_consume_rate, peer, topic, count * records, size))
                for name, peer in found.items()
            }
            with _one_core() if case.one_core else nullcontext():
                _add(consumer, case, consumers, limit)
            readers = {
                name: _Reader(peer, size, partial(_read_rate, peer, topic, len(batch), records, count))
                for name, peer in found.items()
            }
            if not case.one_core:
                _add(raw, case, readers, limit)
            for peer in found.values():
                with peer.connect() as client:
                    wire.drop_topic(client, topic)
    return [consumer, raw]


@contextmanager
def _one_core() -> Iterator[None]:
    """Let this thread, and those that it starts, run on one core only."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


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


def _fill(peer: Peer, topic: str, batch: bytes, count: int) -> None:
    with peer.connect() as client:
        wire.make_topic(client, topic)
        # The first request belongs to the constructor.
        wire.Producing(client, topic, batch).stream(count - 1, 4)


def _consume_rate(peer: Peer, topic: str, records: int, size: int) -> float:
    return consume(peer.bootstrap, topic, records, {}) * size / records / MEGABYTE


def _read_rate(peer: Peer, topic: str, batch_bytes: int, batch_records: int, count: int) -> float:
    with peer.connect() as client:
        fetching = wire.Fetching(
            client, topic, batch_bytes=batch_bytes, batch_records=batch_records, max_bytes=FETCH_BYTES
        )
        return count * batch_bytes / fetching.read(count) / MEGABYTE


def _drain(drain: Peer, size: int) -> None:
    buffer = memoryview(bytearray(FETCH_BYTES))
    with drain.connect() as client:
        wire.send_size(client.socket, b"S", size)
        while size:
            size -= client.socket.recv_into(buffer)


def _rate(read: Callable[[], object], size: int) -> float:
    started = time.perf_counter()
    read()
    return size / (time.perf_counter() - started) / MEGABYTE


def _add(
    table: Table, case: Case, readers: Mapping[str, _Reader], limit: Mapping[str, Callable[[], float]]
) -> None:
    subjects: dict[str, Callable[[], float]] = {**readers, **limit}
    found = alternate_rounds(subjects, rounds=ROUNDS, warm_up=WARM_UP)
    against = {name: _paired(found["kcli"], found.get(name, [])) for name in ("limit", "apache")}
    cpu = [
        median(readers[name].cpu_per_gigabyte[WARM_UP:]) if name in readers else float("nan")
        for name in ("kcli", "apache")
    ]
    label, rate = case.label, median(found["kcli"])
    table.add(label, *map(median, found.values()), *against.values(), *cpu)
    if case.batch_bytes >= APACHE_FROM_BYTES and "apache" in found and not case.one_core:
        table.gates.append(Gate(f"{label}: kcli / apache", against["apache"], 1, at_least=True))
    if table.title.startswith("fetch: librdkafka") and case.record_bytes == 1000:
        share = against["limit"]
        table.gates.append(Gate(f"{label}: kcli / limit", share, CONSUMER_LIMIT_SHARE, at_least=True))
        table.gates.append(Gate(f"{label}: kcli, MB/s", rate, CONSUMER_MIN_RATE, at_least=True))


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios, not a number without a peer."""
    return median(map(ratio, ours, theirs)) if theirs else float("nan")
