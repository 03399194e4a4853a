"""The Arrow columns of records, with exactly the schema of Spark's own Kafka source.

Keys and values are slices of one buffer, in ascending order. An array over the whole buffer, cut wherever a
slice begins or ends, costs no copy; taking only the slices then copies all values in native code, without a
Python object per value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.decode.chunk import Fields

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(HEADER)

FIELDS = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "offset": pa.field("offset", pa.int64()),
    "timestamp": pa.field("timestamp", TIMESTAMP),
    "timestampType": pa.field("timestampType", pa.int32()),
    "headers": pa.field("headers", HEADERS),
}
"""All columns by name; all nullable, as Spark declares them."""


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of those columns, in the given order."""
    return pa.schema([FIELDS[name] for name in columns])


class Slices(NamedTuple):
    """Begin and size of byte strings in a buffer; size -1 is null."""

    begins: np.ndarray
    lengths: np.ndarray


def binary_columns(data: np.ndarray, columns: list[Slices]) -> list[pa.Array]:
    """Return several columns of equal length; in the buffer the values of a row follow each other."""
    if not columns:
        return []
    width, rows = 2 * len(columns), len(columns[0].begins)
    cuts: np.ndarray = np.zeros(width * rows + 1, np.int32)
    by_row = cuts[1:].reshape(rows, width)
    for number, (begins, lengths) in enumerate(columns):
        by_row[:, 2 * number] = begins
        by_row[:, 2 * number + 1] = begins + np.maximum(lengths, 0)
    pieces = pa.BinaryArray.from_buffers(
        pa.binary(), width * rows, [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    )
    taken = []
    for number, (_, lengths) in enumerate(columns):
        places = np.arange(2 * number + 1, width * rows + 1, width, dtype=np.int32)
        is_null = lengths < 0
        taken.append(pieces.take(pa.array(places, mask=is_null if is_null.any() else None)))
    return taken


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
    """Return Arrow timestamps; one out of range becomes the last in range."""
    most = _MOST_MILLISECONDS
    if len(milliseconds) and (milliseconds.max() > most or milliseconds.min() < -most):
        milliseconds = np.clip(milliseconds, -most, most)
    return pa.array(milliseconds * _MICROSECONDS).view(TIMESTAMP)


def constant(name: str, value: str | int, count: int) -> pa.Array:
    """Return a constant column; the longest so far is cached, and sliced."""
    column = _constants(name, value)
    if not column or len(column[0]) < count:
        column[:] = [pa.repeat(pa.scalar(value, FIELDS[name].type), count)]
    return column[0].slice(0, count)


@lru_cache(maxsize=64)
def _constants(name: str, value: str | int) -> list[pa.Array]:
    return []
