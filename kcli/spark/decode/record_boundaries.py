"""Where the records of a chunk begin and end, by the lengths in front of them.

Each length tells where the next record begins, so a single batch is walked record by record. Of many batches
one record each is read per step: the batches are sorted by their record count, and those that have ended drop
off the end. The last few batches are walked singly.

The lengths are zigzag varints. Numbers of one and two bytes, nearly all, are read in one step, longer ones
again. Positions behind the buffer read its last byte; the caller checks where the numbers end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import MIN_RECORD_BYTES
from kcli.protocol.records.varints import read_varint
from kcli.spark.decode.chunk import BEGIN, COUNT, END, CorruptRecords

if TYPE_CHECKING:
    from kcli.spark.decode.chunk import Chunk

_MAX_BYTES_32 = 5
_MAX_BYTES_64 = 10


def read_varints(data: np.ndarray, at: np.ndarray, *, is_long: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers (int64) at the places `at`, and the places behind them.

    For a number that is longer than its type the place is behind the buffer's end.
    """
    first = data.take(at, mode="clip").astype(np.int64)
    if first.max(initial=0) < 0x80:
        return (first >> 1) ^ -(first & 1), at + 1
    second = data.take(at + 1, mode="clip").astype(np.int64)
    more = first >> 7
    folded = (first & 0x7F) | (second << 7) * more
    ends = at + 1 + more
    longer = np.flatnonzero((second >> 7) & more)
    if len(longer):
        folded[longer], ends[longer] = _read_longer(data, at[longer], is_long=is_long)
    return ((folded >> 1) & np.int64(0x7FFFFFFFFFFFFFFF)) ^ -(folded & 1), ends


def _read_longer(data: np.ndarray, at: np.ndarray, *, is_long: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of any length, still zigzag, and the places behind them."""
    folded: np.ndarray = np.zeros(len(at), np.int64)
    ends = at.copy()
    rest: np.ndarray = np.arange(len(at))
    for group in range(_MAX_BYTES_64 if is_long else _MAX_BYTES_32):
        byte = data.take(ends[rest], mode="clip").astype(np.int64)
        folded[rest] |= (byte & 0x7F) << (7 * group)
        ends[rest] += 1
        rest = rest[byte >= 0x80]
        if not len(rest):
            break
    ends[rest] = len(data) + 1
    # The last group of a full-length number has more bits than the type: they are cut, as in Java.
    return (folded if is_long else folded & 0xFFFFFFFF), ends


FEWEST_IN_STEP = 64
"""For fewer batches a step costs more than walking them singly."""

_DOES_NOT_FIT = "a record does not fit its batch"


def record_boundaries(data: np.ndarray, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """Return begin, behind the length, and end of each record; raises `CorruptRecords`.

    The records of each batch fill it exactly.
    """
    batches = chunk.batches
    begins, ends, counts = batches[:, BEGIN], batches[:, END], batches[:, COUNT]
    check_counts(chunk)
    total = int(counts.sum())
    bodies: np.ndarray = np.empty(total, np.int64)
    stops: np.ndarray = np.empty(total, np.int64)
    slots = np.cumsum(counts) - counts
    reached, steps = _walk_together(data, chunk, slots, bodies, stops)
    for number in np.flatnonzero(counts > steps).tolist():
        first, stop = int(slots[number]) + steps, int(slots[number] + counts[number])
        at, end = int(reached[number]), int(ends[number])
        try:
            found = _walk(bytes(chunk.data[at:end]), stop - first)
        except CorruptRecord as error:
            raise CorruptRecords(number, error.message) from error
        bodies[first:stop] = found[0]
        stops[first:stop] = found[1]
        bodies[first:stop] += at
        stops[first:stop] += at
    filled = begins.copy()
    some = np.flatnonzero(counts)
    filled[some] = stops[slots[some] + counts[some] - 1]
    unfilled = np.flatnonzero(filled != ends)
    if len(unfilled):
        raise CorruptRecords(int(unfilled[0]), "a batch holds more than its records")
    return bodies, stops


def check_counts(chunk: Chunk) -> None:
    """Raise `CorruptRecords` for batches that claim more records than their bytes can hold."""
    batches = chunk.batches
    room = (batches[:, END] - batches[:, BEGIN]) // MIN_RECORD_BYTES
    too_many = np.flatnonzero(batches[:, COUNT] > room)
    if len(too_many):
        raise CorruptRecords(int(too_many[0]), _DOES_NOT_FIT)


def _walk_together(
    data: np.ndarray, chunk: Chunk, slots: np.ndarray, bodies: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, int]:
    """Walk all batches in steps while there are many; return where each got, and the number of steps."""
    batches = chunk.batches
    reached = batches[:, BEGIN].copy()
    if len(batches) < FEWEST_IN_STEP:
        return reached, 0
    order = np.argsort(-batches[:, COUNT], kind="stable")
    at, limits, next_slots = reached[order], batches[order, END], slots[order]
    # So many batches take part in so many steps: counts[order] descends.
    steps = int(batches[order[FEWEST_IN_STEP - 1], COUNT])
    going = np.searchsorted(-batches[order, COUNT], -np.arange(steps), side="left").tolist()
    for active in going:
        length, body = read_varints(data, at[:active])
        stop = body + length
        wrong = (length < 0) | (stop > limits[:active])
        if wrong.any():
            raise CorruptRecords(int(order[np.flatnonzero(wrong)[0]]), _DOES_NOT_FIT)
        bodies[next_slots[:active]] = body
        stops[next_slots[:active]] = stop
        next_slots[:active] += 1
        at[:active] = stop
    reached[order] = at
    return reached, steps


def _walk(data: bytes, count: int) -> tuple[list[int], list[int]]:
    """Return begin and end of records; raises `CorruptRecord`. Its loop runs once per record."""
    bodies: list[int] = []
    stops: list[int] = []
    end = len(data)
    at = 0
    try:
        for _ in range(count):
            byte = data[at]
            if byte < 0x80:
                at += 1
                length = (byte >> 1) ^ -(byte & 1)
            elif (second := data[at + 1]) < 0x80:
                at += 2
                folded = (byte & 0x7F) | (second << 7)
                length = (folded >> 1) ^ -(folded & 1)
            else:
                length, at = read_varint(data, at)
            bodies.append(at)
            at += length
            if length < 0 or at > end:
                raise CorruptRecord(_DOES_NOT_FIT)
            stops.append(at)
    except IndexError as error:
        raise CorruptRecord(_DOES_NOT_FIT) from error
    return bodies, stops
