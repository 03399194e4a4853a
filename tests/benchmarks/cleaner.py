"""Compaction of one log by kcli and by Apache Kafka's cleaner: MB a second of CPU time, both passes together.

`KCLI_CLEANER_MB` is the size of the logs, 128 unless it says otherwise, and `KCLI_CLEANER_CASES` which of
them are measured, as in `100:none,1000:lz4`. Batches have 16 KB of records before compression; three of
four records are superseded. Both clean a copy of the same files in the page cache, syncs included; Apache
Kafka's figure is that of its cleaner's thread, without the JVM's compiler and collector. The limit of a
codec is to decompress each batch and to compress it again.

The second table is what a producer with one record in flight waits for, alone and beside a compaction, whose
thread gives up the interpreter every millisecond.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

from kcli.protocol.compression.codecs import Codec, compress, decompress
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.topics import TopicPartition
from kcli.storage.cleaning.cleaning_job import plan_job
from kcli.storage.cleaning.cleaning_run import run_job
from kcli.storage.cleaning.compaction import Compaction
from kcli.storage.log.log_config import COMPACT, LogConfig, LogSettings
from kcli.storage.log.log_loader import Checkpointed, load_log
from kcli.storage.log.unified_log import UnifiedLog
from tests.benchmarks import wire
from tests.benchmarks.measure import percentile
from tests.benchmarks.table import Gate, Table
from tests.support.apache_cleaner import ApacheCleaner
from tests.support.kcli_broker import KcliBroker
from tests.support.raw_client import RawClient

MEGABYTE = 1_000_000
SIZE_BYTES = int(os.environ.get("KCLI_CLEANER_MB", "128")) * MEGABYTE
CASES = os.environ.get("KCLI_CLEANER_CASES", "1000:none,100:none,1000:lz4,1000:zstd")
BATCH_BYTES = 16_000
SEGMENT_BYTES = 32 * MEGABYTE
ROUNDS = 3
NOW_MS = 1_760_000_000_000
CONFIG = LogConfig(cleanup_policy=frozenset({COMPACT}), segment_bytes=SEGMENT_BYTES)

BROKER = {
    "log.cleanup.policy": "compact",
    "log.segment.bytes": str(SEGMENT_BYTES),
    # Only when it is asked to.
    "log.cleaner.backoff.ms": "3600000",
}
WARM_UP_REQUESTS, REQUESTS = 3000, 5000
BATCHES, TIMES, IN_FLIGHT = 100, 60, 8
"""Of 16 KB, each written so often: 98 MB a round."""

TIMEOUT_SECONDS = 30.0
MOST_MORE_MS = 2.0
LEAST_MB = {"1000:none": 150.0, "100:none": 30.0}
LEAST_OF_ROUND_TRIP = 0.5


def run() -> list[Table]:
    """Measure every kind of log."""
    table = Table(
        f"Compaction of {SIZE_BYTES // MEGABYTE} MB, MB a second of CPU time, medians of {ROUNDS}",
        ("records", "kcli", "Apache Kafka", "codec alone", "kcli / Apache"),
    )
    with tempfile.TemporaryDirectory(prefix="kcli-cleaner-") as directory:
        apache = ApacheCleaner(Path(directory), "-Xmx1g")
        try:
            for case in CASES.split(","):
                _measure(Path(directory), case, apache, table)
        finally:
            apache.close()
    return [table, _beside_a_producer()]


def _measure(directory: Path, case: str, apache: ApacheCleaner, table: Table) -> None:
    record_bytes, _, codec_name = case.partition(":")
    codec = Codec[codec_name.upper()]
    made = directory / "made" / "bench-0"
    size = _write_log(made, int(record_bytes), codec)
    ours, theirs = [], []
    for number in range(-1, ROUNDS):
        own = _clean(_copy(made, directory / "own"))
        other = apache.clean(
            _copy(made, directory / "other"),
            now_ms=NOW_MS,
            map_bytes=128 * 1024 * 1024,
            internal_segment_bytes=SEGMENT_BYTES,
        )
        if number >= 0:
            ours.append(size / MEGABYTE / own)
            theirs.append(size / MEGABYTE / (other.cpu_ns / 1e9))
    limit = _codec_alone(made, size, codec) if codec is not Codec.NONE else 0.0
    ratio = median(mine / other for mine, other in zip(ours, theirs, strict=True))
    table.add(
        f"{record_bytes} B, {codec_name}",
        median(ours),
        median(theirs),
        limit if codec is not Codec.NONE else "",
        ratio,
    )
    if case in LEAST_MB:
        table.gates.append(Gate(f"MB/s of {case}", median(ours), LEAST_MB[case], at_least=True))
    if case == "1000:none":
        table.gates.append(Gate(f"times Apache Kafka's rate of {case}", ratio, 1.0, at_least=True))
    if codec is not Codec.NONE:
        share = median(ours) / limit
        table.gates.append(Gate(f"of the codec's rate of {case}", share, LEAST_OF_ROUND_TRIP, at_least=True))
    shutil.rmtree(made.parent)


def open_log(directory: Path, *, is_clean: bool = True) -> UnifiedLog:
    """Open the log in a directory, all of it committed."""
    settings = LogSettings(
        config=CONFIG, report=lambda message: None, on_failure=lambda directory, message: None
    )
    log = load_log(
        str(directory),
        TopicPartition("bench", 0),
        topic_id=None,
        settings=settings,
        now_ms=NOW_MS,
        checkpointed=Checkpointed(is_clean),
    )
    log.advance_high_watermark_to_end()
    return log


def _write_log(directory: Path, record_bytes: int, codec: Codec) -> int:
    """Write a log of closed segments; return the bytes of its records before compression."""
    directory.mkdir(parents=True)
    log, random = open_log(directory), Random(1)
    count = SIZE_BYTES // record_bytes
    text = random.randbytes(4096).hex().encode()
    value_bytes = record_bytes - 20
    size = 0
    while size < SIZE_BYTES:
        builder = RecordBatchBuilder(codec=codec, leader_epoch=0, base_offset=log.log_end_offset)
        while builder.estimated_size < BATCH_BYTES:
            key = b"key-%08d" % random.randrange(count // 4)
            start = random.randrange(len(text) - value_bytes)
            builder.append(NOW_MS + random.randrange(20), key, text[start : start + value_bytes])
        size += builder.estimated_size
        log.append_as_follower(builder.build(), now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)
    return size


def _copy(made: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(made, target / made.name)
    return target / made.name


def _clean(directory: Path) -> float:
    """Compact a log; return the CPU time of the thread, without that of the swaps."""
    log = open_log(directory)
    job = plan_job(log, 0, NOW_MS)
    assert job is not None
    compaction, round_of_job = Compaction(log, job), run_job(job)
    used = 0.0
    while True:
        before = time.thread_time()
        cleaned = round_of_job.next_group()
        used += time.thread_time() - before
        if cleaned is None:
            break
        compaction.swap(cleaned, NOW_MS)
    assert compaction.finish(round_of_job)
    log.close(now_ms=NOW_MS)
    return used


def _codec_alone(directory: Path, size: int, codec: Codec) -> float:
    """Return the MB a second of decompressing all batches and compressing them again."""
    log = open_log(directory)
    payloads = [bytes(batch.to_bytes()[61:]) for segment in log.segments for _, batch in segment.batches()]
    log.close_handlers()
    before = time.thread_time()
    for payload in payloads:
        compress(codec, decompress(codec, payload))
    return size / MEGABYTE / (time.thread_time() - before)


def _beside_a_producer() -> Table:
    """Measure single records to one topic while the broker compacts another, as often as it takes."""
    table = Table("A producer with one record in flight, us", ("beside", "p50", "p99", "requests"))
    builder = RecordBatchBuilder()
    builder.append(NOW_MS, b"key", b"v" * 90)
    single = bytes(builder.build())
    found: dict[str, list[float]] = {"nothing": [], "compaction": []}
    with tempfile.TemporaryDirectory(prefix="kcli-cleaner-") as directory:
        broker = KcliBroker(Path(directory), settings=BROKER, arguments=("--port", "0"))
        broker.start()
        try:
            _measure_beside(broker, single, found)
        finally:
            broker.close()
    for name, times in found.items():
        table.add(name, percentile(times, 0.5), percentile(times, 0.99), str(len(times)))
    more = percentile(found["compaction"], 0.99) - percentile(found["nothing"], 0.99)
    table.gates.append(Gate("p99 beside a compaction, ms more", more / 1000, MOST_MORE_MS))
    return table


def _measure_beside(broker: KcliBroker, single: bytes, found: dict[str, list[float]]) -> None:
    """Add the microseconds of round trips alone, and beside compactions of other topics."""
    with RawClient(broker.bootstrap, timeout=TIMEOUT_SECONDS) as client:
        wire.make_topic(client, "single")
        producing = wire.Producing(client, "single", single)
        for _ in range(WARM_UP_REQUESTS):
            producing.one()
        for number in range(ROUNDS):
            topic = f"compacted-{number}"
            _fill(broker, topic)
            found["nothing"] += [producing.one() * 1e6 for _ in range(REQUESTS)]
            command = [sys.executable, "-m", "kcli", "broker", "compact", topic, "--roll"]
            compaction = subprocess.Popen(
                [*command, "--data-dir", str(broker.data)], stdout=subprocess.DEVNULL
            )
            while compaction.poll() is None:
                found["compaction"].append(producing.one() * 1e6)
            if compaction.returncode:
                raise wire.BenchmarkFailed(f"the compaction ended with {compaction.returncode}")


def _fill(broker: KcliBroker, topic: str) -> None:
    """Write a topic of many versions of each key."""
    random = Random(1)
    with RawClient(broker.bootstrap, timeout=TIMEOUT_SECONDS) as client:
        wire.make_topic(client, topic)
        for _ in range(BATCHES):
            builder = RecordBatchBuilder()
            while builder.estimated_size < BATCH_BYTES:
                builder.append(NOW_MS, b"key-%08d" % random.randrange(50_000), b"value" * 16)
            wire.Producing(client, topic, bytes(builder.build())).stream(TIMES, IN_FLIGHT)
