"""The decoder that needs only numpy and pyarrow: every step handles all records of a chunk at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kcli.protocol.records.batch_header import TIMESTAMP_TYPE_BIT
from kcli.spark.decode.arrow_columns import HEADERS, Slices, binary_columns
from kcli.spark.decode.chunk import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    LAST_DELTA,
    MAX_TIMESTAMP,
    CorruptRecords,
    Fields,
    timestamp_types,
)
from kcli.spark.decode.header_arrays import header_column, read_headers
from kcli.spark.decode.record_boundaries import read_varints, record_boundaries

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.spark.decode.chunk import Chunk


def decode_with_numpy(chunk: Chunk, wanted: Collection[str]) -> Fields:
    """Return the records of a chunk as columns; raises `CorruptRecords`."""
    data = np.frombuffer(chunk.data, np.uint8)
    bodies, stops = record_boundaries(data, chunk)
    if not len(bodies):
        return _no_rows(chunk, wanted)
    # Before the fields comes a byte of unused attributes.
    timestamp_deltas, at = read_varints(data, bodies + 1, is_long=True)
    offset_deltas, at = read_varints(data, at)
    key, at = _slices(data, at)
    value, at = _slices(data, at)
    header_counts, at = read_varints(data, at)
    is_wrong = (key.lengths < -1) | (value.lengths < -1)
    headers = None
    if header_counts.any():
        headers, badly_ended = read_headers(data, chunk.data, at, stops, header_counts)
        is_wrong |= badly_ended
    else:
        is_wrong |= at != stops
    _check(chunk, is_wrong, "a record does not end where its length says")
    is_wrong = _out_of_order(chunk, offset_deltas)
    _check(chunk, is_wrong, "the offsets of a batch do not increase, or pass its last")
    sides = {name: slices for name, slices in (("key", key), ("value", value)) if name in wanted}
    columns = dict(zip(sides, binary_columns(data, list(sides.values())), strict=True))
    if "headers" in wanted:
        columns["headers"] = (
            pa.nulls(len(bodies), HEADERS) if headers is None else header_column(data, headers)
        )
    return Fields(
        _of_records(chunk, BASE_OFFSET) + offset_deltas,
        _timestamps(chunk, timestamp_deltas),
        timestamp_types(chunk),
        columns.get("key"),
        columns.get("value"),
        columns.get("headers"),
    )


def _slices(data: np.ndarray, at: np.ndarray) -> tuple[Slices, np.ndarray]:
    lengths, begins = read_varints(data, at)
    return Slices(begins, lengths), begins + np.maximum(lengths, 0)


def _of_records(chunk: Chunk, column: int) -> np.ndarray:
    """Return a field of its batch for each record."""
    return np.repeat(chunk.batches[:, column], chunk.batches[:, COUNT])


def _timestamps(chunk: Chunk, deltas: np.ndarray) -> np.ndarray:
    is_append_time = chunk.batches[:, ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0
    if not is_append_time.any():
        return _of_records(chunk, BASE_TIMESTAMP) + deltas
    by_record = np.repeat(is_append_time, chunk.batches[:, COUNT])
    return np.where(by_record, _of_records(chunk, MAX_TIMESTAMP), _of_records(chunk, BASE_TIMESTAMP) + deltas)


def _out_of_order(chunk: Chunk, offset_deltas: np.ndarray) -> np.ndarray:
    """Return which records are not above the previous one, or above their batch's last offset."""
    counts = chunk.batches[:, COUNT]
    is_wrong = (offset_deltas < 0) | (offset_deltas > _of_records(chunk, LAST_DELTA))
    is_first: np.ndarray = np.zeros(len(offset_deltas), bool)
    is_first[(np.cumsum(counts) - counts)[counts > 0]] = True
    is_wrong[1:] |= (offset_deltas[1:] <= offset_deltas[:-1]) & ~is_first[1:]
    return is_wrong


def _check(chunk: Chunk, is_wrong: np.ndarray, reason: str) -> None:
    if is_wrong.any():
        row = int(np.flatnonzero(is_wrong)[0])
        ends = np.cumsum(chunk.batches[:, COUNT])
        raise CorruptRecords(int(np.searchsorted(ends, row, side="right")), reason)


def _no_rows(chunk: Chunk, wanted: Collection[str]) -> Fields:
    nothing: np.ndarray = np.zeros(0, np.int64)
    return Fields(
        nothing,
        nothing,
        timestamp_types(chunk),
        pa.nulls(0, pa.binary()) if "key" in wanted else None,
        pa.nulls(0, pa.binary()) if "value" in wanted else None,
        pa.nulls(0, HEADERS) if "headers" in wanted else None,
    )
