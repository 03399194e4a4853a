"""The compiled decoder: walks the records once, noting where everything is, then copies it together.

Importing it compiles, which takes seconds unless numba finds what it kept before; it fails with `ImportError`
where numba is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kcli.spark.columns.boundaries import check_counts
from kcli.spark.columns.chunk import COUNT, CorruptRecords, Fields
from kcli.spark.columns.header_arrays import header_lists
from kcli.spark.columns.kernels import compact, place_headers, walk
from kcli.spark.columns.schema import HEADERS
from kcli.spark.columns.timestamp_types import timestamp_types

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.spark.columns.chunk import Chunk


def decode_with_numba(chunk: Chunk, wanted: Collection[str]) -> Fields:
    """Return the records of a chunk as columns; raises `CorruptRecords`."""
    check_counts(chunk)
    # Both are read-only types to the compiled functions: a type of its own would be looked up every time.
    data = np.frombuffer(memoryview(chunk.data).toreadonly(), np.uint8)
    batches = chunk.batches.view()
    batches.flags.writeable = False
    rows = int(batches[:, COUNT].sum())
    offsets, timestamps = np.empty(rows, np.int64), np.empty(rows, np.int64)
    places = np.empty((rows, 6), np.int32)
    bad = walk(data, batches, offsets, timestamps, places)
    if bad >= 0:
        raise CorruptRecords(bad, "its records are not what its header says")
    key_at, key_sizes, value_at, value_sizes, headers_at, header_counts = places.T
    return Fields(
        offsets,
        timestamps,
        timestamp_types(chunk),
        _binary(data, key_at, key_sizes) if "key" in wanted else None,
        _binary(data, value_at, value_sizes) if "value" in wanted else None,
        _headers(data, headers_at, header_counts) if "headers" in wanted else None,
    )


def _binary(data: np.ndarray, places: np.ndarray, sizes: np.ndarray) -> pa.Array:
    """Return the pieces as a column; sizes below 0 are null."""
    rows = len(sizes)
    total = int(np.maximum(sizes, 0).sum(dtype=np.int64))
    cuts, out = np.empty(rows + 1, np.int32), np.empty(total, np.uint8)
    compact(data, places, sizes, cuts, out)
    is_valid = sizes >= 0
    nulls = rows - int(np.count_nonzero(is_valid))
    bitmap = pa.py_buffer(np.packbits(is_valid, bitorder="little")) if nulls else None
    buffers = [bitmap, pa.py_buffer(cuts), pa.py_buffer(out)]
    return pa.BinaryArray.from_buffers(pa.binary(), rows, buffers, null_count=nulls)


def _headers(data: np.ndarray, places: np.ndarray, counts: np.ndarray) -> pa.Array:
    total = int(counts.sum(dtype=np.int64))
    if not total:
        return pa.nulls(len(counts), HEADERS)
    name_at, name_sizes, value_at, value_sizes = (np.empty(total, np.int32) for _ in range(4))
    place_headers(data, places, counts, name_at, name_sizes, value_at, value_sizes)
    names = _binary(data, name_at, name_sizes)
    values = _binary(data, value_at, value_sizes)
    return header_lists(counts, names, values)
