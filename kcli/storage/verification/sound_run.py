"""SoundRun: what a verification needs of sound batches that follow each other in a log, column by column.

Another process may have read them. Packed they are numbers alone, and a column that says the same of every
batch is one number.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.record import Buffer
    from kcli.storage.batch_run import BatchRun
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import ScannedEntry

MOST_BATCHES = 16_384
"""How many batches are packed together."""

Column = tuple[int, ...]
Entries = Callable[[], "Iterator[ScannedEntry | Damage]"]
"""Gives the batches one by one; those that have been written anew meanwhile may have damage."""


class SoundRun:
    """Batches that end at `end` of the file; `is_dense` if no offset in and between them is missing."""

    __slots__ = (
        "attributes",
        "base_offsets",
        "end",
        "entries",
        "is_dense",
        "last_offsets",
        "leader_epochs",
        "max_timestamps",
        "positions",
        "producer_epochs",
        "producer_ids",
        "sequences",
    )

    def __init__(self, columns: Sequence[Column], end: int, is_dense: bool, entries: Entries) -> None:
        (
            self.positions,
            self.base_offsets,
            self.last_offsets,
            self.max_timestamps,
            self.leader_epochs,
            self.producer_ids,
            self.producer_epochs,
            self.sequences,
            self.attributes,
        ) = columns
        self.end = end
        self.is_dense = is_dense
        self.entries = entries

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def largest_size(self) -> int:
        """How long the longest batch is."""
        ends: Iterator[int] = chain(self.positions[1:], (self.end,))
        return max(end - start for start, end in zip(self.positions, ends, strict=True))

    @classmethod
    def of(cls, run: BatchRun) -> SoundRun:
        """Return what was just read."""
        return cls(_columns_of(run), run.end, run.is_dense, run.entries)

    @classmethod
    def unpack(
        cls, data: Buffer, entries: Callable[[int, int, int], Iterator[ScannedEntry | Damage]]
    ) -> SoundRun:
        """Return what a `RunPacker` has packed; `entries` reads what is between two positions of the file.

        It is also told the first offset.
        """
        columns, count, end, is_dense = marshal.loads(data)
        full = [column if len(column) == count else column * count for column in columns]
        start, offset = full[0][0], full[1][0]
        return cls(full, end, is_dense, lambda: entries(start, end, offset))


class RunPacker:
    """Collects batches that follow each other, and sends them packed, many at a time."""

    __slots__ = ("_count", "_end", "_is_dense", "_next_offset", "_runs", "_send")

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._runs: list[tuple[Column, ...]] = []
        self._count = 0
        self._end = 0
        self._is_dense = True
        self._next_offset = -1

    def add(self, run: BatchRun) -> None:
        """Take the next batches."""
        follows = not self._runs or run.base_offsets[0] == self._next_offset
        self._is_dense = self._is_dense and follows and run.is_dense
        self._runs.append(_columns_of(run))
        self._count += len(run)
        self._end, self._next_offset = run.end, run.last_offsets[-1] + 1
        if self._count >= MOST_BATCHES:
            self.flush()

    def flush(self) -> None:
        """Send what was collected."""
        if not self._runs:
            return
        columns = tuple(_packed(tuple(chain.from_iterable(parts))) for parts in zip(*self._runs, strict=True))
        self._send(marshal.dumps((columns, self._count, self._end, self._is_dense)))
        self._runs.clear()
        self._count, self._is_dense = 0, True


def _columns_of(run: BatchRun) -> tuple[Column, ...]:
    return (
        tuple(run.positions),
        run.base_offsets,
        run.last_offsets,
        run.max_timestamps,
        run.leader_epochs,
        run.producer_ids,
        run.producer_epochs,
        run.sequences,
        run.attributes,
    )


def _packed(column: Column) -> Column:
    first = column[0]
    return column[:1] if first == column[-1] and column.count(first) == len(column) else column
