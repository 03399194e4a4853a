"""What a command line of spark-export says, as the export understands it; and all that is wrong usage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from kcli.commands.export.export_options import ExportChoices
from kcli.commands.export.file_options import (
    BadValue,
    ColumnChoice,
    Corrupt,
    DamageChoice,
    ExportMode,
    Format,
    HeadersAs,
    OutputChoice,
    ParquetCodec,
    field_format,
    parse_size,
)
from kcli.commands.export.run_options import (
    EngineChoice,
    EngineName,
    FollowChoice,
    LateEngine,
    Via,
    WriterName,
)
from kcli.commands.export.source_options import (
    ConnectionChoice,
    Isolation,
    NoMatch,
    RangeChoice,
    Reset,
    SourceChoice,
)
from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition
from kcli.spark.engines.session import SessionSettings
from kcli.spark.export.engine import NoProgress
from kcli.spark.export.options import ExportOptions, FollowOptions, Mode, WriteOptions
from kcli.spark.source.ranges.offset_specs import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OnNoMatch,
    OnReset,
    RangeRules,
)
from kcli.spark.source.ranges.selection import Assign, Subscribe, SubscribePattern
from kcli.spark.source.ranges.trigger_limits import TriggerLimits
from kcli.spark.source.source import SplitLimits
from kcli.spark.split import COLUMNS, FieldFormat, OnBadValue, OnCorrupt, Reading

ORDERS = SourceChoice(["orders"])


def test_what_is_not_said_is_as_the_export_has_it() -> None:
    assert ExportChoices(source=ORDERS).export_options() == ExportOptions(
        selection=Subscribe(("orders",)),
        rules=RangeRules(read_committed=True),
        write=WriteOptions(reading=Reading(read_committed=True)),
        mode=Mode.APPEND,
        limits=SplitLimits(),
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (SourceChoice(["a", "b", "a"]), Subscribe(("a", "b"))),
        (SourceChoice(topic_pattern="^ord"), SubscribePattern("^ord")),
        (
            SourceChoice(assign='{"a": [1, 0]}'),
            Assign((TopicPartition("a", 0), TopicPartition("a", 1))),
        ),
    ],
)
def test_topics(source: SourceChoice, expected: object) -> None:
    assert source.selection() == expected


@pytest.mark.parametrize(
    ("ranges", "starting", "ending"),
    [
        (RangeChoice(), Earliest(), Latest()),
        (RangeChoice("earliest", "LATEST"), Earliest(), Latest()),
        (
            RangeChoice('{"a":{"0":5}}', '{"a":{"0":-1}}'),
            AtOffsets({TopicPartition("a", 0): 5}),
            AtOffsets({TopicPartition("a", 0): -1}),
        ),
        (
            RangeChoice('{"a":{"0":5}}', starting_timestamp="1970-01-01T00:00:01", ending_timestamp="2500"),
            AtTimestamp(1000),
            AtTimestamp(2500),
        ),
        (
            RangeChoice(
                starting_timestamp="1970-01-01T01:00:00+01:00", starting_by_timestamp='{"a":{"0":7}}'
            ),
            AtTimestamp(0),
            Latest(),
        ),
        (
            RangeChoice(starting_by_timestamp='{"a":{"0":7}}', ending_by_timestamp='{"a":{"0":9}}'),
            AtTimestamps({TopicPartition("a", 0): 7}),
            AtTimestamps({TopicPartition("a", 0): 9}),
        ),
    ],
)
def test_ranges(ranges: RangeChoice, starting: object, ending: object) -> None:
    rules = ranges.rules(None, on_reset=Reset.FAIL, follows=False)
    assert (rules.starting, rules.ending) == (starting, ending)


def test_a_stream_may_begin_at_its_end() -> None:
    rules = RangeChoice("latest", isolation_level=Isolation.UNCOMMITTED).rules(
        None, on_reset=Reset.FAIL, follows=True
    )
    assert (rules.starting, rules.ending, rules.read_committed) == (Latest(), Latest(), False)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ColumnChoice(), COLUMNS[:-1]),
        (ColumnChoice(include_headers=True), COLUMNS),
        (ColumnChoice(headers=HeadersAs.MAP), COLUMNS),
        (ColumnChoice(columns="Value,offset"), ("value", "offset")),
        (ColumnChoice(columns="offset, value", include_headers=True), ("value", "offset", "headers")),
        (ColumnChoice(columns="headers,value"), ("value", "headers")),
        (ColumnChoice(columns="key,value", key_as=Format.NONE), ("value",)),
    ],
)
def test_columns(choice: ColumnChoice, expected: tuple[str, ...]) -> None:
    assert choice.names() == expected


def test_what_is_written() -> None:
    choices = ExportChoices(
        to="out",
        source=ORDERS,
        columns=ColumnChoice(
            key_as=Format.STRING, value_as=Format.LONG, headers=HeadersAs.MAP, where="offset > 5"
        ),
        output=OutputChoice(
            "date,hour",
            compression=ParquetCodec.GZIP,
            compression_level=9,
            target_file_size="1G",
        ),
        damage=DamageChoice(Corrupt.QUARANTINE),
        engine=EngineChoice(min_partitions=7, max_records_per_partition=100),
    )
    options = choices.export_options(slots=3)
    write = options.write
    assert (write.key, write.value) == (FieldFormat("string"), FieldFormat("long"))
    assert (write.headers_as_map, write.layout.partition_by) == (True, ("date", "hour"))
    assert (write.parquet.compression, write.parquet.compression_level) == ("gzip", 9)
    assert write.reading.on_corrupt is OnCorrupt.DEAD_LETTER
    assert options.limits == SplitLimits(
        min_partitions=7, max_records=100, task_slots=3, target_file_bytes=1024**3
    )
    assert options.rules.narrowing is not None
    assert options.rules.narrowing.min_offset == 6


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64k", 65536), ("256MB", 2**28), ("1 GiB", 2**30), ("2tb", 2**41)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--target-file-size") == size


def test_how_an_export_goes_on() -> None:
    choice = FollowChoice(True, "500ms", 10, "1m", 20)
    assert choice.options() == FollowOptions(interval_s=0.5, triggers=TriggerLimits(20, 10, 60_000))
    assert FollowChoice().options() == FollowOptions()


def test_a_schema_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.ddl"
    path.write_text("id BIGINT, name STRING")
    assert field_format(Format.JSON, str(path), "value") == FieldFormat("json", "id BIGINT, name STRING")
    assert field_format(Format.JSON, "id BIGINT", "value") == FieldFormat("json", "id BIGINT")
    registry = "registry:http://127.0.0.1:1"
    assert field_format(Format.AVRO, registry, "value") == FieldFormat("avro", registry)


def test_tasks_at_the_same_time() -> None:
    assert EngineChoice(master="local[3]").slots() == 3
    assert EngineChoice(master="local[3, 4]").slots() == 3
    assert EngineChoice(master="local").slots() == 1
    assert EngineChoice().slots() == EngineChoice(master="local[*]").slots() >= 1


class Recorder:
    """An engine that notes what is done with it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.slots = 2

    def run(self, tasks: Sequence[Any], on_done: object, progress: object) -> None:
        self.events.append(f"run {len(tasks)}")

    def close(self) -> None:
        self.events.append("close")


def test_spark_is_started_only_for_a_task() -> None:
    engine = Recorder()

    @contextmanager
    def opened() -> Iterator[Recorder]:
        engine.events.append("open")
        yield engine
        engine.close()

    for tasks, events in (([], []), ([1, 2], ["open", "run 2", "close"])):
        with LateEngine(opened, 3) as late:  # type: ignore[arg-type]
            assert late.slots == 3
            late.run(tasks, lambda _: None, NoProgress())  # type: ignore[arg-type]
        assert engine.events == events


class NoSession:
    """A session whose engines do nothing."""

    def engine(self) -> Recorder:
        return Recorder()

    def sql_engine(self, *, via_connector: bool | None) -> NoSession:
        return self

    def check(self, options: WriteOptions) -> None: ...


@pytest.mark.parametrize(
    ("by_sql", "read_bytes", "is_brief"),
    [
        (None, None, True),
        (WriteOptions(), 3_000, True),
        (WriteOptions(), 10**9, False),
        (WriteOptions(), None, False),
    ],
    ids=["the tasks write", "a few records", "many records", "nobody knows how many"],
)
def test_a_jvm_that_handles_few_rows_is_brief(
    by_sql: WriteOptions | None, read_bytes: int | None, is_brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optimizing its code took more CPU time than all the rest of a small export by Spark SQL."""
    opened: list[SessionSettings] = []

    @contextmanager
    def open_session(settings: SessionSettings) -> Iterator[Any]:
        opened.append(settings)
        yield NoSession()

    monkeypatch.setattr("kcli.spark.engines.session.open_session", open_session)
    with EngineChoice().open(by_sql=by_sql, read_bytes=read_bytes):
        assert [settings.is_brief for settings in opened] == [is_brief]


@pytest.mark.parametrize(
    ("columns", "engine", "expected"),
    [
        (ColumnChoice(), EngineChoice(), False),
        (ColumnChoice(where="offset > 5 AND key IS NULL"), EngineChoice(), False),
        (ColumnChoice(where="length(value) > 5"), EngineChoice(), True),
        (ColumnChoice(select="value"), EngineChoice(), True),
        (ColumnChoice(), EngineChoice(writer=WriterName.SPARK), True),
        (ColumnChoice(), EngineChoice(via=Via.CONNECTOR), True),
    ],
)
def test_who_writes(columns: ColumnChoice, engine: EngineChoice, expected: bool) -> None:
    choices = ExportChoices(source=ORDERS, columns=columns, engine=engine)
    choices.check()
    assert choices.uses_spark_writer() is expected


def test_properties_that_mean_nothing_to_an_export_are_said_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "consumer.properties"
    path.write_text("group.id=billing\nisolation.level=read_uncommitted\nfetch.max.bytes=5000000\n")
    properties = ConnectionChoice(path, ["nonsense=1"]).properties()
    assert properties == {
        "client.id": "kcli-spark-export",
        "fetch.max.bytes": "5000000",
        "nonsense": "1",
    }
    assert capsys.readouterr().err.splitlines() == [
        "warning: unknown property `nonsense`",
        "warning: `isolation.level` has no effect: use `--isolation-level`",
        "warning: `group.id` has no effect: no group is joined",
    ]


def everything(choices: ExportChoices) -> Any:
    """Do all that is done with a command line before anything is opened."""
    choices.check()
    return choices.export_options(), choices.follow.options()


COLUMNS_WRONG = [
    (ColumnChoice(columns="value,nothing"), "there is no column `nothing`"),
    (ColumnChoice(columns="value", key_as=Format.INT), "`--key-as int` without the column `key`"),
    (ColumnChoice(columns="key", key_as=Format.NONE), "no column is left to export"),
    (ColumnChoice(columns=","), "no column is left to export"),
    (ColumnChoice(value_schema="id BIGINT"), "`--value-schema` needs `--value-as json` or `avro`"),
    (ColumnChoice(key_as=Format.AVRO), "`--key-as avro` needs `--key-schema`"),
    (ColumnChoice(value_as=Format.JSON, value_schema="registry:http://a"), "is for avro"),
    (
        ColumnChoice(value_as=Format.JSON, value_schema="no-such.ddl"),
        "cannot read `no-such.ddl`: No such file",
    ),
    (ColumnChoice(where="(offset"), "invalid filter"),
    (ColumnChoice(select=" "), "`--select` names no column"),
]
RANGES_WRONG = [
    (RangeChoice("latest"), "latest"),
    (RangeChoice('{"a":'), "invalid value for `--starting-offsets`"),
    (RangeChoice(""), "invalid value for `--starting-offsets`"),
    (RangeChoice(ending_offsets='{"a":{"0":-2}}'), "-2"),
    (RangeChoice(starting_timestamp="yesterday"), "invalid value for `--starting-timestamp`: yesterday"),
    (RangeChoice(ending_by_timestamp="[]"), "invalid value for `--ending-offsets-by-timestamp`"),
]
OUTPUT_WRONG = [
    (OutputChoice(partition_by="topic,colour"), "cannot partition by `colour`"),
    (OutputChoice(partition_by="hour"), "cannot partition by `hour` without `date`"),
    (OutputChoice(partition_by="date,topic"), "cannot partition by `date,topic`"),
    (OutputChoice(partition_by=" , "), "`--partition-by` names nothing"),
    (OutputChoice(partition_by="topic", flat=True), "exclude each other"),
    (OutputChoice(target_file_size="big"), "`--target-file-size` cannot be big"),
    (OutputChoice(target_file_size="0MB"), "`--target-file-size` cannot be 0MB"),
    (OutputChoice(compression_level=99), "`--compression-level` of zstd cannot be 99"),
    (OutputChoice(compression=ParquetCodec.SNAPPY, compression_level=1), "has no meaning for snappy"),
]
FOLLOW_WRONG = [
    (FollowChoice(True, "soon"), "invalid value for `--interval`: soon"),
    (FollowChoice(True, max_trigger_delay="-1m"), "cannot be negative"),
    (FollowChoice(interval="5s"), "`--interval` has no meaning without `--follow`"),
    (
        FollowChoice(max_offsets_per_trigger=5),
        "`--max-offsets-per-trigger` has no meaning without `--follow`",
    ),
    (
        FollowChoice(True, min_offsets_per_trigger=9, max_offsets_per_trigger=5),
        "higher than `--max-offsets-per-trigger`: 9 > 5",
    ),
]
ENGINE_WRONG = [
    (EngineChoice(EngineName.LOCAL, WriterName.SPARK), "`--writer spark` needs `--engine spark`"),
    (EngineChoice(EngineName.LOCAL, via=Via.CONNECTOR), "`--via connector` needs `--engine spark`"),
    (EngineChoice(writer=WriterName.ARROW, via=Via.CONNECTOR), "need `--writer spark`"),
    (EngineChoice(EngineName.LOCAL, conf=["a=b"]), "`--conf` has no meaning with `--engine local`"),
    (EngineChoice(EngineName.LOCAL, master="yarn"), "`--engine local` cannot run on yarn"),
]
SOURCE_WRONG = [
    (SourceChoice(), "missing argument `TOPIC`"),
    (SourceChoice(["a"], topic_pattern="b"), "exclude each other"),
    (SourceChoice(["a", ""]), "the topic name is empty"),
    (SourceChoice(assign="{}"), "`--assign` names no partition"),
    (SourceChoice(assign="a"), "invalid value for `--assign`: a"),
    (SourceChoice(topic_pattern="("), "invalid topic pattern"),
    (SourceChoice(["a"], "b:1", [Path("c")]), "`--bootstrap-server` and `--log-dir` exclude"),
]
WRONG = [
    *((ExportChoices(source=ORDERS, columns=one), message) for one, message in COLUMNS_WRONG),
    *((ExportChoices(source=ORDERS, range=one), message) for one, message in RANGES_WRONG),
    *((ExportChoices(source=ORDERS, output=one), message) for one, message in OUTPUT_WRONG),
    *((ExportChoices(source=ORDERS, follow=one), message) for one, message in FOLLOW_WRONG),
    *((ExportChoices(source=ORDERS, engine=one), message) for one, message in ENGINE_WRONG),
    *((ExportChoices(source=one), message) for one, message in SOURCE_WRONG),
    (
        ExportChoices(source=ORDERS, range=RangeChoice(ending_timestamp="5"), follow=FollowChoice(True)),
        "has no end",
    ),
    (
        ExportChoices(
            source=SourceChoice(["a"], log_dir=[Path("b")]), engine=EngineChoice(via=Via.CONNECTOR)
        ),
        "`--via connector` reads from brokers",
    ),
    (
        ExportChoices(
            source=ORDERS, columns=ColumnChoice(where="f(key)"), engine=EngineChoice(EngineName.LOCAL)
        ),
        "this `--where` needs `--engine spark`",
    ),
    (
        ExportChoices(
            source=ORDERS, columns=ColumnChoice(select="key"), engine=EngineChoice(EngineName.LOCAL)
        ),
        "`--select` needs `--engine spark`",
    ),
]


@pytest.mark.parametrize(("choices", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_usage_is_told_before_anything_is_opened(choices: ExportChoices, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        everything(choices)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (NoMatch, OnNoMatch),
        (Reset, OnReset),
        (BadValue, OnBadValue),
        ([one for one in Corrupt if one is not Corrupt.QUARANTINE], OnCorrupt),
        (ExportMode, Mode),
    ],
)
def test_every_choice_is_one_that_the_export_knows(
    given: Iterable[StrEnum], understood: Iterable[StrEnum]
) -> None:
    # Options are declared without importing the export: `--help` does not load it.
    assert [str(one) for one in given] == [str(one) for one in understood]
