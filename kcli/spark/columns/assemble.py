"""Assembling a record batch from what a decoder made, and from the columns that are the same in every row."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kcli.spark.columns.schema import FIELDS, TIMESTAMP, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.columns.chunk import Fields

_MOST_MILLISECONDS = (2**63 - 1) // 1000
_MICROSECONDS = np.int64(1000)


def assemble(
    fields: Fields, topic: str, partition: int, columns: Sequence[str], *, start: int, end: int
) -> pa.RecordBatch:
    """Return the rows whose offsets are in `start..end - 1`, with exactly those columns."""
    first, stop = int(np.searchsorted(fields.offsets, start)), int(np.searchsorted(fields.offsets, end))
    count = len(fields.offsets)
    arrays = [_column(name, fields, topic, partition, count) for name in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))
    return batch if first == 0 and stop == count else batch.slice(first, stop - first)


def _column(name: str, fields: Fields, topic: str, partition: int, count: int) -> pa.Array:
    match name:
        case "key":
            return fields.key
        case "value":
            return fields.value
        case "headers":
            return fields.headers
        case "topic":
            return constant(name, topic, count)
        case "partition":
            return constant(name, partition, count)
        case "offset":
            return pa.array(fields.offsets)
        case "timestamp":
            return _microseconds(fields.timestamps)
        case "timestampType":
            types = fields.timestamp_types
            return constant(name, types, count) if isinstance(types, int) else pa.array(types)
    raise KeyError(name)


def _microseconds(milliseconds: np.ndarray) -> pa.Array:
    """Return Arrow timestamps; what is too far away to be one becomes the last that is."""
    bounded = milliseconds
    if len(milliseconds) and (
        milliseconds.max() > _MOST_MILLISECONDS or milliseconds.min() < -_MOST_MILLISECONDS
    ):
        bounded = np.clip(milliseconds, -_MOST_MILLISECONDS, _MOST_MILLISECONDS)
    return pa.array(bounded * _MICROSECONDS).view(TIMESTAMP)


def constant(name: str, value: str | int, count: int) -> pa.Array:
    """Return a column of `count` times the same; the longest so far is kept, and cut."""
    column = _constants(name, value)
    if not column or len(column[0]) < count:
        column[:] = [pa.repeat(pa.scalar(value, FIELDS[name].type), count)]
    return column[0].slice(0, count)


@lru_cache(maxsize=64)
def _constants(name: str, value: str | int) -> list[pa.Array]:
    return []
