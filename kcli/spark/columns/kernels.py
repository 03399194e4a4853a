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
    PAIR,
    TABLE,
    compiled,
    copy_bytes,
)

if TYPE_CHECKING:
    import numpy as np

NO_NUMBER = -1
"""In place of where a number ends: it does not end, or is longer than its type."""

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


@compiled(
    types.UniTuple(INT64, 4),
    *(BYTES, TABLE, OUT_INT64, OUT_INT64),
    *(OUT_INT32, OUT_INT32, OUT_INT32, OUT_INT32, OUT_INT32, OUT_INT32),
)
def walk(
    data: np.ndarray,
    batches: np.ndarray,
    offsets: np.ndarray,
    timestamps: np.ndarray,
    key_at: np.ndarray,
    key_size: np.ndarray,
    value_at: np.ndarray,
    value_size: np.ndarray,
    headers_at: np.ndarray,
    header_counts: np.ndarray,
) -> tuple[int, int, int, int]:
    """Fill in where the fields of all records are, and their numbers.

    Return the number of the first batch that is not what its header says, -1 if there is none, then the
    bytes of all keys, of all values, and the number of headers. A null has the size -1.
    """
    row = key_bytes = value_bytes = headers = 0
    for number in range(len(batches)):
        at, end, count, base_offset, last_delta, base_timestamp, max_timestamp, attributes = batches[number]
        previous = -1
        for _ in range(count):
            length, at = read_number(data, at, end, _SHORT)
            if at < 0 or length < 0 or length > end - at:
                return number, 0, 0, 0
            stop = at + length
            timestamp_delta, at = read_number(data, at + 1, stop, _LONG)
            if at < 0:
                return number, 0, 0, 0
            offset_delta, at = read_number(data, at, stop, _SHORT)
            if at < 0 or offset_delta <= previous or offset_delta > last_delta:
                return number, 0, 0, 0
            previous = offset_delta
            size, at = read_number(data, at, stop, _SHORT)
            if at < 0 or size < -1 or size > stop - at:
                return number, 0, 0, 0
            key_at[row] = at
            key_size[row] = size
            if size > 0:
                key_bytes += size
                at += size
            size, at = read_number(data, at, stop, _SHORT)
            if at < 0 or size < -1 or size > stop - at:
                return number, 0, 0, 0
            value_at[row] = at
            value_size[row] = size
            if size > 0:
                value_bytes += size
                at += size
            size, at = read_number(data, at, stop, _SHORT)
            if at < 0 or size < 0 or size > (stop - at) // 2:
                return number, 0, 0, 0
            headers_at[row] = at
            header_counts[row] = size
            if size:
                headers += size
                at = headers_end(data, at, stop, size)
            if at != stop:
                return number, 0, 0, 0
            offsets[row] = base_offset + offset_delta
            timestamps[row] = max_timestamp if attributes & 8 else base_timestamp + timestamp_delta
            row += 1
        if at != end:
            return number, 0, 0, 0
    return -1, key_bytes, value_bytes, headers


@compiled(types.void, BYTES, *(OUT_INT32,) * 6)
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


@compiled(types.void, BYTES, OUT_INT32, OUT_INT32, OUT_INT32, OUT_BYTES)
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
