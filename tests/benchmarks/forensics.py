"""dump-log and verify-index beside Apache Kafka's dump tool, on the same large segment, start-up included.

`KCLI_FORENSICS_MB` is the size of the segments, 1000 unless it says otherwise, and `KCLI_FORENSICS_CASES`
which of them are measured, as in `100:none,1000:lz4`. All files are in the page cache. The limit is to read
the file and make its CRC-32C, and no more; compared with it is a command's time less that for a segment of
one batch, which is its start-up. Records are printed of a segment a tenth as large, as that takes either
tool many times as long. kcli runs as it does once installed: an editable installation imports more at every
start.

"verify-index" is `kcli verify-index` of the partition, time index and all; Apache's tool has to be asked for
as much: to read the log, whose batches it checks, and to verify the indexes. With the time index it takes
minutes: it reads the records of every batch that is in there, by themselves. So it is measured without, and
once with it, for a while.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from tests.benchmarks.segments import Segment, write_segment
from tests.benchmarks.table import Gate, Table
from tests.support import peak
from tests.support.toolchain import java_libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MEGABYTE = 1_000_000
SIZE_BYTES = int(os.environ.get("KCLI_FORENSICS_MB", "1000")) * MEGABYTE
CASES = os.environ.get("KCLI_FORENSICS_CASES", "100:none,100:lz4,100:zstd,1000:none,1000:lz4,1000:zstd")
ROUNDS = 5
PRINTING_ROUNDS = 1
PRINTED_SHARE = 10
"""Of how much more is read where records are not printed."""
CHUNK_BYTES = 1 << 16
MOST_TIME_INDEX_SECONDS = 20.0
"""How long Apache's tool may be at a time index."""
ROOT = Path(__file__).resolve().parent.parent.parent

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
    tables = []
    for case in CASES.split(","):
        record_bytes, _, codec = case.partition(":")
        tables += _measure(int(record_bytes), Codec[codec.upper()])
    return tables


def _measure(record_bytes: int, codec: Codec) -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="kcli-forensics-") as directory:
        python = _installed(Path(directory) / "venv")
        segment = write_segment(Path(directory) / "bench-0", SIZE_BYTES, record_bytes, codec)
        printed = write_segment(
            Path(directory) / "printed-0", SIZE_BYTES // PRINTED_SHARE, record_bytes, codec
        )
        small = write_segment(Path(directory) / "small-0", 1, record_bytes, codec)
        limit = (
            segment.size_bytes / MEGABYTE / median(_seconds(segment.read_and_check) for _ in range(ROUNDS))
        )
        found = _run_in_turn(_shallow_commands(python, segment), ROUNDS)
        printing = _run_in_turn(_printing_commands(python, printed), PRINTING_ROUNDS)
        commands = _shallow_commands(python, small) | _printing_commands(python, small)
        start = _run_in_turn(commands, ROUNDS)
        for name, runs in (found | printing).items():
            runs.start_seconds = median(start[name].seconds)
        what = f"{record_bytes} B records, {codec.name.lower()}"
        table = _table(segment, what, limit, found)
        _add_time_index(table, segment, median(found["verify-index"].seconds))
        return [table, _printing_table(printed, what, printing)]


def _installed(directory: Path) -> str:
    """Make a virtual environment with kcli as its users have it, not as an editable package; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    packages = directory / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "all.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return str(directory / "bin" / "python")


def _shallow_commands(python: str, segment: Segment) -> dict[str, list[str]]:
    log, index = str(segment.log), str(segment.index)
    kcli = [python, "-m", "kcli"]
    return {
        "dump-log": [*kcli, "dump-log", "-o", "text", log],
        "dump-log, Apache": _apache("--files", log),
        "verify-index": [*kcli, "verify-index", "-o", "text", str(segment.log.parent)],
        "verify-index, Apache": _apache("--files", f"{log},{index}", "--verify-index-only"),
    }


def _printing_commands(python: str, segment: Segment) -> dict[str, list[str]]:
    log = str(segment.log)
    return {
        "--print-data-log": [python, "-m", "kcli", "dump-log", "-o", "text", "--print-data-log", log],
        "--print-data-log, Apache": _apache("--files", log, "--print-data-log"),
    }


def _apache(*arguments: str) -> list[str]:
    path = f"{java_libraries() / 'apache-kafka'}/*"
    return ["java", *APACHE_OPTIONS, "-cp", path, "org.apache.kafka.tools.DumpLogSegments", *arguments]


def _run_in_turn(commands: dict[str, list[str]], rounds: int) -> dict[str, Runs]:
    found = {name: Runs() for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            _run(command, found[name])
    for name, command in commands.items():
        found[name].peak_bytes = _peak_bytes(command)
    return found


def _run(command: Sequence[str], runs: Runs) -> None:
    """Run a command to its end and read what it says; it must succeed."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        runs.first_line.append(time.perf_counter() - begun)
        while process.stdout.read(CHUNK_BYTES):
            pass
    runs.seconds.append(time.perf_counter() - begun)
    if process.returncode != 0:
        raise RuntimeError(f"ended with {process.returncode}: {' '.join(command)}")


def _peak_bytes(command: Sequence[str]) -> int:
    """Run a command once more and return how much memory it had at most; who watches it takes time."""
    with tempfile.NamedTemporaryFile("r") as report:
        measured = [sys.executable, "-IS", peak.SCRIPT, report.name, *command]
        subprocess.run(measured, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return int(report.read())


def _add_time_index(table: Table, segment: Segment, kcli_seconds: float) -> None:
    """Let Apache's tool verify the time index too, for a while, and add a row for it."""
    files = f"{segment.log},{segment.index},{segment.time_index}"
    command = _apache("--files", files, "--verify-index-only")
    begun = time.perf_counter()
    try:
        subprocess.run(
            command,
            check=True,
            timeout=MOST_TIME_INDEX_SECONDS,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        least = time.perf_counter() - begun
        took = f"{least:.3g}"
    except subprocess.TimeoutExpired:
        least, took = MOST_TIME_INDEX_SECONDS, f"over {MOST_TIME_INDEX_SECONDS:.0f}"
    table.add("verify-index, Apache, time index too", took, "", "", "", "", "")
    what = "verify-index / Apache, time index too"
    table.gates.append(Gate(what, least / kcli_seconds, LEAST_TIMES_APACHE, at_least=True))


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
