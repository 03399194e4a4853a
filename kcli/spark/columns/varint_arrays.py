"""Zigzag variable-length integers at many places of a buffer at once.

Numbers of one and two bytes, nearly all of them, are read in one go; the longer ones are read again. Places
behind the end of the buffer read its last byte: whoever asks checks where the numbers end.
"""

from __future__ import annotations

import numpy as np

_MAX_BYTES_32 = 5
_MAX_BYTES_64 = 10


def read_varints(data: np.ndarray, at: np.ndarray, *, is_long: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers at the places `at`, int64, and the places behind them.

    The place behind a number that is longer than its type is behind the buffer's end.
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
    """Return folded numbers of any length, and the places behind them."""
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
    # The last group of a full-length number has more bits than the type: the rest is cut, as Java does.
    return (folded if is_long else folded & 0xFFFFFFFF), ends
