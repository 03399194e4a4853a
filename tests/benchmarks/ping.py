"""What a client with large requests costs another: round trips of ApiVersions meanwhile.

One process streams produce requests of 10 MB, then another sends single ones of 100 MB; beside it a client
asks every millisecond.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.protocol.messages.api_versions import ApiVersionsRequest
from tests.benchmarks.measure import percentile
from tests.benchmarks.peers import running
from tests.benchmarks.table import Gate, Table
from tests.support.processes import ChildProcess
from tests.support.raw_client import request_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.benchmarks.peers import Peer

PEERS = ("kcli", "apache")
MEGABYTE = 1_000_000
SETTINGS: Mapping[str, str] = {"message.max.bytes": str(110 * MEGABYTE), "log.retention.bytes": "1000000000"}
PAUSE_SECONDS = 0.001
SECONDS = 4.0
CASES = (
    ("nobody else", 0, 0),
    ("a stream of 10 MB", 10 * MEGABYTE, 2),
    ("100 MB, one by one", 100 * MEGABYTE, 1),
)
STREAM_LIMIT_MS = 10
HUGE_LIMIT_MS = 50
START_TIMEOUT_SECONDS = 30


def run() -> list[Table]:
    """Ping every peer in every case."""
    table = Table(
        "ping: ms", ("beside", *(f"{name} {what}" for name in PEERS for what in ("p50", "p99", "max")))
    )
    with running(*PEERS, settings=SETTINGS) as peers:
        for label, frame_bytes, in_flight in CASES:
            cells: list[float] = []
            for name in PEERS:
                if name not in peers:
                    cells += [float("nan")] * 3
                    continue
                times = _ping_beside(peers[name], frame_bytes, in_flight)
                cells += [percentile(times, 0.5), percentile(times, 0.99), max(times)]
                if name == "kcli" and in_flight == 2:
                    table.gates.append(Gate(f"p99 beside {label}, ms", cells[1], STREAM_LIMIT_MS))
                if name == "kcli" and in_flight == 1:
                    table.gates.append(Gate(f"p99 beside {label}, ms", cells[1], HUGE_LIMIT_MS))
            table.add(label, *cells)
    return [table]


def _ping_beside(peer: Peer, frame_bytes: int, in_flight: int) -> list[float]:
    if not frame_bytes:
        return _ping(peer)
    with tempfile.TemporaryDirectory() as directory:
        command = (
            sys.executable,
            "-m",
            "tests.benchmarks.load",
            peer.bootstrap,
            str(frame_bytes),
            str(in_flight),
        )
        load = ChildProcess(command, stderr=Path(directory) / "log")
        try:
            load.wait_for_line(lambda line: line == "streaming", timeout=START_TIMEOUT_SECONDS, what="load")
            times = _ping(peer)
            if not load.is_running():
                raise RuntimeError(load.errors)
            return times
        finally:
            load.kill()


def _ping(peer: Peer) -> list[float]:
    """Return the milliseconds of every round trip."""
    frame = request_frame(ApiVersionsRequest(), 0)
    times = []
    pause = threading.Event()
    with peer.connect() as client:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            started = time.perf_counter()
            client.send(frame)
            client.receive_frame()
            times.append((time.perf_counter() - started) * 1000)
            pause.wait(PAUSE_SECONDS)
    return times
