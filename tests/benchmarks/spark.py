"""spark-export beside Spark's own Kafka connector and beside pyarrow without Spark, on the same topic.

The topic has two partitions, a segment each, in the directory of a kcli broker, which serves what the others
read from the files. Everybody writes Parquet with zstd at level 1 and the columns of Spark's Kafka source;
the connector otherwise as Spark does by default. Sessions are warm: starting Java and the session
is in no figure. There are two, as users have them: the JVM of `kcli spark-export` only schedules, that of the
connector and of the Spark writer handles rows and has Spark's defaults. The CPU time is that of the driver,
the JVM and every Python worker; the broker's, which shares the cores, is not in it. By hand is a process for
each partition, without plan, receipts or fsync.
Codecs alone are what of that nobody can do without.

Everything lies in memory (`KCLI_SPARK_DIRECTORY`, /dev/shm where there is one). `KCLI_SPARK_MB` is the size
of the topic before compression, 2048 unless it says otherwise, `KCLI_SPARK_ROUNDS` how often all of them run,
5 times, `KCLI_SPARK_CASES` picks cases: `100-none,1000-lz4`, and `KCLI_SPARK_TABLES` tables:
`ways,writers,cores`.

Values repeat only after 32 MB of batches: a topic of few values fits into a dictionary of Parquet, which
Spark tries by default, so that there would be nothing left to compress.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from kcli.protocol.compression.codecs import Codec
from kcli.storage.checkpoints import write_partition_metadata
from tests.benchmarks.by_hand import export_by_hand
from tests.benchmarks.measure import alternate
from tests.benchmarks.segments import Segment, write_segment
from tests.benchmarks.spark_process import SparkProcess, Taken
from tests.benchmarks.table import Gate, Table
from tests.support.kcli_broker import KcliBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MEGABYTE = 1_000_000
SIZE_BYTES = int(os.environ.get("KCLI_SPARK_MB", "2048")) * MEGABYTE
ROUNDS = int(os.environ.get("KCLI_SPARK_ROUNDS", "5"))
SIDE_ROUNDS = min(ROUNDS, 3)
"""Of what is compared beside the main table: the Spark writer, and one core with two."""

VALUE_BYTES = (100, 1000)
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
CASES = os.environ.get("KCLI_SPARK_CASES", "")
TABLES = os.environ.get("KCLI_SPARK_TABLES", "ways,writers,cores").split(",")
DISTINCT_BATCHES = 2048
PARTITIONS = 2
WARM_UP_PART = 8
"""A topic so many times smaller lets compilers and caches get their chance."""

BROKER_SETTINGS = {
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "3600000",
    "replica.high.watermark.checkpoint.interval.ms": "200",
}
DIRECTORY, BROKER, CONNECTOR = "directory", "broker", "connector"
LOCAL_ENGINE, BY_HAND, SPARK_WRITER = "local engine", "by hand", "spark writer"
CODECS_ALONE = "codecs alone"
"""Decompressing and compressing, and no Parquet: what everybody has in common."""

MAIN_WAYS = (DIRECTORY, BROKER, CONNECTOR, LOCAL_ENGINE, BY_HAND, CODECS_ALONE)

LEAST_CPU_TIMES_CONNECTOR = 2.0
LEAST_SPEED_TIMES_CONNECTOR = 1.0
MOST_WALL_TIMES_BY_HAND = 1.6
MOST_CPU_OF_SPARK_WRITER = 0.45
MOST_WORKER_MB = 400.0
LEAST_SPEED_TIMES_ONE_CORE = 1.3


ROWS_IN_JVM = (CONNECTOR, SPARK_WRITER)


class Session(NamedTuple):
    """A kind of session: its cores, and whether no row comes to its JVM."""

    cores: int = 2
    only_schedules: bool = True


class Subject(NamedTuple):
    """A way to export, and how many cores its session has."""

    way: str
    cores: int = 2

    @property
    def session(self) -> Session:
        """The session that it takes."""
        return Session(self.cores, only_schedules=self.way not in ROWS_IN_JVM)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the directory of a broker."""

    name: str
    segments: tuple[Segment, ...]

    @property
    def rows(self) -> int:
        """Its records."""
        return sum(segment.records for segment in self.segments)

    @property
    def size_bytes(self) -> int:
        """Its log files."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Median:
    """The medians of the runs of one way, and the highest memory of a Python worker in any."""

    rows: int
    seconds: float
    cpu_seconds: float
    worker_peak_bytes: int

    @classmethod
    def of(cls, rows: int, runs: Sequence[Taken]) -> Median:
        """Return the medians of runs that each exported so many rows."""
        return cls(
            rows,
            median(one.seconds for one in runs),
            median(one.cpu_seconds for one in runs),
            max(one.worker_peak_bytes for one in runs),
        )

    @property
    def speed(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def thrift(self) -> float:
        """Rows per second of CPU time."""
        return self.rows / self.cpu_seconds


class Bench:
    """A case: its topics, the broker that serves them, and the sessions that export them."""

    def __init__(self, directory: Path, value_bytes: int, codec: Codec, stack: ExitStack) -> None:
        self._directory = directory
        self._broker = KcliBroker(directory, settings=BROKER_SETTINGS, arguments=("--adopt",))
        self._broker.node_directory.mkdir(parents=True)
        self.topic = self._topic("bench", SIZE_BYTES, value_bytes, codec)
        self._small = self._topic("warm-up", SIZE_BYTES // WARM_UP_PART, value_bytes, codec)
        stack.callback(self._broker.close)
        self._broker.start()
        self.sessions = {
            session: stack.enter_context(closing(_started(session, directory)))
            for session in (Session(1), Session(2), Session(2, only_schedules=False))
        }

    def compare(self, *subjects: Subject, rounds: int) -> dict[Subject, Median]:
        """Export the topic in several ways, in turn; give the medians of each."""
        found: dict[Subject, list[Taken]] = {subject: [] for subject in subjects}

        def once(subject: Subject) -> float:
            found[subject].append(self._export(subject, self.topic))
            return found[subject][-1].seconds

        for subject in subjects:
            self._export(subject, self._small)
        alternate({str(subject): partial(once, subject) for subject in subjects}, rounds=rounds, warm_up=0)
        return {subject: Median.of(self.topic.rows, runs) for subject, runs in found.items()}

    def _topic(self, name: str, size_bytes: int, value_bytes: int, codec: Codec) -> Topic:
        share = int(size_bytes / PARTITIONS * _compressed_part(self._directory, value_bytes, codec))
        segments = []
        for number in range(PARTITIONS):
            partition = self._broker.node_directory / f"{name}-{number}"
            segments.append(
                write_segment(partition, share, value_bytes, codec, distinct_batches=DISTINCT_BATCHES)
            )
            write_partition_metadata(str(partition), name.encode().ljust(16, b"."))
        return Topic(name, tuple(segments))

    def _export(self, subject: Subject, topic: Topic) -> Taken:
        """Export a topic to a fresh directory, see that no row is missing, and remove it."""
        target = self._directory / "target"
        if subject.way == CODECS_ALONE:
            done = export_by_hand([segment.log for segment in topic.segments], None)
            return Taken(done.work_seconds, done.work_cpu_seconds)
        if subject.way == BY_HAND:
            target.mkdir()
            done = export_by_hand([segment.log for segment in topic.segments], target)
            taken = Taken(done.work_seconds, done.work_cpu_seconds)
        else:
            request = {"way": subject.way, "topic": topic.name, "bootstrap": self._broker.bootstrap}
            request |= {"log_dir": str(self._broker.node_directory), "target": str(target)}
            taken = self.sessions[subject.session].run(request)
        rows = sum(pq.read_metadata(path).num_rows for path in target.rglob("*.parquet"))
        shutil.rmtree(target)
        if rows != topic.rows:
            raise RuntimeError(f"{subject.way}: {rows} rows of {topic.rows} records")
        return taken


def _started(session: Session, directory: Path) -> SparkProcess:
    rows = "" if session.only_schedules else "-rows"
    log = directory / f"spark-{session.cores}{rows}.log"
    return SparkProcess(session.cores, log, only_schedules=session.only_schedules)


def run() -> Iterator[Table]:
    """Measure every case."""
    for value_bytes in VALUE_BYTES:
        for codec in CODECS:
            if not CASES or f"{value_bytes}-{codec.name.lower()}" in CASES.split(","):
                yield from _case(value_bytes, codec)


def _case(value_bytes: int, codec: Codec) -> Iterator[Table]:
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    parent = os.environ.get("KCLI_SPARK_DIRECTORY", memory)
    what = f"{value_bytes}-byte values, {codec.name.lower()}"
    with tempfile.TemporaryDirectory(prefix="kcli-spark-", dir=parent) as directory, ExitStack() as stack:
        bench = Bench(Path(directory), value_bytes, codec, stack)
        tables = {"ways": _ways, "writers": _writers, "cores": _cores}
        for name in TABLES:
            yield tables[name](bench, what)


def _ways(bench: Bench, what: str) -> Table:
    found = bench.compare(*(Subject(way) for way in MAIN_WAYS), rounds=ROUNDS)
    table = Table(f"spark-export, {what}", _head("connector"))
    base = bench.sessions[Session()].base_bytes
    connector = found[Subject(CONNECTOR)]
    for subject, one in found.items():
        _add(table, subject.way, one, connector, base)
    for way in (DIRECTORY, BROKER):
        one = found[Subject(way)]
        thrift, speed = one.thrift / connector.thrift, one.speed / connector.speed
        table.gates += [
            Gate(f"{way} / connector, rows per CPU-s", thrift, LEAST_CPU_TIMES_CONNECTOR, at_least=True),
            Gate(f"{way} / connector, rows/s", speed, LEAST_SPEED_TIMES_CONNECTOR, at_least=True),
        ]
    local, by_hand = found[Subject(LOCAL_ENGINE)], found[Subject(BY_HAND)]
    table.gates.append(
        Gate("local engine / by hand, wall", local.seconds / by_hand.seconds, MOST_WALL_TIMES_BY_HAND)
    )
    table.gates += [_memory_gate(way, found[Subject(way)], base) for way in (DIRECTORY, BROKER, LOCAL_ENGINE)]
    topic = bench.topic
    size = f"{topic.rows / 1e6:.1f} M records, {topic.size_bytes / MEGABYTE:.0f} MB of log"
    table.notes.append(f"{size}; a worker has {base / MEGABYTE:.0f} MB before it does anything")
    return table


def _writers(bench: Bench, what: str) -> Table:
    arrow, spark = Subject(DIRECTORY), Subject(SPARK_WRITER)
    found = bench.compare(arrow, spark, rounds=SIDE_ROUNDS)
    table = Table(f"writers from a directory, {what}", _head("spark writer"))
    base = bench.sessions[Session()].base_bytes
    for subject, one in found.items():
        _add(table, "arrow writer" if subject == arrow else subject.way, one, found[spark], base)
    part = found[arrow].cpu_seconds / found[spark].cpu_seconds
    table.gates.append(Gate("arrow writer / spark writer, CPU", part, MOST_CPU_OF_SPARK_WRITER))
    table.gates.append(_memory_gate(SPARK_WRITER, found[spark], base))
    return table


def _cores(bench: Bench, what: str) -> Table:
    subjects = [Subject(way, cores) for way in (DIRECTORY, BROKER) for cores in (1, 2)]
    found = bench.compare(*subjects, rounds=SIDE_ROUNDS)
    table = Table(f"one core and two, {what}", _head("local[1]"))
    for subject, one in found.items():
        base = bench.sessions[subject.session].base_bytes
        alone = found[Subject(subject.way, 1)]
        _add(table, f"{subject.way}, local[{subject.cores}]", one, alone, base)
    for way in (DIRECTORY, BROKER):
        gain = found[Subject(way, 2)].speed / found[Subject(way, 1)].speed
        table.gates.append(Gate(f"{way}, two cores / one", gain, LEAST_SPEED_TIMES_ONE_CORE, at_least=True))
    return table


def _head(base: str) -> tuple[str, ...]:
    return "", "s", "Mrows/s", f"of {base}", "CPU s", "Mrows/CPU-s", f"of {base}", "worker MB"


def _add(table: Table, label: str, one: Median, other: Median, base_bytes: int) -> None:
    """Add a row, the memory of workers above what they begin with."""
    has_workers = label not in (CONNECTOR, BY_HAND, CODECS_ALONE)
    peak = (one.worker_peak_bytes - base_bytes) / MEGABYTE if has_workers else ""
    speed, thrift = one.speed / other.speed, one.thrift / other.thrift
    table.add(label, one.seconds, one.speed / 1e6, speed, one.cpu_seconds, one.thrift / 1e6, thrift, peak)


def _memory_gate(way: str, one: Median, base_bytes: int) -> Gate:
    peak = (one.worker_peak_bytes - base_bytes) / MEGABYTE
    return Gate(f"{way}, worker MB above its base", peak, MOST_WORKER_MB)


def _compressed_part(directory: Path, value_bytes: int, codec: Codec) -> float:
    """Return how large a codec makes records, of what they are without one."""
    sizes = []
    for one in (Codec.NONE, codec):
        trial = directory / "trial-0"
        segment = write_segment(trial, 1, value_bytes, one)
        shutil.rmtree(trial)
        sizes.append(segment.size_bytes / segment.records)
    return sizes[1] / sizes[0]
