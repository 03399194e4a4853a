"""From what a command line of `spark-export` says to what the export understands; nothing is opened here.

Raises `UsageError` for whatever can be told to be wrong without looking at brokers, directories or targets.

What a command line says of where records come from, and what does not go together in it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.commands.export.export_engines import LOCAL_MASTER
from kcli.commands.export.export_options import Corrupt, EngineName, FollowChoice, Format, Via, WriterName
from kcli.commands.shared.output import note
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.commands.export.export_options import (
        ColumnChoice,
        ExportChoices,
        OutputChoice,
        RangeChoice,
        SourceChoice,
    )
    from kcli.spark.export.options import ExportOptions, FieldFormat, FollowOptions, WriteOptions
    from kcli.spark.export.target.layout import Layout
    from kcli.spark.filters.pushdown import Narrowing
    from kcli.spark.source.ranges.offset_specs import OffsetSpec, RangeRules
    from kcli.spark.source.ranges.selection import Selection
    from kcli.spark.source.source import Source


REGISTRY = "registry:"

_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_FILE_SUFFIXES = (".json", ".avsc", ".ddl", ".sql", ".txt")


def export_options(choices: ExportChoices, *, slots: int = 1) -> ExportOptions:
    """Return what an export is asked to do."""
    from kcli.spark.export.options import ExportOptions, Mode
    from kcli.spark.source.source import SplitLimits

    output, ranges = choices.output, choices.range
    return ExportOptions(
        selection=selection(choices.source),
        rules=range_rules(ranges, narrowing(choices.columns), follows=choices.follow.follow),
        write=write_options(choices),
        mode=Mode(output.mode),
        limits=SplitLimits(
            min_partitions=ranges.min_partitions,
            max_records=ranges.max_records,
            task_slots=slots,
            target_file_bytes=parse_size(output.target_file_size, "--target-file-size"),
        ),
    )


def selection(source: SourceChoice) -> Selection:
    """Return which topics and partitions are meant; exactly one of the three ways to say so is used."""
    from kcli.spark.source.ranges.json_forms import parse_partitions
    from kcli.spark.source.ranges.selection import Assign, Subscribe, SubscribePattern, compiled

    given = [bool(source.topics), source.assign is not None, source.topic_pattern is not None]
    if sum(given) > 1:
        raise UsageError("`TOPIC`, `--assign` and `--topic-pattern` exclude each other")
    if source.assign is not None:
        partitions = parse_partitions(source.assign, "--assign")
        if not partitions:
            raise UsageError(f"`--assign` names no partition: {source.assign}")
        return Assign(partitions)
    if source.topic_pattern is not None:
        compiled(source.topic_pattern)
        return SubscribePattern(source.topic_pattern)
    if not source.topics:
        raise UsageError("missing argument `TOPIC`", hint="or `--topic-pattern REGEX`, or `--assign JSON`")
    return Subscribe(tuple(dict.fromkeys(source.topics)))


def range_rules(ranges: RangeChoice, narrowed: Narrowing | None, *, follows: bool) -> RangeRules:
    """Return which offsets are meant; as in Spark one timestamp wins over many, and these over offsets."""
    from kcli.spark.source.ranges.offset_specs import (
        Earliest,
        Latest,
        OnNoMatch,
        OnReset,
        RangeRules,
        check_batch,
    )

    starting = offset_spec(
        "starting", ranges.starting_timestamp, ranges.starting_by_timestamp, ranges.starting_offsets
    )
    ending = offset_spec("ending", ranges.ending_timestamp, ranges.ending_by_timestamp, ranges.ending_offsets)
    if follows and ending is not None:
        raise UsageError("`--follow` has no end: leave the `--ending-…` options out")
    starting, ending = starting or Earliest(), ending or Latest()
    if not follows:
        check_batch(starting, ending)
    return RangeRules(
        starting=starting,
        ending=ending,
        on_no_match=OnNoMatch(ranges.strategy),
        fail_on_data_loss=ranges.fail_on_data_loss,
        read_committed=ranges.isolation == "read_committed",
        on_reset=OnReset(ranges.on_reset),
        narrowing=narrowed,
    )


def offset_spec(
    side: str, timestamp: str | None, by_timestamp: str | None, offsets: str | None
) -> OffsetSpec | None:
    """Return where one side of a range is, None where nothing is said of it."""
    from kcli.spark.filters.timestamps import parse_timestamp_ms
    from kcli.spark.source.ranges.json_forms import parse_offsets, parse_timestamps
    from kcli.spark.source.ranges.offset_specs import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest

    if timestamp is not None:
        return AtTimestamp(parse_timestamp_ms(timestamp, f"--{side}-timestamp"))
    if by_timestamp is not None:
        return AtTimestamps(parse_timestamps(by_timestamp, f"--{side}-offsets-by-timestamp"))
    match (offsets or "").strip().lower():
        case "" if offsets is None:
            return None
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return AtOffsets(parse_offsets(offsets or "", f"--{side}-offsets"))


def narrowing(columns: ColumnChoice) -> Narrowing | None:
    """Return what `--where` says of where rows lie."""
    from kcli.spark.filters.pushdown import narrowing_of
    from kcli.spark.filters.where import parse_where

    return None if columns.where is None else narrowing_of(parse_where(columns.where))


def write_options(choices: ExportChoices) -> WriteOptions:
    """Return what the tasks are told."""
    from kcli.spark.export.options import OnBadValue, ParquetOptions, WriteOptions
    from kcli.spark.split import OnCorrupt, Reading

    columns, output = choices.columns, choices.output
    quarantine = output.on_corrupt is Corrupt.QUARANTINE
    return WriteOptions(
        reading=Reading(
            columns=column_names(columns),
            read_committed=choices.range.isolation == "read_committed",
            on_corrupt=OnCorrupt.DEAD_LETTER if quarantine else OnCorrupt(output.on_corrupt),
            fail_on_data_loss=choices.range.fail_on_data_loss,
        ),
        key=field_format(columns.key, columns.key_schema, "key"),
        value=field_format(columns.value, columns.value_schema, "value"),
        on_bad_value=OnBadValue(columns.on_bad_value),
        headers_as_map=columns.headers == "map",
        where=columns.where,
        select=columns.select,
        layout=layout(output),
        parquet=ParquetOptions(
            compression=output.compression,
            compression_level=compression_level(output),
            row_group_rows=output.row_group_rows,
        ),
    )


def column_names(choice: ColumnChoice) -> tuple[str, ...]:
    """Return the columns to export; those whose format is none are left out."""
    from kcli.spark.split import COLUMNS

    has_headers = choice.include_headers or choice.headers is not None
    known = {name.lower(): name for name in COLUMNS}
    names = [name for name in COLUMNS if name != "headers" or has_headers]
    if choice.columns is not None:
        given = [part.strip() for part in choice.columns.split(",") if part.strip()]
        for name in given:
            if name.lower() not in known:
                raise UsageError(f"there is no column `{name}`", hint=f"the columns are {', '.join(COLUMNS)}")
        chosen = {known[name.lower()] for name in given} | ({"headers"} if has_headers else set())
        names = [name for name in COLUMNS if name in chosen]
    for name, kind in (("key", choice.key), ("value", choice.value)):
        if kind is Format.NONE and name in names:
            names.remove(name)
        elif kind not in (Format.NONE, Format.BINARY) and name not in names:
            raise UsageError(f"`--{name}-as {kind}` without the column `{name}`")
    if not names:
        raise UsageError("no column is left to export")
    return tuple(names)


def field_format(kind: Format, schema: str | None, name: str) -> FieldFormat:
    """Return how keys or values are decoded; a schema in a file is read, and what it says is checked."""
    from kcli.spark.decode.formats.formats import column_format
    from kcli.spark.export.options import FieldFormat

    if schema is not None and kind not in (Format.JSON, Format.AVRO):
        raise UsageError(f"`--{name}-schema` needs `--{name}-as json` or `avro`")
    if kind is Format.AVRO and schema is None:
        raise UsageError(f"`--{name}-as avro` needs `--{name}-schema`", hint="FILE, or registry:URL")
    if kind is Format.JSON and schema is not None and schema.startswith(REGISTRY):
        raise UsageError(
            f"`--{name}-schema {REGISTRY}…` is for avro", hint="FILE or DDL: id BIGINT, name STRING"
        )
    if schema is not None and not schema.startswith(REGISTRY):
        schema = schema_text(schema, name)
    chosen = FieldFormat(str(kind), schema)
    if schema is None or not schema.startswith(REGISTRY):
        try:
            column_format(chosen)
        except UsageError as error:
            raise UsageError(f"`--{name}-schema`: {error.message}", hint=error.hint) from error
    return chosen


def schema_text(given: str, name: str) -> str:
    """Return a schema, or what the file of that name holds."""
    path = Path(given)
    looks_like_a_file = path.suffix.lower() in _FILE_SUFFIXES and not re.search(r"[\s{]", given)
    try:
        if not looks_like_a_file and (len(given) > 255 or not path.is_file()):
            return given
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read `{given}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`--{name}-schema` is no text: `{given}`") from error


def layout(output: OutputChoice) -> Layout:
    """Return which directories there are."""
    from kcli.spark.export.target.layout import DEFAULT_PARTITION_BY, Layout

    if output.flat:
        if output.partition_by is not None:
            raise UsageError("`--flat` and `--partition-by` exclude each other")
        return Layout(())
    if output.partition_by is None:
        return Layout(DEFAULT_PARTITION_BY)
    names = tuple(part.strip() for part in output.partition_by.split(",") if part.strip())
    if not names:
        raise UsageError("`--partition-by` names nothing", hint="`--flat` makes no directories")
    return Layout(names)


def compression_level(output: OutputChoice) -> int | None:
    """Return the codec's level; that it takes one is checked."""
    import pyarrow as pa

    level, codec = output.compression_level, str(output.compression)
    if level is None:
        return None
    if codec in ("none", "snappy", "lz4"):
        raise UsageError(f"`--compression-level` has no meaning for {codec}")
    low, high = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    if not low <= level <= high:
        raise UsageError(f"`--compression-level` of {codec} cannot be {level}", hint=f"{low} to {high}")
    return level


def parse_size(text: str, option: str) -> int:
    """Return the bytes of `256MB`: K, M, G and T are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * 1024 ** _POWERS[match[2].upper()] if match else 0
    if size <= 0 or size >= 2**63:
        raise UsageError(f"`{option}` cannot be {text}", hint="64MB, 1GB")
    return size


def follow_options(choice: FollowChoice) -> FollowOptions:
    """Return how an export goes on."""
    from kcli.spark.export.options import FollowOptions
    from kcli.spark.filters.timestamps import parse_duration_ms
    from kcli.spark.source.ranges.trigger_limits import TriggerLimits

    least, most = choice.min_offsets, choice.max_offsets
    if least is not None and most is not None and least > most:
        raise UsageError(
            f"`--min-offsets-per-trigger` is higher than `--max-offsets-per-trigger`: {least} > {most}"
        )
    interval_ms = parse_duration_ms(choice.interval, "--interval")
    delay_ms = parse_duration_ms(choice.max_delay, "--max-trigger-delay")
    if interval_ms < 0 or delay_ms < 0:
        raise UsageError("`--interval` and `--max-trigger-delay` cannot be negative")
    return FollowOptions(interval_s=interval_ms / 1000, triggers=TriggerLimits(most, least, delay_ms))


BOOTSTRAP_VARIABLE = "KCLI_BOOTSTRAP_SERVER"

NO_EFFECT = {
    "isolation.level": "use `--isolation-level`",
    "auto.offset.reset": "use `--starting-offsets`",
    "group.id": "no group is joined",
    "enable.auto.commit": "no offsets are committed to the cluster",
}
"""Client properties that mean nothing to an export; files that consumers share have them."""


def check_combination(choices: ExportChoices) -> None:
    """Refuse options that contradict each other."""
    engine, columns = choices.engine, choices.columns
    if choices.source.log_dirs and choices.source.bootstrap_server is not None:
        raise UsageError("`--bootstrap-server` and `--log-dir` exclude each other")
    if needs_spark_writer(choices) and engine.writer is WriterName.ARROW:
        raise UsageError("`--select`, `--via connector` and this `--where` need `--writer spark`")
    if uses_spark_writer(choices) and engine.engine is EngineName.LOCAL:
        raise UsageError(
            f"{_what_needs_spark(choices)} needs `--engine spark`", hint="leave `--engine local` out"
        )
    if engine.via is Via.CONNECTOR and choices.source.log_dirs:
        raise UsageError("`--via connector` reads from brokers, not from `--log-dir`")
    if engine.engine is EngineName.LOCAL:
        if engine.conf:
            raise UsageError("`--conf` has no meaning with `--engine local`")
        if engine.master is not None and LOCAL_MASTER.fullmatch(engine.master) is None:
            raise UsageError(f"`--engine local` cannot run on {engine.master}", hint="--master local[4]")
    if columns.select is not None and not columns.select.strip():
        raise UsageError("`--select` names no column")
    _check_follow(choices.follow)


def _what_needs_spark(choices: ExportChoices) -> str:
    """Return the option that only Spark SQL can do."""
    if choices.engine.writer is WriterName.SPARK:
        return "`--writer spark`"
    if choices.columns.select is not None:
        return "`--select`"
    return "`--via connector`" if choices.engine.via is Via.CONNECTOR else "this `--where`"


def _check_follow(choice: FollowChoice) -> None:
    """Refuse what says how to follow, and nothing is followed."""
    if choice.follow:
        return
    usual = FollowChoice()
    for option, given, default in (
        ("--interval", choice.interval, usual.interval),
        ("--min-offsets-per-trigger", choice.min_offsets, None),
        ("--max-trigger-delay", choice.max_delay, usual.max_delay),
        ("--max-offsets-per-trigger", choice.max_offsets, None),
    ):
        if given != default:
            raise UsageError(f"`{option}` has no meaning without `--follow`")


def needs_spark_writer(choices: ExportChoices) -> bool:
    """Tell whether only Spark SQL can do what is asked for."""
    from kcli.spark.filters.where import is_evaluable, parse_where

    where = choices.columns.where
    has_opaque = where is not None and not is_evaluable(parse_where(where))
    return has_opaque or choices.columns.select is not None or choices.engine.via is Via.CONNECTOR


def uses_spark_writer(choices: ExportChoices) -> bool:
    """Tell whether Spark SQL writes the files."""
    return choices.engine.writer is WriterName.SPARK or needs_spark_writer(choices)


def open_source(choice: SourceChoice) -> Source:
    """Return where records come from; nothing is read yet."""
    if choice.log_dirs:
        from kcli.spark.source.log_dirs.log_dirs_source import LogDirsSource

        return LogDirsSource([str(path) for path in choice.log_dirs], warn)
    from kcli.commands.shared.session import addresses
    from kcli.spark.source.brokers.brokers_source import BrokersSource

    properties = source_properties(choice)
    given = choice.bootstrap_server
    if given is None:
        given = os.environ.get(BOOTSTRAP_VARIABLE) or None
    return BrokersSource(addresses(given, properties), properties)


def source_properties(choice: SourceChoice) -> dict[str, str]:
    """Return the client's properties; what has no effect is said, and left out."""
    from kcli.client.config import property_warnings
    from kcli.commands.shared.session import client_properties

    properties = client_properties(
        choice.command_config, choice.command_property, {"client.id": "kcli-spark-export"}
    )
    for line in property_warnings(properties):
        warn(line)
    for name, instead in NO_EFFECT.items():
        if properties.pop(name, None) is not None:
            warn(f"`{name}` has no effect: {instead}")
    return properties


def warn(text: str) -> None:
    """Tell the user of something that is not as they may think."""
    note(f"warning: {text}")
