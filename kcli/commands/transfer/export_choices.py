"""What a command line of `spark-export` says, as it was given, in the groups that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kcli.commands.transfer.export_options import (
    BadValue,
    Corrupt,
    EngineName,
    ExportMode,
    Format,
    HeadersAs,
    Isolation,
    NoMatch,
    ParquetCodec,
    Reset,
    Via,
    WriterName,
)


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
