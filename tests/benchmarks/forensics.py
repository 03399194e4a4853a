"""dump-log and verify-index beside Apache Kafka's dump tool, on the same large segment, start-up included.

`KCLI_FORENSICS_MB` is the size of the segments, 1000 unless it says otherwise. All files are in the page
cache. The limit is to read the file and make its CRC-32C, and no more; compared with it is a command's
time less that for a segment of one batch, which is its start-up. Records are printed of a segment a tenth as
large, as that takes either tool many times as long.

"verify-index" is `kcli verify-index` of the partition, time index and all; Apache's tool has to be asked for
as much: to read the log, whose batches it checks, and to verify the offset index. The time index is left out
for Apache's tool: it reads the records of every batch that is in there, by themselves, and takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kcli.protocol.compression import Codec
from tests.benchmarks.segments import Segment, write_segment
from tests.benchmarks.table import Gate, Table
from tests.support import peak
from tests.support.toolchain import java_libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MEGABYTE = 1_000_000
SIZE_BYTES = int(os.environ.get("KCLI_FORENSICS_MB", "1000")) * MEGABYTE
CASES = tuple((size, codec) for size in (100, 1000) for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD))
ROUNDS = 5
PRINTING_ROUNDS = 1
PRINTED_SHARE = 10
"""Of how much more is read where records are not printed."""
CHUNK_BYTES = 1 << 16

APACHE_OPTIONS = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The defaults of kafka-run-class.sh."""

LEAST_TIMES_APACHE = 5.0
LEAST_OF_LIMIT = 0.5
MOST_FIRST_LINE_SECONDS = 0.3
MOST_PEAK_MB = 80.0


@dataclass(slots=True)
class Runs:
    """What the runs of one command took."""

    seconds: list[float] = field(default_factory=list)
    first_line: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    start_seconds: float = 0.0
    """What a segment of one batch takes."""

    def throughput(self, size_bytes: int) -> float:
        """Megabytes a second of the median run."""
        return size_bytes / MEGABYTE / median(self.seconds)

    def net_throughput(self, size_bytes: int) -> float:
        """That without start-up."""
        return size_bytes / MEGABYTE / max(median(self.seconds) - self.start_seconds, 1e-9)


def run() -> list[Table]:
    """Measure every kind of segment."""
    return [table for record_bytes, codec in CASES for table in _measure(record_bytes, codec)]


def _measure(record_bytes: int, codec: Codec) -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="kcli-forensics-") as directory:
        segment = write_segment(Path(directory) / "bench-0", SIZE_BYTES, record_bytes, codec)
        printed = write_segment(
            Path(directory) / "printed-0", SIZE_BYTES // PRINTED_SHARE, record_bytes, codec
        )
        small = write_segment(Path(directory) / "small-0", 1, record_bytes, codec)
        limit = (
            segment.size_bytes / MEGABYTE / median(_seconds(segment.read_and_check) for _ in range(ROUNDS))
        )
        found = _run_in_turn(_shallow_commands(segment), ROUNDS)
        printing = _run_in_turn(_printing_commands(printed), PRINTING_ROUNDS)
        commands = _shallow_commands(small) | _printing_commands(small)
        start = _run_in_turn(commands, ROUNDS)
        for name, runs in (found | printing).items():
            runs.start_seconds = median(start[name].seconds)
        what = f"{record_bytes} B records, {codec.name.lower()}"
        return [_table(segment, what, limit, found), _printing_table(printed, what, printing)]


def _shallow_commands(segment: Segment) -> dict[str, list[str]]:
    log, index = str(segment.log), str(segment.index)
    return {
        "dump-log": _kcli("dump-log", "-o", "text", log),
        "dump-log, Apache": _apache("--files", log),
        "verify-index": _kcli("verify-index", "-o", "text", str(segment.log.parent)),
        "verify-index, Apache": _apache("--files", f"{log},{index}", "--verify-index-only"),
    }


def _printing_commands(segment: Segment) -> dict[str, list[str]]:
    return {
        "--print-data-log": _kcli("dump-log", "-o", "text", "--print-data-log", str(segment.log)),
        "--print-data-log, Apache": _apache("--files", str(segment.log), "--print-data-log"),
    }


def _kcli(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kcli", *arguments]


def _apache(*arguments: str) -> list[str]:
    path = f"{java_libraries() / 'apache-kafka'}/*"
    return ["java", *APACHE_OPTIONS, "-cp", path, "org.apache.kafka.tools.DumpLogSegments", *arguments]


def _run_in_turn(commands: dict[str, list[str]], rounds: int) -> dict[str, Runs]:
    found = {name: Runs() for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            _run(command, found[name])
    return found


def _run(command: Sequence[str], runs: Runs) -> None:
    """Run a command to its end and read what it says; it must succeed."""
    with tempfile.NamedTemporaryFile("r") as report:
        measured = [sys.executable, "-IS", peak.SCRIPT, report.name, *command]
        begun = time.perf_counter()
        with subprocess.Popen(
            measured, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        ) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            runs.first_line.append(time.perf_counter() - begun)
            while process.stdout.read(CHUNK_BYTES):
                pass
        runs.seconds.append(time.perf_counter() - begun)
        if process.returncode != 0:
            raise RuntimeError(f"ended with {process.returncode}: {' '.join(command)}")
        runs.peak_bytes = max(runs.peak_bytes, int(report.read()))


def _seconds(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _table(segment: Segment, what: str, limit: float, found: dict[str, Runs]) -> Table:
    size = segment.size_bytes
    table = Table(
        f"forensics, {what}, {size / MEGABYTE:.0f} MB",
        ("", "s", "MB/s", "start s", "net / limit", "first line s", "peak MB"),
    )
    for name, runs in found.items():
        speed = runs.throughput(size)
        first, peak = median(runs.first_line), runs.peak_bytes / MEGABYTE
        net = runs.net_throughput(size) / limit
        table.add(name, median(runs.seconds), speed, runs.start_seconds, net, first, peak)
    table.add("read and CRC", size / MEGABYTE / limit, limit, "", 1.0, "", "")
    gate = partial(_gates, size, found)
    for command in ("dump-log", "verify-index"):
        net = found[command].net_throughput(size) / limit
        table.gates += [*gate(command, LEAST_TIMES_APACHE), _at_least(f"{command}, net / limit", net)]
    table.gates.append(_first_line("dump-log", found))
    table.notes.append(f"{segment.batches} batches, {segment.records} records")
    return table


def _printing_table(segment: Segment, what: str, found: dict[str, Runs]) -> Table:
    size = segment.size_bytes
    table = Table(
        f"records printed, {what}, {size / MEGABYTE:.0f} MB",
        ("", "s", "MB/s", "start s", "first line s", "peak MB"),
    )
    for name, runs in found.items():
        first, peak = median(runs.first_line), runs.peak_bytes / MEGABYTE
        table.add(name, median(runs.seconds), runs.throughput(size), runs.start_seconds, first, peak)
    table.gates += [*_gates(size, found, "--print-data-log", 1.0), _first_line("--print-data-log", found)]
    table.notes.append(f"{segment.batches} batches, {segment.records} records")
    return table


def _gates(size: int, found: dict[str, Runs], name: str, times_apache: float) -> list[Gate]:
    runs, apache = found[name], found[f"{name}, Apache"]
    ratio = runs.throughput(size) / apache.throughput(size)
    return [
        Gate(f"{name} / Apache", ratio, times_apache, at_least=True),
        Gate(f"{name}, peak MB", runs.peak_bytes / MEGABYTE, MOST_PEAK_MB),
    ]


def _at_least(what: str, share: float) -> Gate:
    return Gate(what, share, LEAST_OF_LIMIT, at_least=True)


def _first_line(name: str, found: dict[str, Runs]) -> Gate:
    return Gate(f"{name}, first line s", median(found[name].first_line), MOST_FIRST_LINE_SECONDS)
