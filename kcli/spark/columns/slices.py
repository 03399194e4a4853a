"""Slices: Arrow columns of bytes that stand, in ascending order, in one buffer.

An array of the whole buffer, cut wherever a slice begins or ends, costs no copy; taking its slices and
leaving the gaps copies all values in native code, and makes no object of any.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa


class Slices(NamedTuple):
    """Where bytes begin, and how many they are: -1 are null."""

    begins: np.ndarray
    lengths: np.ndarray


def binary_columns(data: np.ndarray, columns: list[Slices]) -> list[pa.Array]:
    """Return columns of the same number of rows; those of a row follow each other in the buffer."""
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
