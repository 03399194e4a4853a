"""Sound batches: a run of batches that follow each other without holes, and that nothing is wrong with.

Nearly all there is, so it is walked in line, and headers become columns many at a time. Whatever is not as
plain as that ends the run; a closer look tells what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_BIT,
    crc32c,
)
from kcli.spark.columns.chunk import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BEGIN,
    COUNT,
    END,
    LAST_DELTA,
    MAX_TIMESTAMP,
)
from kcli.spark.columns.entry import MAGIC, Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECIAL = CONTROL_BIT | TRANSACTIONAL_BIT
_MAX_CODEC = int(Codec.ZSTD)
_FIELDS = np.dtype(
    {
        "names": ["base", "length", "attributes", "delta", "first_time", "max_time", "count"],
        "formats": [">i8", ">i4", ">i2", ">i4", ">i8", ">i8", ">i4"],
        "offsets": [0, 8, 21, 23, 27, 35, 57],
        "itemsize": HEADER_SIZE,
    }
)
_COLUMNS = {
    COUNT: "count",
    BASE_OFFSET: "base",
    LAST_DELTA: "delta",
    BASE_TIMESTAMP: "first_time",
    MAX_TIMESTAMP: "max_time",
    ATTRIBUTES: "attributes",
}
_BYTES = np.arange(HEADER_SIZE)


class SoundRun(NamedTuple):
    """Batches in a row; `is_ordinary` if none is of a transaction, `is_plain` if none is compressed too."""

    entries: list[Entry]
    is_plain: bool
    is_ordinary: bool

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        last = self.entries[-1]
        return last.at + last.size


def sound_run(
    view: memoryview, at: int, stop: int, next_offset: int, end: int, limit_offset: int
) -> SoundRun:
    """Return the run of batches from `at` on that begins with `next_offset`, up to offset `end`.

    All are whole, have records, and end below `limit_offset`.
    """
    entries: list[Entry] = []
    unpack, make, flags = HEADER.unpack_from, tuple.__new__, 0
    while at + HEADER_SIZE <= stop and next_offset < end:
        first, length, _, magic, crc, attributes, delta, time, max_time, producer_id, _, _, count = unpack(
            view, at
        )
        behind = at + LOG_OVERHEAD + length
        if (
            first != next_offset
            or magic != MAGIC
            or length < MIN_BATCH_LENGTH
            or behind > stop
            or not 0 < count <= delta + 1
            or attributes & CODEC_MASK > _MAX_CODEC
            or crc32c(view[at + CRC_START : behind]) != crc
        ):
            break
        last = first + delta
        if last >= limit_offset:
            break
        flags |= attributes
        entries.append(
            make(
                Entry,
                (at, behind - at, first, last, count, attributes, time, max_time, producer_id, None),
            )
        )
        next_offset, at = last + 1, behind
    return SoundRun(entries, not flags & (_SPECIAL | CODEC_MASK), not flags & _SPECIAL)


def batch_columns(view: memoryview, entries: Sequence[Entry]) -> np.ndarray:
    """Return what a chunk has of batches, a row each, as if their records stood in it uncompressed."""
    at = np.fromiter((entry[0] for entry in entries), np.int64, len(entries))
    heads = np.frombuffer(view, np.uint8)[at[:, None] + _BYTES].view(_FIELDS)[:, 0]
    rows = np.empty((len(entries), len(_COLUMNS) + 2), np.int64)
    rows[:, BEGIN] = at + HEADER_SIZE
    rows[:, END] = at + LOG_OVERHEAD + heads["length"]
    for column, name in _COLUMNS.items():
        rows[:, column] = heads[name]
    return rows
