"""RowShaper: from the columns that a reader gives to those that are written.

Offsets are always read, and timestamps where directories depend on them: a file's bounds and place need
them even if they are not among its columns. A filter on what needs no decoding comes before the formats,
so that what it leaves out cannot be bad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from kcli.spark.columns.formats import ERROR, SIDES, Formats
from kcli.spark.columns.predicates import expression_of, filter_rows
from kcli.spark.columns.schema import arrow_schema
from kcli.spark.job.header_maps import HEADER_MAP, header_maps
from kcli.spark.job.options import OnBadValue
from kcli.spark.ranges.conjuncts import Comparison, In, IsNull, StartsWith, parse_where
from kcli.spark.reading import COLUMNS

if TYPE_CHECKING:
    import numpy as np

    from kcli.spark.job.options import WriteOptions
    from kcli.spark.ranges.conjuncts import Conjunct
    from kcli.spark.split import Split


class Shaped(NamedTuple):
    """Rows as they are written, and where they belong."""

    rows: pa.RecordBatch
    offsets: np.ndarray
    times_us: np.ndarray | None
    bad_values: int
    """Keys and values that their formats do not fit."""
    dead: pa.RecordBatch | None
    """Rows with such, as they were, and why."""


class RowShaper:
    """Leaves out what is not wanted and decodes keys and values."""

    def __init__(self, options: WriteOptions, split: Split) -> None:
        in_path = options.layout.path_columns
        formats = {"key": options.key, "value": options.value}
        self._formats = Formats(split.topic, split.partition, **formats, on_bad_value=options.on_bad_value)
        written = [one for one in options.reading.columns if one not in in_path]
        self._written = [one for one in written if one not in SIDES or formats[one].name != "none"]
        conjuncts = parse_where(options.where) if options.where else ()
        self.columns = _needed(options, self._written, conjuncts)
        """What is asked of the reader."""
        raw = arrow_schema(self.columns)
        decoded = self._formats.schema(raw)
        early = [one for one in conjuncts if not set(_columns_of(one)) & set(SIDES)]
        late = [one for one in conjuncts if one not in early]
        self._early = expression_of(early, raw)
        self._late = expression_of(late, decoded)
        self._maps = options.headers_as_map
        self.schema = pa.schema([self._field(decoded.field(name)) for name in self._written])
        """What is written."""
        self.dead_schema = raw.append(ERROR)

    def shape(self, batch: pa.RecordBatch) -> Shaped:
        """Return the rows of a batch that are written; raise `BadValue` if that is what is asked for."""
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


def _needed(options: WriteOptions, written: list[str], conjuncts: tuple[Conjunct, ...]) -> tuple[str, ...]:
    if options.on_bad_value is OnBadValue.DEAD_LETTER:
        return COLUMNS
    needed = {*written, "offset", *(name for one in conjuncts for name in _columns_of(one))}
    if options.layout.by_date:
        needed.add("timestamp")
    return tuple(one for one in COLUMNS if one in needed)


def _columns_of(conjunct: Conjunct) -> tuple[str, ...]:
    """Return the column that a conjunct is about."""
    match conjunct:
        case Comparison(column) | In(column) | IsNull(column) | StartsWith(column):
            return column[:1]
    return ()
