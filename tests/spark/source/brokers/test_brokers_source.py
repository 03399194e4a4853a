"""What a planner asks brokers: against a script, and against a broker of our own with real topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.errors import KcliError, UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.datasource.reader_options import source_options
from kcli.spark.source.brokers.brokers_source import BrokersSource
from kcli.spark.source.ranges.offset_specs import AtTimestamp, RangeRules
from kcli.spark.source.ranges.resolve import resolve
from kcli.spark.source.ranges.selection import Subscribe
from kcli.spark.source.source import SplitLimits, TopicIdentity
from kcli.spark.split import COLUMNS, OffsetInterval, ReadCounters, Reading, Split
from tests.spark.source.brokers.read_splits import IMPATIENT
from tests.spark.source.brokers.scripted_broker import ScriptedBroker, batch, nobody_listens
from tests.support.kcli_broker import KcliBroker
from tests.support.producing import create_topic, produce, read_partition
from tests.support.records import TestRecord

T_0 = TopicPartition("t", 0)


# --- against a script --------------------------------------------------------------------------------------


def test_offsets_are_those_of_the_leader() -> None:
    with ScriptedBroker([batch(30, 70)], log_start=30) as broker:
        broker.stable_offset = 80
        source = BrokersSource(broker.bootstrap)
        assert source.cluster_id() == "scripted"
        assert source.topics() == (TopicIdentity("t", "AAECAwQFBgcICQoLDA0ODw", (0,)),)
        assert source.earliest([T_0]) == {T_0: 30}
        assert source.latest([T_0], read_committed=False) == {T_0: 100}
        assert source.latest([T_0], read_committed=True) == {T_0: 80}
        assert source.at_timestamps({T_0: 5}) == {T_0: None}
        assert source.earliest([]) == {}
        source.close()


def test_a_question_about_a_partition_that_is_not_there_is_an_error() -> None:
    with ScriptedBroker() as broker:
        source = BrokersSource(broker.bootstrap, IMPATIENT)
        with pytest.raises(KcliError, match="cannot ask for the offsets of t-7"):
            source.earliest([TopicPartition("t", 7)])


def test_nobody_listening_is_one_clear_error() -> None:
    with nobody_listens() as bootstrap, pytest.raises(KcliError, match="cannot connect to 127"):
        BrokersSource(bootstrap).topics()


@pytest.mark.parametrize(
    ("bootstrap", "properties"),
    [
        ("", {}),
        ("h:x", {}),
        ("h:1", {"security.protocol": "SASL_SSL"}),
        ("h:1", {"fetch.max.bytes": "lots"}),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    bootstrap: str, properties: dict[str, str]
) -> None:
    with pytest.raises(UsageError):
        BrokersSource(bootstrap, properties)


def test_no_secret_is_shown() -> None:
    source = BrokersSource("h:1", {"sasl.jaas.config": "password=hunter2", "ssl.key.password": "hunter2"})
    assert "hunter2" not in repr(source)


# --- splits ------------------------------------------------------------------------------------------------


def bounds(splits: list[Split]) -> list[tuple[int, int]]:
    return sorted((split.start, split.end) for split in splits)


def test_splits_have_about_the_bytes_asked_for() -> None:
    batches = [batch(base, 10, value_bytes=1000) for base in range(0, 1000, 10)]
    with ScriptedBroker(batches) as broker:
        source = BrokersSource(broker.bootstrap)
        ranges = {T_0: OffsetInterval(100, 900)}
        splits = source.splits(ranges, SplitLimits(split_bytes=210_000), read_committed=False)
        assert bounds(list(splits)) == [(100, 300), (300, 500), (500, 700), (700, 900)]
        assert all(abs(split.size_bytes - 200_000) < 10_000 for split in splits)
        assert [split.size_bytes for split in splits] == sorted(
            (split.size_bytes for split in splits), reverse=True
        )


def test_small_topics_are_one_split() -> None:
    with ScriptedBroker([batch(0, 100)]) as broker:
        splits = BrokersSource(broker.bootstrap).splits(
            {T_0: OffsetInterval(0, 100), TopicPartition("u", 0): OffsetInterval(5, 5)},
            SplitLimits(task_slots=8),
            read_committed=False,
        )
        assert bounds(list(splits)) == [(0, 100)]


def test_nothing_to_read_asks_nobody() -> None:
    source = BrokersSource("127.0.0.1:1", IMPATIENT)
    assert source.splits({T_0: OffsetInterval(5, 5)}, SplitLimits(), read_committed=False) == ()


def test_without_the_right_to_see_sizes_offsets_decide() -> None:
    with ScriptedBroker([batch(0, 100)]) as broker:
        broker.tells_sizes = False
        source = BrokersSource(broker.bootstrap)
        ranges = {T_0: OffsetInterval(0, 100_000_000)}
        splits = source.splits(ranges, SplitLimits(task_slots=2), read_committed=False)
        assert len(splits) > 6
        assert {split.size_bytes for split in splits} == {0}
        assert bounds(list(splits))[0][0] == 0
        assert bounds(list(splits))[-1][1] == 100_000_000


def test_limits_on_records_and_partitions_cut_as_spark_does() -> None:
    with ScriptedBroker([batch(0, 100)]) as broker:
        source = BrokersSource(broker.bootstrap)
        ranges = {T_0: OffsetInterval(1, 40)}
        most = source.splits(ranges, SplitLimits(max_records=20), read_committed=False)
        assert bounds(list(most)) == [(1, 20), (20, 40)]
        least = source.splits(ranges, SplitLimits(max_records=20, min_partitions=4), read_committed=False)
        assert bounds(list(least)) == [(1, 10), (10, 20), (20, 30), (30, 40)]


# --- against a broker --------------------------------------------------------------------------------------

RECORDS = [
    TestRecord(
        slot=index % 3,
        offset=-1,
        timestamp=1_700_000_000_000 + index,
        key=b"key-%d" % index if index % 5 else None,
        value=b"value-%d " % index * (index % 40) if index % 7 else None,
        headers=(("h", b"x"), ("h", None), ("é", b"")) if index % 4 == 0 else (),
    )
    for index in range(6000)
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KcliBroker]:
    broker = KcliBroker(
        tmp_path_factory.mktemp("brokers-source"),
        settings={"log.message.timestamp.before.max.ms": str(2**62)},
    )
    broker.start()
    try:
        for codec in ("none", "zstd"):
            create_topic(broker.bootstrap, codec, 3, {"retention.ms": "-1"})
            produce(broker.bootstrap, codec, RECORDS, {"compression.type": codec, "batch.size": 4000})
        create_topic(broker.bootstrap, "empty")
        yield broker
    finally:
        broker.close()


def read_all(source: BrokersSource, splits: list[Split], counters: ReadCounters) -> list[TestRecord]:
    reader = source.reader()
    reading = Reading(columns=COLUMNS)
    rows = [
        row for split in splits for rows in reader.read(split, reading, counters) for row in rows.to_pylist()
    ]
    return [
        TestRecord(
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in rows
    ]


@pytest.mark.parametrize("topic", ["none", "zstd"])
@pytest.mark.parametrize(
    "limits",
    [
        SplitLimits(),
        SplitLimits(min_partitions=11),
        SplitLimits(max_records=77),
        SplitLimits(split_bytes=9000),
    ],
    ids=["one each", "eleven", "77 offsets", "9 kB"],
)
def test_rows_are_what_another_client_reads(broker: KcliBroker, topic: str, limits: SplitLimits) -> None:
    source = BrokersSource(broker.bootstrap)
    resolved = resolve(source, Subscribe((topic,)), RangeRules())
    splits = sorted(
        source.splits(resolved.ranges, limits, read_committed=False),
        key=lambda split: (split.partition, split.start),
    )
    counters = ReadCounters()
    rows = read_all(source, splits, counters)
    theirs = [record for index in range(3) for record in read_partition(broker.bootstrap, topic, index)]
    assert rows == theirs
    assert counters.rows == len(RECORDS)
    assert not counters.missing


def test_times_are_found_by_the_broker(broker: KcliBroker) -> None:
    source = BrokersSource(broker.bootstrap)
    rules = RangeRules(starting=AtTimestamp(1_700_000_000_600), ending=AtTimestamp(1_700_000_003_000))
    resolved = resolve(source, Subscribe(("none",)), rules)
    assert set(resolved.ranges.values()) == {OffsetInterval(200, 1000)}


def test_an_empty_topic_has_nothing_to_read(broker: KcliBroker) -> None:
    source = BrokersSource(broker.bootstrap)
    resolved = resolve(source, Subscribe(("empty",)), RangeRules())
    assert list(resolved.ranges.values()) == [(0, 0)]
    assert source.splits(resolved.ranges, SplitLimits(), read_committed=False) == ()


def test_options_lead_to_rows(broker: KcliBroker) -> None:
    options = source_options(
        {
            "kafka.bootstrap.servers": broker.bootstrap,
            "assign": '{"none": [1]}',
            "startingOffsets": '{"none": {"1": 1990}}',
            "isolationLevel": "read_committed",
            "columns": "offset",
        }
    )
    assert options.bootstrap is not None
    source = BrokersSource(options.bootstrap, options.properties)
    resolved = resolve(source, options.selection, options.rules)
    splits = source.splits(resolved.ranges, options.limits, read_committed=True)
    rows = [
        row["offset"]
        for split in splits
        for batch in source.reader().read(split, options.reading, ReadCounters())
        for row in batch.to_pylist()
    ]
    assert rows == list(range(1990, 2000))


def test_a_split_is_read_across_a_restart_of_the_broker(broker: KcliBroker) -> None:
    properties = {"fetch.max.bytes": "5000", "retry.backoff.ms": "10"}
    source = BrokersSource(broker.bootstrap, properties)
    rows = source.reader().read(Split("none", 0, 0, 2000), Reading(columns=("offset",)), ReadCounters())
    found = [row["offset"] for row in next(rows).to_pylist()]
    broker.kill()
    broker.start()
    found += [row["offset"] for batch in rows for row in batch.to_pylist()]
    assert found == list(range(2000))
