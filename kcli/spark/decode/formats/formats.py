"""Formats: how `--key` and `--value` decode the columns of a record batch.

    binary              as they are
    string              UTF-8
    int, long, double   4 or 8 bytes, big-endian, as Kafka's serializers write them
    json                a struct with a schema, text without one      json_values
    avro                plain with a schema, or of a schema registry  avro_values
    none                the column is left out

A value that cannot be decoded fails the export, becomes null and is counted, or moves its row to the dead
letters: the record's columns as they were, and a column `error`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kcli.errors import KcliError, UsageError
from kcli.spark.decode.formats.column_formats import Binary, ColumnFormat, FixedSize, Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.spark.split import FieldFormat, OnBadValue

SIDES = ("key", "value")
ERROR = pa.field("error", pa.string())


class Formatted(NamedTuple):
    """A batch with decoded keys and values, and the rows that could not be decoded."""

    batch: pa.RecordBatch
    bad_values: int
    dead_letters: pa.RecordBatch | None
    """Undecoded rows that are not in `batch`; their last column is `error`."""


class BadValue(KcliError):
    """A key or value that cannot be decoded."""


class Formats:
    """The formats of one topic's keys and values, for a task.

    Schemas of a registry must have been pinned (`pinned`), so that all tasks decode alike. Raises
    `UsageError` for an unreadable schema.
    """

    def __init__(
        self, topic: str, partition: int, *, key: FieldFormat, value: FieldFormat, on_bad_value: OnBadValue
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.on_bad_value = on_bad_value
        self._columns = {"key": column_format(key), "value": column_format(value)}

    def schema(self, raw: pa.Schema) -> pa.Schema:
        """Return the schema of the batches that `apply` returns."""
        fields = []
        for field in raw:
            known = self._columns.get(field.name, _BINARY)
            if known is not None:
                fields.append(field if known is _BINARY else pa.field(field.name, known.type))
        return pa.schema(fields)

    def apply(self, batch: pa.RecordBatch) -> Formatted:
        """Return the batch with decoded keys and values.

        The column `offset`, if it is there, names the place of a bad value. Raises `BadValue` if bad values
        are errors.
        """
        columns: dict[str, pa.Array] = {}
        errors: dict[int, str] = {}
        bad_values = 0
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            known = self._columns.get(name, _BINARY)
            if known is None:
                continue
            columns[name], bad = known.decode(column)
            bad_values += len(bad)
            for row, reason in bad.items():
                errors.setdefault(row, f"{name}: {reason}")
        if errors and self.on_bad_value == "fail":
            self._refuse(batch, errors)
        formatted = pa.RecordBatch.from_arrays(list(columns.values()), schema=self.schema(batch.schema))
        if not errors or self.on_bad_value != "dead-letter":
            return Formatted(formatted, bad_values, None)
        return Formatted(*_parted(formatted, batch, errors, bad_values))

    def _refuse(self, batch: pa.RecordBatch, errors: Mapping[int, str]) -> None:
        row = min(errors)
        known = "offset" in batch.schema.names
        offset = f" at offset {batch.column('offset')[row].as_py()}" if known else ""
        raise BadValue(
            f"bad {errors[row]}, in `{self.topic}-{self.partition}`{offset}",
            hint="`--on-bad-value null` or `dead-letter` exports the others",
        )


def _parted(
    formatted: pa.RecordBatch, raw: pa.RecordBatch, errors: Mapping[int, str], bad_values: int
) -> tuple[pa.RecordBatch, int, pa.RecordBatch]:
    rows = sorted(errors)
    is_good = np.ones(raw.num_rows, bool)
    is_good[rows] = False
    bad = raw.take(pa.array(rows, pa.int64()))
    reasons = pa.array([errors[row] for row in rows], ERROR.type)
    letters = pa.RecordBatch.from_arrays([*bad.columns, reasons], schema=raw.schema.append(ERROR))
    return formatted.filter(pa.array(is_good)), bad_values, letters


_BINARY = Binary()


def column_format(given: FieldFormat) -> ColumnFormat | None:
    """Return the decoder of a column, None if it is left out; raises `UsageError`."""
    match given.name:
        case "none":
            return None
        case "binary":
            return _BINARY
        case "string":
            return Text()
        case "int":
            return FixedSize(pa.int32(), ">i4")
        case "long":
            return FixedSize(pa.int64(), ">i8")
        case "double":
            return FixedSize(pa.float64(), ">f8")
        case "json":
            if given.schema is None:
                return Text()
            from kcli.spark.decode.formats.json_values import JsonValues

            return JsonValues(given.schema)
        case "avro":
            from kcli.spark.decode.formats.avro_values import AvroValues

            return AvroValues(given.schema or "")
    raise UsageError(
        f"unknown format: {given.name}",
        hint="the formats are binary, string, int, long, double, json, avro and none",
    )


def pinned(given: FieldFormat, topics: Iterable[str], side: str) -> FieldFormat:
    """Return a format with the schema of its registry; `side` is `key` or `value`.

    An export is planned with it, so that every task decodes alike. Raises `KcliError`.
    """
    if given.name != "avro" or given.schema is None:
        return given
    from kcli.spark.decode.formats.avro_values import pin_schema

    return replace(given, schema=pin_schema(given.schema, topics, side))
