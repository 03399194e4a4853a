"""What `spark-export` writes: which columns, of which types, in which files."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kcli.commands.export.source_options import Reset, names_in
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.spark.export.options import ParquetOptions
    from kcli.spark.export.target.layout import Layout
    from kcli.spark.filters.pushdown import Narrowing
    from kcli.spark.split import FieldFormat, OnCorrupt

REGISTRY = "registry:"

_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_FILE_SUFFIXES = (".json", ".avsc", ".ddl", ".sql", ".txt")


class Format(StrEnum):
    """What the bytes of keys and values are decoded to."""

    BINARY = "binary"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    JSON = "json"
    AVRO = "avro"
    NONE = "none"


class HeadersAs(StrEnum):
    ARRAY = "array"
    MAP = "map"


class BadValue(StrEnum):
    """What to do with a key or value that cannot be decoded; `OnBadValue` of kcli.spark."""

    FAIL = "fail"
    NULL = "null"
    DEAD_LETTER = "dead-letter"


class Corrupt(StrEnum):
    """What to do with a damaged batch; `OnCorrupt` of kcli.spark, and another name of dead-letter."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"
    QUARANTINE = "quarantine"


class ParquetCodec(StrEnum):
    ZSTD = "zstd"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    GZIP = "gzip"
    NONE = "none"


class ExportMode(StrEnum):
    """What to do with what the target holds; `Mode` of kcli.spark."""

    APPEND = "append"
    SNAPSHOT = "snapshot"
    OVERWRITE = "overwrite"


class ColumnChoice(NamedTuple):
    """Which columns and rows to write, and of which types."""

    include_headers: Annotated[bool, typer.Option("--include-headers", help="Add the column headers")] = False
    headers: Annotated[
        HeadersAs | None,
        typer.Option(
            help="Add the column headers, as an array or as a map that keeps the last value of a key",
            show_default=False,
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Only these columns: key, value, topic, partition, offset, timestamp, "
            "timestampType, headers",
        ),
    ] = None
    key_as: Annotated[
        Format, typer.Option("--key-as", "--key", help="Decode keys to this; none leaves the column out")
    ] = Format.BINARY
    value_as: Annotated[
        Format,
        typer.Option("--value-as", "--value", help="Decode values to this; none leaves the column out"),
    ] = Format.BINARY
    key_schema: Annotated[
        str | None, typer.Option(metavar="SCHEMA", help="The schema of keys, as --value-schema")
    ] = None
    value_schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|DDL|registry:URL",
            help="The schema of values. For json: Spark DDL (id BIGINT, name STRING) or "
            "Spark's JSON form; for avro: the reader's schema or a schema registry. Later exports may "
            "add fields, which are null in older files: Spark needs `mergeSchema` to see them, a plain "
            "pyarrow dataset takes the first file's schema unless it gets `schema=`, polars needs `schema=` "
            "with `missing_columns='insert'`, duckdb `union_by_name=true`",
        ),
    ] = None
    on_bad_value: Annotated[
        BadValue,
        typer.Option(
            help="If a key or value cannot be decoded: fail, write null, or keep the raw "
            "record in a separate file"
        ),
    ] = BadValue.FAIL
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Only rows that match; topic, partition, offset and timestamp also reduce what is read",
        ),
    ] = None
    select: Annotated[
        str | None, typer.Option(metavar="SQL,...", help="Columns computed by Spark SQL (writer spark)")
    ] = None

    def names(self) -> tuple[str, ...]:
        """Return the columns to write; a column with the format `none` is left out."""
        from kcli.spark.split import COLUMNS

        has_headers = self.include_headers or self.headers is not None
        known = {name.lower(): name for name in COLUMNS}
        names = [name for name in COLUMNS if name != "headers" or has_headers]
        if self.columns is not None:
            given = names_in(self.columns)
            for name in given:
                if name.lower() not in known:
                    raise UsageError(
                        f"there is no column `{name}`", hint=f"the columns are {', '.join(COLUMNS)}"
                    )
            chosen = {known[name.lower()] for name in given} | ({"headers"} if has_headers else set())
            names = [name for name in COLUMNS if name in chosen]
        for name, kind in (("key", self.key_as), ("value", self.value_as)):
            if kind is Format.NONE and name in names:
                names.remove(name)
            elif kind not in (Format.NONE, Format.BINARY) and name not in names:
                raise UsageError(f"`--{name}-as {kind}` without the column `{name}`")
        if not names:
            raise UsageError("no column is left to export")
        return tuple(names)

    def narrowing(self) -> Narrowing | None:
        """Return which offsets, timestamps and partitions `--where` asks for."""
        from kcli.spark.filters.pushdown import narrowing_of
        from kcli.spark.filters.where import parse_where

        return None if self.where is None else narrowing_of(parse_where(self.where))

    def needs_sql(self) -> bool:
        """Return whether only Spark SQL can compute the rows."""
        from kcli.spark.filters.where import is_evaluable, parse_where

        has_opaque = self.where is not None and not is_evaluable(parse_where(self.where))
        return has_opaque or self.select is not None

    def check(self) -> None:
        """Raise `UsageError` if `--select` is empty."""
        if self.select is not None and not self.select.strip():
            raise UsageError("`--select` names no column")


class OutputChoice(NamedTuple):
    """How to arrange and encode files, and what to do with what the target holds."""

    partition_by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Directories by topic, partition, date, hour; date and hour are the "
            "record's, in UTC  [default: topic,partition]",
        ),
    ] = None
    flat: Annotated[
        bool, typer.Option("--flat", help="Make no directories; topic and partition become columns")
    ] = False
    compression: Annotated[ParquetCodec, typer.Option(help="Compression of the Parquet files")] = (
        ParquetCodec.ZSTD
    )
    compression_level: Annotated[
        int | None, typer.Option(metavar="N", help="Level of the codec  [default: zstd 1, gzip 6]")
    ] = None
    target_file_size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="About the largest size of a file; smaller partitions of a topic share files if directories "
            "are not by partition (but not with `--writer spark`)",
        ),
    ] = "256MB"
    row_group_rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows per row group")] = 1_000_000
    mode: Annotated[
        ExportMode,
        typer.Option(
            help="append continues the last export; snapshot needs an empty target; overwrite "
            "replaces the present files when it is complete"
        ),
    ] = ExportMode.APPEND

    def target_file_bytes(self) -> int:
        return parse_size(self.target_file_size, "--target-file-size")

    def layout(self) -> Layout:
        from kcli.spark.export.target.layout import DEFAULT_PARTITION_BY, Layout

        if self.flat:
            if self.partition_by is not None:
                raise UsageError("`--flat` and `--partition-by` exclude each other")
            return Layout(())
        if self.partition_by is None:
            return Layout(DEFAULT_PARTITION_BY)
        names = tuple(names_in(self.partition_by))
        if not names:
            raise UsageError("`--partition-by` names nothing", hint="`--flat` makes no directories")
        return Layout(names)

    def parquet(self) -> ParquetOptions:
        """Return how files are encoded; raise `UsageError` if the codec does not know the level."""
        import pyarrow as pa

        from kcli.spark.export.options import ParquetOptions

        level, codec = self.compression_level, str(self.compression)
        if level is not None:
            if codec in ("none", "snappy", "lz4"):
                raise UsageError(f"`--compression-level` has no meaning for {codec}")
            low, high = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
            if not low <= level <= high:
                raise UsageError(
                    f"`--compression-level` of {codec} cannot be {level}", hint=f"{low} to {high}"
                )
        return ParquetOptions(compression=codec, compression_level=level, row_group_rows=self.row_group_rows)


class DamageChoice(NamedTuple):
    """What to do with damaged batches, and with topics that were created again."""

    on_corrupt: Annotated[
        Corrupt,
        typer.Option(
            help="If a batch is damaged: fail, skip and count it, or also keep its bytes "
            "(dead-letter, also named quarantine)"
        ),
    ] = Corrupt.FAIL
    on_reset: Annotated[
        Reset,
        typer.Option(
            help="If a topic was recreated or truncated since the last export: fail, or begin again at its "
            "first offset and move the earlier rows of its partitions from DIR to old-logs beside the log "
            "(earliest) or remove them (replace)"
        ),
    ] = Reset.FAIL

    def batches(self) -> OnCorrupt:
        from kcli.spark.split import OnCorrupt

        return OnCorrupt("dead-letter" if self.on_corrupt is Corrupt.QUARANTINE else self.on_corrupt)


def field_format(kind: Format, schema: str | None, name: str) -> FieldFormat:
    """Return how keys or values are decoded; raise `UsageError` unless the schema is well-formed."""
    from kcli.spark.decode.formats.formats import column_format
    from kcli.spark.split import FieldFormat

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
    """Return a schema, or the content of the file of that name."""
    path = Path(given)
    looks_like_a_file = path.suffix.lower() in _FILE_SUFFIXES and not re.search(r"[\s{]", given)
    try:
        if not looks_like_a_file and (len(given) > 255 or not path.is_file()):
            return given
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read `{given}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"`--{name}-schema` is not text: `{given}`") from error


def parse_size(text: str, option: str) -> int:
    """Return the bytes of `256MB`: K, M, G and T are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * 1024 ** _POWERS[match[2].upper()] if match else 0
    if size <= 0 or size >= 2**63:
        raise UsageError(f"`{option}` cannot be {text}", hint="64MB, 1GB")
    return size
