"""Reading a compacted topic with transactions: whoever reads it has the records that librdkafka shows.

The topic has committed, aborted and open transactions over several segments. It is compacted between them and
has what that leaves: holes, batches without records, markers whose data is gone, delete horizons.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pytest
from confluent_kafka import Producer

from kcli.protocol.records.batch import iter_batches
from kcli.protocol.topics import TopicPartition
from kcli.spark.engines.frame_engine import FrameEngine
from kcli.spark.engines.local_engine import LocalEngine
from kcli.spark.engines.session import OpenSession
from kcli.spark.source.brokers.brokers_source import BrokersSource
from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource
from kcli.spark.source.ranges.offset_specs import RangeRules
from kcli.spark.source.source import Source, SplitLimits
from kcli.spark.split import COLUMNS, OffsetInterval, ReadCounters, Reading
from tests.spark.export.exporting import ALL_COLUMNS, export, options
from tests.support.committed_rows import SeenRecord, seen_records
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic
from tests.support.waiting import eventually

TOPIC = "compacted-transactions"
PARTITIONS = 2
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
PRODUCERS = 4
ROUNDS = 12
ISOLATIONS = {"read_committed": True, "read_uncommitted": False}


class Written(NamedTuple):
    broker: KcliBroker
    seen: Mapping[str, Sequence[SeenRecord]]
    """What librdkafka shows at each level."""

    def source(self, place: str) -> Source:
        if place == "brokers":
            return BrokersSource(self.broker.bootstrap, {})
        return LogDirsSource([str(self.broker.node_directory)])


class History:
    """Producers with transactions that overlap; each key is written again and again, some are deleted."""

    def __init__(self, broker: KcliBroker) -> None:
        self._broker = broker
        self._random = random.Random(20)
        self._count = 0
        self._producers = [self._producer(number) for number in range(PRODUCERS)]
        self._is_open = [False] * PRODUCERS

    def _producer(self, number: int) -> Producer:
        settings = {"bootstrap.servers": self._broker.bootstrap, "transactional.id": f"{TOPIC}-{number}"}
        producer = Producer({**settings, "linger.ms": 0})
        producer.init_transactions(60)
        return producer

    def round(self) -> None:
        for number in self._random.sample(range(PRODUCERS), 3):
            self.write(number, self._random.randint(1, 4))
            if self._random.random() < 0.6:
                self.end(number, is_commit=self._random.random() < 0.5)

    def write(self, number: int, records: int) -> None:
        producer = self._producers[number]
        if not self._is_open[number]:
            producer.begin_transaction()
            self._is_open[number] = True
        for _ in range(records):
            self._count += 1
            value = None if self._random.random() < 0.2 else b"%d" % self._count
            key = b"key-%d" % self._random.randint(0, 7)
            producer.produce(TOPIC, value, key, self._random.randrange(PARTITIONS))
            producer.flush(60)

    def end(self, number: int, *, is_commit: bool) -> None:
        producer = self._producers[number]
        (producer.commit_transaction if is_commit else producer.abort_transaction)(60)
        self._is_open[number] = False

    def end_all(self) -> None:
        for number in range(PRODUCERS):
            if self._is_open[number]:
                self.end(number, is_commit=number % 2 == 0)

    def compact(self, *words: str) -> None:
        """Compact what has ended, with a segment of its own for what follows."""
        command = [sys.executable, "-m", "kcli", "broker", "compact", TOPIC, "--roll"]
        command += ["--data-dir", str(self._broker.data), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def written(broker: KcliBroker) -> Iterator[Written]:
    create_topic(broker.bootstrap, TOPIC, PARTITIONS, COMPACTED)
    history = History(broker)
    for number in range(ROUNDS):
        history.round()
        if number % 3 == 2:
            history.compact()
        if number == ROUNDS // 2:
            # Markers and tombstones get a horizon, and with a later time they go.
            history.end_all()
            history.compact()
            history.compact("--now", "2099-01-01T00:00:00Z")
    history.write(0, 3)
    history.write(1, 3)
    history.end(1, is_commit=True)
    history.write(2, 3)
    history.end(2, is_commit=False)
    seen = {
        isolation: seen_records(broker.bootstrap, TOPIC, PARTITIONS, isolation=isolation)
        for isolation in ISOLATIONS
    }
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    brokers, directory = BrokersSource(broker.bootstrap, {}), LogDirsSource([str(broker.node_directory)])
    ends = brokers.latest(partitions, read_committed=False)
    eventually(lambda: directory.latest(partitions, read_committed=False) == ends, "the high watermarks")
    yield Written(broker, seen)
    history.end_all()


def test_the_topic_has_all_that_compaction_leaves(written: Written) -> None:
    """Otherwise the tests below would show nothing."""
    batches = [
        batch
        for number in range(PARTITIONS)
        for path in sorted((written.broker.node_directory / f"{TOPIC}-{number}").glob("*.log"))
        for batch in iter_batches(path.read_bytes())
    ]
    assert [batch for batch in batches if not batch.is_control and not list(batch.records())]
    assert [batch for batch in batches if batch.is_control and list(batch.records())]
    assert any(later.base_offset > batch.last_offset + 1 for batch, later in pairwise(batches))
    assert any(batch.delete_horizon_ms is not None for batch in batches)
    committed, uncommitted = (len(written.seen[isolation]) for isolation in ISOLATIONS)
    assert 10 < committed < uncommitted - 3


@pytest.mark.parametrize("split_bytes", [1, 400, 2**40])
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("place", ["brokers", "log directories"])
def test_splits_give_what_librdkafka_shows(
    place: str, isolation: str, split_bytes: int, written: Written
) -> None:
    source, is_committed = written.source(place), ISOLATIONS[isolation]
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    begins = source.earliest(partitions)
    ends = source.latest(partitions, read_committed=is_committed)
    ranges = {each: OffsetInterval(begins[each], ends[each]) for each in partitions}
    limits = SplitLimits(split_bytes=split_bytes)
    reading = Reading(columns=COLUMNS, read_committed=is_committed)
    counters = ReadCounters()
    found = [
        row
        for split in source.splits(ranges, limits, read_committed=is_committed)
        for batch in source.reader().read(split, reading, counters)
        for row in rows_of(pa.Table.from_batches([batch]), split.partition)
    ]
    source.close()
    assert sorted(found) == written.seen[isolation]
    assert counters.missing == []


def rows_of(table: pa.Table, partition: int | None = None) -> list[SeenRecord]:
    times = table.column("timestamp").cast("int64").to_pylist()
    rows = zip(table.to_pylist(), times, strict=True)
    return [
        SeenRecord(
            row["partition"] if partition is None else partition,
            row["offset"],
            row["key"],
            row["value"],
            time // 1000,
        )
        for row, time in rows
    ]


@pytest.mark.parametrize(
    ("engine", "place"),
    [("local", "brokers"), ("RDD", "log directories"), ("DataFrame", "brokers"), ("SQL", "log directories")],
)
def test_every_engine_exports_what_is_committed(
    engine: str, place: str, written: Written, spark_session: OpenSession, tmp_path: Path
) -> None:
    match engine:
        case "local":
            chosen: object = LocalEngine(2)
        case "RDD":
            chosen = spark_session.engine()
        case "DataFrame":
            chosen = FrameEngine(spark_session.spark)
        case _:
            chosen = spark_session.sql_engine()
    asked = options(TOPIC, write=ALL_COLUMNS, rules=RangeRules(read_committed=True))
    export(written.source(place), tmp_path, asked, engine=chosen)
    if isinstance(chosen, LocalEngine):
        chosen.close()
    table = pyarrow.dataset.dataset(tmp_path, format="parquet", partitioning="hive").to_table()
    assert sorted(rows_of(table)) == written.seen["read_committed"]


@pytest.mark.parametrize(
    ("place", "isolation"), [("brokers", "read_committed"), ("log directories", "read_uncommitted")]
)
def test_a_data_frame_has_what_librdkafka_shows(
    place: str, isolation: str, written: Written, spark_session: OpenSession
) -> None:
    where = {"logDirs": str(written.broker.node_directory)}
    if place == "brokers":
        where = {"kafka.bootstrap.servers": written.broker.bootstrap}
    frame = spark_session.spark.read.format("kcli").options(
        subscribe=TOPIC, isolationLevel=isolation, **where
    )
    chosen = ["partition", "offset", "key", "value", "unix_millis(timestamp) time"]
    rows = frame.load().selectExpr(*chosen).collect()
    assert sorted(SeenRecord(*row) for row in rows) == written.seen[isolation]
