"""The compiled loops of the decoder: where the fields of all records are, and copying them together.

They read nothing outside a batch: each number is bounded by the end of its batch before it is read. What they
find wrong is a number, not an exception, which would be slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import types

from kcli.spark.columns.compiled import (
    BYTES,
    INT64,
    OUT_BYTES,
    OUT_INT32,
    OUT_INT64,
    OUT_PLACES,
    PAIR,
    STRIDED,
    TABLE,
    compiled,
    copy_bytes,
)

if TYPE_CHECKING:
    import numpy as np

NO_NUMBER = -1
"""In place of where a number ends: it does not end, or is longer than its type."""

KEY, VALUE, HEADERS = 0, 2, 4
"""Columns of the places of fields: where each begins, and in the next its size, -1 if it is null.

Of headers it is their number.
"""

_SHORT = 28
_LONG = 63


@compiled(PAIR, BYTES, INT64, INT64, INT64)
def read_number(data: np.ndarray, at: int, end: int, last_shift: int) -> tuple[int, int]:
    """Return the number at a place and where it ends; its last group of bits is shifted by `last_shift`."""
    if at >= end:
        return 0, NO_NUMBER
    byte = types.uint64(data[at])
    at += 1
    folded = byte & types.uint64(0x7F)
    shift = 7
    while byte >= 0x80:
        if at >= end or shift > last_shift:
            return 0, NO_NUMBER
        byte = types.uint64(data[at])
        at += 1
        folded |= (byte & types.uint64(0x7F)) << types.uint64(shift)
        shift += 7
    if last_shift == _SHORT:
        folded &= types.uint64(0xFFFFFFFF)
    return types.int64(folded >> types.uint64(1)) ^ -types.int64(folded & types.uint64(1)), at


@compiled(INT64, BYTES, INT64, INT64, INT64)
def headers_end(data: np.ndarray, at: int, end: int, count: int) -> int:
    """Return where so many headers end, `NO_NUMBER` if they do not fit."""
    for _ in range(count):
        length, at = read_number(data, at, end, _SHORT)
        if at < 0 or length < 0 or length > end - at:
            return NO_NUMBER
        length, at = read_number(data, at + length, end, _SHORT)
        if at < 0 or length < -1 or length > end - at:
            return NO_NUMBER
        if length > 0:
            at += length
    return at


@compiled(PAIR, BYTES, INT64, INT64)
def read_size(data: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """Return the size of a key or value, and where it begins: `NO_NUMBER` if it does not fit."""
    size, at = read_number(data, at, end, _SHORT)
    if size < -1 or size > end - at:
        return 0, NO_NUMBER
    return size, at


@compiled(INT64, BYTES, INT64, INT64, OUT_PLACES, INT64)
def place_fields(data: np.ndarray, at: int, end: int, places: np.ndarray, row: int) -> int:
    """Fill in where key, value and headers of a record are; return where they end, `NO_NUMBER` if badly."""
    size, at = read_size(data, at, end)
    if at < 0:
        return NO_NUMBER
    places[row, KEY], places[row, KEY + 1] = at, size
    size, at = read_size(data, at + max(size, 0), end)
    if at < 0:
        return NO_NUMBER
    places[row, VALUE], places[row, VALUE + 1] = at, size
    count, at = read_number(data, at + max(size, 0), end, _SHORT)
    if at < 0 or count < 0 or count > (end - at) // 2:
        return NO_NUMBER
    places[row, HEADERS], places[row, HEADERS + 1] = at, count
    return headers_end(data, at, end, count) if count else at


@compiled(INT64, BYTES, TABLE, OUT_INT64, OUT_INT64, OUT_PLACES)
def walk(
    data: np.ndarray,
    batches: np.ndarray,
    offsets: np.ndarray,
    timestamps: np.ndarray,
    places: np.ndarray,
) -> int:
    """Fill in offsets and timestamps of all records, and where their fields are.

    Return the number of the first batch that is not what its header says, -1 if there is none.
    """
    row = 0
    for number in range(len(batches)):
        at, end, count, base_offset, last_delta, base_timestamp, max_timestamp, attributes = batches[number]
        previous = -1
        for _ in range(count):
            length, at = read_number(data, at, end, _SHORT)
            if at < 0 or length < 0 or length > end - at:
                return number
            stop = at + length
            # In front of the fields stands a byte of attributes that mean nothing yet.
            timestamp_delta, at = read_number(data, at + 1, stop, _LONG)
            if at < 0:
                return number
            offset_delta, at = read_number(data, at, stop, _SHORT)
            if at < 0 or offset_delta <= previous or offset_delta > last_delta:
                return number
            previous = offset_delta
            if place_fields(data, at, stop, places, row) != stop:
                return number
            at = stop
            offsets[row] = base_offset + offset_delta
            timestamps[row] = max_timestamp if attributes & 8 else base_timestamp + timestamp_delta
            row += 1
        if at != end:
            return number
    return -1


@compiled(types.void, BYTES, STRIDED, STRIDED, *(OUT_INT32,) * 4)
def place_headers(
    data: np.ndarray,
    headers_at: np.ndarray,
    header_counts: np.ndarray,
    name_at: np.ndarray,
    name_size: np.ndarray,
    value_at: np.ndarray,
    value_size: np.ndarray,
) -> None:
    """Fill in where the headers of all records are; they have been walked over before."""
    end = len(data)
    slot = 0
    for row in range(len(header_counts)):
        at = types.int64(headers_at[row])
        for _ in range(header_counts[row]):
            size, at = read_number(data, at, end, _SHORT)
            name_at[slot] = at
            name_size[slot] = size
            size, at = read_number(data, at + size, end, _SHORT)
            value_at[slot] = at
            value_size[slot] = size
            at += max(size, 0)
            slot += 1


@compiled(types.void, BYTES, STRIDED, STRIDED, OUT_INT32, OUT_BYTES)
def compact(
    data: np.ndarray, places: np.ndarray, sizes: np.ndarray, cuts: np.ndarray, out: np.ndarray
) -> None:
    """Copy pieces together; `cuts` receives where each begins in `out`, and where the last ends."""
    behind = types.int64(0)
    for row in range(len(sizes)):
        cuts[row] = behind
        size = types.int64(sizes[row])
        if size > 0:
            copy_bytes(out, behind, data, types.int64(places[row]), size)
            behind += size
    cuts[len(sizes)] = behind
