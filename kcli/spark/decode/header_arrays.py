"""The headers of a chunk's records as a column; checks that every record ends where it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.varints import read_varint
from kcli.spark.decode.arrow_columns import HEADER, HEADERS, Slices, binary_columns
from kcli.spark.decode.record_boundaries import read_varints

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

FEWEST_IN_STEP = 32
"""For fewer records a step costs more than reading their headers singly."""


class HeaderSlices(NamedTuple):
    """Names and values of all headers, in the order of the records, and the number of headers per record."""

    counts: np.ndarray
    names: Slices
    values: Slices


def read_headers(
    data: np.ndarray, buffer: Buffer, at: np.ndarray, stops: np.ndarray, counts: np.ndarray
) -> tuple[HeaderSlices, np.ndarray]:
    """Return the headers that begin at the places `at`; mark records that do not end at `stops` with them."""
    room = (stops - at) // 2
    is_wrong = (counts < 0) | (counts > np.maximum(room, 0))
    counts = np.where(is_wrong, 0, counts)
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    places = [np.zeros(total, np.int64) for _ in range(4)]
    reached = at.copy()
    steps = _read_together(data, reached, counts, slots, places, is_wrong)
    for row in np.flatnonzero((counts > steps) & ~is_wrong).tolist():
        first, stop = int(slots[row]) + steps, int(slots[row] + counts[row])
        begin, end = int(reached[row]), int(stops[row])
        try:
            found, behind = _read(bytes(buffer[begin:end]), stop - first)
        except CorruptRecord:
            is_wrong[row] = True
            continue
        numbers = np.array(found, np.int64).reshape(-1, 4)
        numbers[:, ::2] += begin
        for column in range(4):
            places[column][first:stop] = numbers[:, column]
        reached[row] = begin + behind
    is_wrong |= reached != stops
    names, values = Slices(places[0], places[1]), Slices(places[2], places[3])
    return HeaderSlices(counts, names, values), is_wrong


def _read_together(
    data: np.ndarray,
    reached: np.ndarray,
    counts: np.ndarray,
    slots: np.ndarray,
    places: list[np.ndarray],
    is_wrong: np.ndarray,
) -> int:
    """Read one header of each record per step while there are many; return the number of steps."""
    rows = np.flatnonzero(counts)
    if len(rows) < FEWEST_IN_STEP:
        return 0
    rows = rows[np.argsort(-counts[rows], kind="stable")]
    steps = int(counts[rows[FEWEST_IN_STEP - 1]])
    going = np.searchsorted(-counts[rows], -np.arange(steps), side="left").tolist()
    at, next_slots = reached[rows], slots[rows]
    for active in going:
        name_length, name = read_varints(data, at[:active])
        value_length, value = read_varints(data, name + np.maximum(name_length, 0))
        is_wrong[rows[:active]] |= (name_length < 0) | (value_length < -1)
        for column, found in zip(places, (name, name_length, value, value_length), strict=True):
            column[next_slots[:active]] = found
        next_slots[:active] += 1
        at[:active] = value + np.maximum(value_length, 0)
    reached[rows] = at
    return steps


def _read(data: bytes, count: int) -> tuple[list[int], int]:
    """Return begin and size of each name and value, and their ends; raises `CorruptRecord`."""
    found: list[int] = []
    at = 0
    for _ in range(count):
        length, at = read_varint(data, at)
        if not 0 <= length <= len(data) - at:
            raise CorruptRecord("a header name does not fit its record")
        found += (at, length)
        length, at = read_varint(data, at + length)
        if not -1 <= length <= len(data) - at:
            raise CorruptRecord("a header value does not fit its record")
        found += (at, length)
        at += max(length, 0)
    return found, at


def header_column(data: np.ndarray, headers: HeaderSlices) -> pa.Array:
    """Return the column; a record without headers has null."""
    names, values = binary_columns(data, [headers.names, headers.values])
    return header_lists(headers.counts, names, values)


def header_lists(counts: np.ndarray, names: pa.Array, values: pa.Array) -> pa.Array:
    """Return the column, given the number of headers of each record."""
    pairs = pa.StructArray.from_arrays([_text(names), values], fields=list(HEADER))
    offsets: np.ndarray = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    is_null = counts == 0
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=HEADERS, mask=pa.array(is_null))


def _text(names: pa.Array) -> pa.Array:
    """Return names as text: each byte sequence that is not UTF-8 becomes U+FFFD, as in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
