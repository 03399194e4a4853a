"""Chunk: batches of one partition, checked and decompressed, that are decoded in one step.

A row of `batches` holds, in int64:

| column | field |
|---|---|
| 0, 1 | where the records begin and end in `data` |
| 2 | record count |
| 3, 4 | base offset, last offset delta |
| 5, 6 | base timestamp, max timestamp |
| 7 | attributes |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kcli.errors import KcliError
from kcli.protocol.records.batch_header import TIMESTAMP_TYPE_BIT

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.protocol.corruption import Buffer


BEGIN, END, COUNT, BASE_OFFSET, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, ATTRIBUTES = range(8)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Batches in the order of their offsets; rows from `start` up to `end` are wanted."""

    data: Buffer
    batches: np.ndarray
    start: int
    end: int

    def part(self, first: int, stop: int) -> Chunk:
        return Chunk(self.data, self.batches[first:stop], self.start, self.end)


class Fields(NamedTuple):
    """What a decoder returns for a chunk: a row per record; an unwanted column is None."""

    offsets: np.ndarray
    """int64, increasing."""
    timestamps: np.ndarray
    """int64, milliseconds."""
    timestamp_types: np.ndarray | int
    """int32 per row, or one for all rows."""
    key: pa.Array | None
    value: pa.Array | None
    headers: pa.Array | None


class CorruptRecords(KcliError):
    """The records of a batch of the chunk contradict its header."""

    def __init__(self, batch: int, reason: str) -> None:
        super().__init__(reason)
        self.batch = batch
        self.reason = reason


def timestamp_types(chunk: Chunk) -> np.ndarray | int:
    """Return 0 for create time and 1 for log append time: one number if it holds for all records."""
    types = (chunk.batches[:, ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0).astype(np.int32)
    if not len(types) or (types == types[0]).all():
        return int(types[0]) if len(types) else 0
    return np.repeat(types, chunk.batches[:, COUNT])
