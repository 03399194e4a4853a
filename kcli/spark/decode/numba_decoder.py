"""The compiled decoder: it walks the records once, notes where every field is, then copies them together.

Importing it compiles, which takes seconds unless numba finds its cache on disk; it raises `ImportError`
without numba. Calls are inlined: that makes a walk over records half as fast again. The loops read nothing
outside a batch: each number is checked against the end of its batch first. An error is a number, because
exceptions are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from kcli.spark.decode.arrow_columns import HEADERS
from kcli.spark.decode.chunk import COUNT, CorruptRecords, Fields, timestamp_types
from kcli.spark.decode.header_arrays import header_lists
from kcli.spark.decode.record_boundaries import check_counts

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.spark.decode.chunk import Chunk

Function = TypeVar("Function", bound=Callable[..., Any])

INT64 = types.int64
# Read-only arrays accept writable ones too.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C", readonly=True)
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_INT32 = types.Array(types.int32, 1, "C")
OUT_INT64 = types.Array(types.int64, 1, "C")
STRIDED = types.Array(types.int32, 1, "A", readonly=True)
OUT_PLACES = types.Array(types.int32, 2, "C")
PAIR = types.UniTuple(types.int64, 2)


def compiled(result: Any, *arguments: Any) -> Callable[[Function], Function]:  # noqa: ANN401  # numba types
    """Return a decorator that compiles a function for these types, or raises `ImportError`."""

    def decorate(function: Function) -> Function:
        signature = result(*arguments)
        try:
            return _made(function, signature, cache=True)
        except RuntimeError:
            # Without a directory for the cache every process compiles.
            return _made(function, signature, cache=False)

    return decorate


def _made(function: Function, signature: Any, *, cache: bool) -> Function:  # noqa: ANN401
    try:
        made: Function = njit(signature, cache=cache, nogil=True, forceinline=True)(function)
    except NumbaError as error:
        raise ImportError(f"numba cannot compile {function.__name__}: {error}") from error
    return made


@intrinsic
def copy_bytes(context: Any, out: Any, out_at: Any, source: Any, source_at: Any, size: Any) -> Any:  # noqa: ANN401
    """Copy `size` bytes from one array into another with memcpy; loops are several times slower."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        to, begin, origin, start, count = arguments
        target = context.make_array(signature.args[0])(context, builder, to)
        origin = context.make_array(signature.args[2])(context, builder, origin)
        cgutils.raw_memcpy(
            builder, builder.gep(target.data, [begin]), builder.gep(origin.data, [start]), count, 1
        )
        return context.get_dummy_value()

    return types.void(out, out_at, source, source_at, size), generate


NO_NUMBER = -1
"""Instead of the end of a number: it does not end, or is longer than its type."""

KEY_PLACE, VALUE_PLACE, HEADERS_PLACE = 0, 2, 4
"""Columns of the places of fields: begin, and in the next column size, -1 if null. For headers it is their
number."""

_SHORT = 28
_LONG = 63


@compiled(PAIR, BYTES, INT64, INT64, INT64)
def read_number(data: np.ndarray, at: int, end: int, last_shift: int) -> tuple[int, int]:
    """Return the number at a place, and its end; its last group of bits is shifted by `last_shift`."""
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
    """Return the end of so many headers, `NO_NUMBER` if they do not fit."""
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
    """Return the size and begin of a key or value; `NO_NUMBER` if it does not fit."""
    size, at = read_number(data, at, end, _SHORT)
    if size < -1 or size > end - at:
        return 0, NO_NUMBER
    return size, at


@compiled(INT64, BYTES, INT64, INT64, OUT_PLACES, INT64)
def place_fields(data: np.ndarray, at: int, end: int, places: np.ndarray, row: int) -> int:
    """Store the places of a record's key, value and headers; return their end, `NO_NUMBER` if bad."""
    size, at = read_size(data, at, end)
    if at < 0:
        return NO_NUMBER
    places[row, KEY_PLACE], places[row, KEY_PLACE + 1] = at, size
    size, at = read_size(data, at + max(size, 0), end)
    if at < 0:
        return NO_NUMBER
    places[row, VALUE_PLACE], places[row, VALUE_PLACE + 1] = at, size
    count, at = read_number(data, at + max(size, 0), end, _SHORT)
    if at < 0 or count < 0 or count > (end - at) // 2:
        return NO_NUMBER
    places[row, HEADERS_PLACE], places[row, HEADERS_PLACE + 1] = at, count
    return headers_end(data, at, end, count) if count else at


@compiled(INT64, BYTES, TABLE, OUT_INT64, OUT_INT64, OUT_PLACES)
def walk(
    data: np.ndarray, batches: np.ndarray, offsets: np.ndarray, timestamps: np.ndarray, places: np.ndarray
) -> int:
    """Store offsets and timestamps of all records and the places of their fields.

    Return the index of the first batch that contradicts its header, -1 without one.
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
            # Before the fields comes a byte of unused attributes.
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
    """Store the places of the headers of all records, which have been checked."""
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
    """Copy pieces together; `cuts` receives the begin of each in `out`, and the end of the last."""
    behind = types.int64(0)
    for row in range(len(sizes)):
        cuts[row] = behind
        size = types.int64(sizes[row])
        if size > 0:
            copy_bytes(out, behind, data, types.int64(places[row]), size)
            behind += size
    cuts[len(sizes)] = behind


def decode_with_numba(chunk: Chunk, wanted: Collection[str]) -> Fields:
    """Return the records of a chunk as columns; raises `CorruptRecords`."""
    check_counts(chunk)
    # Both are read-only types for the compiled functions: a type per call would be looked up every time.
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
    """Return the pieces as a column; a negative size is null."""
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
