"""The options of `spark-export`, each declared once: what is not given is None.

What a command line of `spark-export` says, as it was given, in the groups that belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from kcli.commands.shared.options import complete_topic

SOURCE, RANGE, COLUMNS, OUTPUT, MODE, ENGINE = "Source", "Range", "Columns", "Output", "Mode", "Engine"


class Isolation(StrEnum):
    """Which records of transactions are read."""

    UNCOMMITTED = "read_uncommitted"
    COMMITTED = "read_committed"


class NoMatch(StrEnum):
    """Where to begin when no record is as late as a starting timestamp."""

    ERROR = "error"
    LATEST = "latest"


class Format(StrEnum):
    """What becomes of the bytes of keys and values."""

    BINARY = "binary"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    JSON = "json"
    AVRO = "avro"
    NONE = "none"


class HeadersAs(StrEnum):
    """The type of the column of headers."""

    ARRAY = "array"
    MAP = "map"


class BadValue(StrEnum):
    """What becomes of a key or value that its format does not fit."""

    FAIL = "fail"
    NULL = "null"
    DEAD_LETTER = "dead-letter"


class Corrupt(StrEnum):
    """What becomes of a damaged batch."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"
    QUARANTINE = "quarantine"


class ParquetCodec(StrEnum):
    """What Parquet files are compressed with."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    GZIP = "gzip"
    NONE = "none"


class ExportMode(StrEnum):
    """What becomes of what the target holds."""

    APPEND = "append"
    SNAPSHOT = "snapshot"
    OVERWRITE = "overwrite"


class Reset(StrEnum):
    """What becomes of a topic that was made anew."""

    FAIL = "fail"
    EARLIEST = "earliest"


class EngineName(StrEnum):
    """Who runs the tasks."""

    SPARK = "spark"
    LOCAL = "local"


class WriterName(StrEnum):
    """Who writes Parquet."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


class Via(StrEnum):
    """Who reads from brokers for the Spark writer."""

    AUTO = "auto"
    NATIVE = "native"
    CONNECTOR = "connector"


Topics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC]...", help="The topics to export", autocompletion=complete_topic, show_default=False
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="DIR|URI",
        help="Where the Parquet files go: a directory, or s3://, gs://, hdfs:// …",
        show_default=False,
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        help="Brokers to read from  [env var: KCLI_BOOTSTRAP_SERVER; default: localhost:9092]",
        show_default=False,
    ),
]
ExportLogDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--log-dir",
        metavar="DIR",
        help="Read a broker's log directory, a copy of one, or a data directory of kcli, and ask no broker "
        "(repeatable: of several replicas the most complete is read)",
        show_default=False,
    ),
]
AssignJson = Annotated[
    str | None,
    typer.Option("--assign", metavar="JSON", help='Only these partitions: {"orders": [0, 1]}'),
]
TopicPattern = Annotated[
    str | None,
    typer.Option("--topic-pattern", metavar="REGEX", help="Topics in whose name this is found"),
]
StartingOffsets = Annotated[
    str | None,
    typer.Option(
        "--starting-offsets",
        metavar="earliest|JSON",
        help="Where to begin with what was never exported: "
        '{"orders": {"0": 23, "1": -2}}, -2 is the first  [default: earliest]',
    ),
]
EndingOffsets = Annotated[
    str | None,
    typer.Option(
        "--ending-offsets",
        metavar="latest|JSON",
        help='Where to end, which is not read any more: {"orders": {"0": 99, "1": -1}}  [default: latest]',
    ),
]
StartingTimestamp = Annotated[
    str | None,
    typer.Option(
        "--starting-timestamp",
        metavar="TIME",
        help="Begin at the first record of this time or later: ISO 8601 (UTC without a zone) or milliseconds "
        "since 1970",
    ),
]
EndingTimestamp = Annotated[
    str | None,
    typer.Option("--ending-timestamp", metavar="TIME", help="End before the first record of this time"),
]
StartingByTimestamp = Annotated[
    str | None,
    typer.Option(
        "--starting-offsets-by-timestamp",
        metavar="JSON",
        help='Per partition: {"orders": {"0": 1700000000000}}',
    ),
]
EndingByTimestamp = Annotated[
    str | None,
    typer.Option("--ending-offsets-by-timestamp", metavar="JSON", help="Per partition, as the one above"),
]
TimestampStrategy = Annotated[
    NoMatch,
    typer.Option(
        "--starting-offsets-by-timestamp-strategy", help="When no record is as late as a starting timestamp"
    ),
]
FailOnDataLoss = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="End when offsets to be read are gone, or count them as a gap and go on",
    ),
]
IsolationLevel = Annotated[
    Isolation,
    typer.Option(
        "--isolation-level", help="read_committed leaves aborted transactions out, and ends before open ones"
    ),
]
IncludeHeaders = Annotated[bool, typer.Option("--include-headers", help="Add the column headers")]
Headers = Annotated[
    HeadersAs | None,
    typer.Option(
        "--headers",
        help="Add the column headers, as an array, or as a map in which a key's last value wins",
        show_default=False,
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME,...",
        help="Only these of key, value, topic, partition, offset, timestamp, timestampType, headers",
    ),
]
KeyAs = Annotated[
    Format, typer.Option("--key-as", "--key", help="What keys are decoded to; none leaves the column out")
]
ValueAs = Annotated[Format, typer.Option("--value-as", "--value", help="What values are decoded to")]
KeySchema = Annotated[
    str | None,
    typer.Option("--key-schema", metavar="SCHEMA", help="As --value-schema"),
]
ValueSchema = Annotated[
    str | None,
    typer.Option(
        "--value-schema",
        metavar="FILE|DDL|registry:URL",
        help="Of json: Spark DDL (id BIGINT, name STRING) or Spark's JSON form; of avro: the reader's schema "
        "or a schema registry",
    ),
]
OnBad = Annotated[
    BadValue,
    typer.Option(
        "--on-bad-value",
        help="A key or value that cannot be decoded: end, make it null, or keep the raw record apart",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only these rows; topic, partition, offset and timestamp narrow what is read",
    ),
]
Select = Annotated[
    str | None,
    typer.Option("--select", metavar="SQL,...", help="Columns computed by Spark SQL (writer spark)"),
]
PartitionBy = Annotated[
    str | None,
    typer.Option(
        "--partition-by",
        metavar="NAME,...",
        help="Directories by topic, partition, date, hour; dates are of the record, in UTC  "
        "[default: topic,partition]",
    ),
]
Flat = Annotated[bool, typer.Option("--flat", help="No directories; topic and partition are columns")]
ParquetCompression = Annotated[ParquetCodec, typer.Option("--compression", help="Of the Parquet files")]
CompressionLevel = Annotated[
    int | None,
    typer.Option("--compression-level", metavar="N", help="The codec's own  [default: zstd 1, gzip 6]"),
]
TargetFileSize = Annotated[
    str, typer.Option("--target-file-size", metavar="SIZE", help="About how large files become at most")
]
RowGroupRows = Annotated[
    int, typer.Option("--row-group-rows", min=1, metavar="N", help="Rows of a row group in a file")
]
ModeOption = Annotated[
    ExportMode,
    typer.Option(
        "--mode",
        help="append goes on where the last export ended; snapshot wants an empty target; overwrite replaces "
        "what is there, at its end",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", help="Go on as records come, until Ctrl-C or SIGTERM")]
Interval = Annotated[
    str, typer.Option("--interval", metavar="TIME", help="How long --follow waits between two looks")
]
MinOffsets = Annotated[
    int | None,
    typer.Option(
        "--min-offsets-per-trigger", min=1, metavar="N", help="--follow waits until there are so many"
    ),
]
MaxDelay = Annotated[str, typer.Option("--max-trigger-delay", metavar="TIME", help="But no longer than this")]
MaxOffsets = Annotated[
    int | None,
    typer.Option("--max-offsets-per-trigger", min=1, metavar="N", help="--follow takes so many at a time"),
]
OnCorruptOption = Annotated[
    Corrupt,
    typer.Option(
        "--on-corrupt",
        help="A damaged batch: end, leave it out and count it, or keep its bytes apart too; quarantine is "
        "another word for dead-letter",
    ),
]
OnResetOption = Annotated[
    Reset,
    typer.Option(
        "--on-reset", help="A topic that was made anew or cut since the last export: end, or begin afresh"
    ),
]
EngineOption = Annotated[
    EngineName,
    typer.Option("--engine", help="Who runs the tasks; local are processes here, without Spark and Java"),
]
Writer = Annotated[
    WriterName,
    typer.Option(
        "--writer",
        help="arrow: each task writes its files itself; spark: Spark SQL does, for --select and any --where",
    ),
]
ViaOption = Annotated[
    Via, typer.Option("--via", help="With the writer spark: read by kcli, or by Spark's Kafka connector")
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark's master: local[4], spark://host:7077, yarn …  [default: local]",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A property of Spark (repeatable)", show_default=False),
]
MinPartitions = Annotated[
    int | None,
    typer.Option("--min-partitions", min=1, metavar="N", help="Cut into about so many tasks at least"),
]
MaxRecords = Annotated[
    int | None,
    typer.Option("--max-records-per-partition", min=1, metavar="N", help="At most so many offsets a task"),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show offsets, bytes and files, and write nothing")
]
ListOption = Annotated[bool, typer.Option("--list", help="List the committed files of the target, and end")]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Check that the committed files are there, whole, and byte for byte as written: by the log's "
        "checksums, or, in an object store, by reading all their pages; exit 3 if not",
    ),
]
Repair = Annotated[
    bool,
    typer.Option("--repair", help="Make a lost commit log again from the files' footers, and end"),
]


class SourceChoice(NamedTuple):
    """Where records come from, and of which topics."""

    topics: Sequence[str] = ()
    assign: str | None = None
    topic_pattern: str | None = None
    bootstrap_server: str | None = None
    log_dirs: Sequence[Path] = ()
    command_config: Path | None = None
    command_property: Sequence[str] = ()


class RangeChoice(NamedTuple):
    """Which offsets."""

    starting_offsets: str | None = None
    ending_offsets: str | None = None
    starting_timestamp: str | None = None
    ending_timestamp: str | None = None
    starting_by_timestamp: str | None = None
    ending_by_timestamp: str | None = None
    strategy: NoMatch = NoMatch.ERROR
    fail_on_data_loss: bool = True
    isolation: Isolation = Isolation.COMMITTED
    on_reset: Reset = Reset.FAIL
    min_partitions: int | None = None
    max_records: int | None = None


class ColumnChoice(NamedTuple):
    """Which columns, and of which types."""

    columns: str | None = None
    include_headers: bool = False
    headers: HeadersAs | None = None
    key: Format = Format.BINARY
    value: Format = Format.BINARY
    key_schema: str | None = None
    value_schema: str | None = None
    on_bad_value: BadValue = BadValue.FAIL
    where: str | None = None
    select: str | None = None


class OutputChoice(NamedTuple):
    """What files look like, and what becomes of those there are."""

    to: str | None = None
    partition_by: str | None = None
    flat: bool = False
    compression: ParquetCodec = ParquetCodec.ZSTD
    compression_level: int | None = None
    target_file_size: str = "256MB"
    row_group_rows: int = 1_000_000
    mode: ExportMode = ExportMode.APPEND
    on_corrupt: Corrupt = Corrupt.FAIL


class FollowChoice(NamedTuple):
    """Whether to go on as records come, and how."""

    follow: bool = False
    interval: str = "30s"
    min_offsets: int | None = None
    max_delay: str = "15m"
    max_offsets: int | None = None


class EngineChoice(NamedTuple):
    """Who does the work."""

    engine: EngineName = EngineName.SPARK
    writer: WriterName = WriterName.AUTO
    via: Via = Via.AUTO
    master: str | None = None
    conf: Sequence[str] = ()


class ActionChoice(NamedTuple):
    """What to do instead of an export."""

    dry_run: bool = False
    list: bool = False
    verify: bool = False
    repair: bool = False


class ExportChoices(NamedTuple):
    """A whole command line."""

    source: SourceChoice = SourceChoice()
    range: RangeChoice = RangeChoice()
    columns: ColumnChoice = ColumnChoice()
    output: OutputChoice = OutputChoice()
    follow: FollowChoice = FollowChoice()
    engine: EngineChoice = EngineChoice()
    action: ActionChoice = ActionChoice()
