"""RowShaper: turns the columns that a reader yields into those that are written.

Offsets are always read, and timestamps if directories depend on them: the bounds and directory of a file need
them even if they are not columns of it. Filters on columns without a format run before decoding, so that a
row which they leave out cannot be bad. Of headers with the same key a map keeps the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.decode.formats.formats import ERROR, SIDES, Formats
from kcli.spark.filters.arrow_filter import expression_of, filter_rows
from kcli.spark.filters.where import Comparison, In, IsNull, StartsWith, parse_where
from kcli.spark.split import COLUMNS, OnBadValue

if TYPE_CHECKING:
    from kcli.spark.export.options import WriteOptions
    from kcli.spark.filters.where import Condition
    from kcli.spark.split import Split

HEADER_MAP = pa.map_(pa.string(), pa.binary())


def header_maps(headers: pa.ListArray) -> pa.MapArray:
    """Return lists of headers as maps; null stays null."""
    entries = headers.flatten()
    is_null = headers.is_null().to_numpy(zero_copy_only=False)
    counts = headers.value_lengths().fill_null(0).to_numpy()
    rows = np.repeat(np.arange(len(headers)), counts)
    kept = _last_of_each(rows, entries.field("key"))
    if len(kept) < len(entries):
        entries = entries.take(pa.array(kept))
        counts = np.bincount(rows[kept], minlength=len(headers))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    # A null offset makes a null map; the last offset only ends the previous map.
    starts = pa.array(offsets, pa.int32(), mask=np.append(is_null, False))
    return pa.MapArray.from_arrays(starts, entries.field("key"), entries.field("value"))


def _last_of_each(rows: np.ndarray, keys: pa.Array) -> np.ndarray:
    """Return the positions of the last entry of each key in each row, ascending."""
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    pairs = rows * (int(codes.max()) + 1 if len(codes) else 1) + codes
    _, first_from_behind = np.unique(pairs[::-1], return_index=True)
    found: np.ndarray = np.sort(len(pairs) - 1 - first_from_behind)
    return found


class Shaped(NamedTuple):
    """Rows to write, and where they belong."""

    rows: pa.RecordBatch
    offsets: np.ndarray
    times_us: np.ndarray | None
    bad_values: int
    """Keys and values that could not be decoded."""
    dead: pa.RecordBatch | None
    """Their rows, undecoded, with the error."""


class RowShaper:
    def __init__(self, options: WriteOptions, split: Split) -> None:
        in_path = options.layout.path_columns
        formats = {"key": options.key, "value": options.value}
        self._formats = Formats(split.topic, split.partition, **formats, on_bad_value=options.on_bad_value)
        written = [one for one in options.reading.columns if one not in in_path]
        self._written = [one for one in written if one not in SIDES or formats[one].name != "none"]
        conditions = parse_where(options.where) if options.where else ()
        self.columns = _needed(options, self._written, conditions)
        """The columns to read."""
        raw = arrow_schema(self.columns)
        decoded = self._formats.schema(raw)
        early = [one for one in conditions if not set(_columns_of(one)) & set(SIDES)]
        late = [one for one in conditions if one not in early]
        self._early = expression_of(early, raw)
        self._late = expression_of(late, decoded)
        self._maps = options.headers_as_map
        self.schema = pa.schema([self._field(decoded.field(name)) for name in self._written])
        """The schema to write."""
        self.dead_schema = raw.append(ERROR)

    def shape(self, batch: pa.RecordBatch) -> Shaped:
        """Return the rows of a batch to write; raise `BadValue` if a bad value is an error."""
        if self._early is not None:
            batch = filter_rows(batch, self._early)
        formatted = self._formats.apply(batch)
        batch = formatted.batch
        if self._late is not None:
            batch = filter_rows(batch, self._late)
        times = None
        if "timestamp" in self.columns:
            times = batch.column("timestamp").view(pa.int64()).to_numpy(zero_copy_only=False)
        arrays = [
            header_maps(batch.column(name)) if name == "headers" and self._maps else batch.column(name)
            for name in self._written
        ]
        return Shaped(
            pa.RecordBatch.from_arrays(arrays, schema=self.schema),
            batch.column("offset").to_numpy(),
            times,
            formatted.bad_values,
            formatted.dead_letters,
        )

    def _field(self, field: pa.Field) -> pa.Field:
        return pa.field("headers", HEADER_MAP) if field.name == "headers" and self._maps else field


def _needed(options: WriteOptions, written: list[str], conditions: tuple[Condition, ...]) -> tuple[str, ...]:
    if options.on_bad_value is OnBadValue.DEAD_LETTER:
        return COLUMNS
    needed = {*written, "offset", *(name for one in conditions for name in _columns_of(one))}
    if options.layout.by_date:
        needed.add("timestamp")
    return tuple(one for one in COLUMNS if one in needed)


def _columns_of(condition: Condition) -> tuple[str, ...]:
    match condition:
        case Comparison(column) | In(column) | IsNull(column) | StartsWith(column):
            return column[:1]
    return ()
