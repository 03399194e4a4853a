"""PackedBatches: what a verification needs of consecutive sound batches, column by column.

Another process may have read them: it sends each column as an array of numbers, or as one number if it is the
same for every batch. Nearly all index entries are right, so they are not checked one by one: their bytes are
looked up in the index that would have an entry for every batch.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from operator import sub
from typing import TYPE_CHECKING

from kcli.forensics.verification.index_bytes import are_among, entries_of, never_falls, split_words
from kcli.storage.index.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.index.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.forensics.entries.batch_run import BatchRun
    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.protocol.corruption import Buffer

MOST_BATCHES = 16_384
"""How many batches are packed together."""

_MARSHAL_VERSION = 2
"""The last version that does not look for repeated objects."""
_MAX_POSITION = 2**31

Entries = Callable[[], "Iterator[ScannedEntry | Damage]"]
"""Yields the batches one by one, and damage if the file was changed meanwhile."""


class PackedBatches:
    """Batches that end at `end` of the file; `relatives` are last offsets relative to the segment's.

    `is_dense`: no offset is missing in them and between them. `times_rise`: no timestamp is below the one
    before.
    """

    def __init__(
        self,
        columns: Sequence[Sequence[int]],
        end: int,
        *,
        is_dense: bool,
        times_rise: bool,
        entries: Entries,
    ) -> None:
        (
            self.positions,
            self.base_offsets,
            self.last_offsets,
            self.relatives,
            self.max_timestamps,
            self.leader_epochs,
            self.producer_ids,
            self.producer_epochs,
            self.sequences,
            self.attributes,
        ) = columns
        self.end = end
        self.is_dense = is_dense
        self.times_rise = times_rise
        self.entries = entries

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def largest_size(self) -> int:
        ends: Iterator[int] = chain(self.positions[1:], (self.end,))
        return max(end - start for start, end in zip(self.positions, ends, strict=True))

    def has_offset_entries(self, entries: bytes) -> bool:
        """Whether each of these entries of an offset index is right for one of the batches."""
        if not self._are_relative or self.end > _MAX_POSITION:
            return False
        (_, relatives), (_, positions) = split_words(self.relatives), split_words(self.positions)
        return are_among(entries, entries_of(relatives, positions), OFFSET_ENTRY_SIZE)

    def has_time_entries(self, entries: bytes) -> bool:
        """Whether each of these entries of a time index is right for one of the batches."""
        if not self._are_relative:
            return False
        _, relatives = split_words(self.relatives)
        return are_among(entries, entries_of(*split_words(self.max_timestamps), relatives), TIME_ENTRY_SIZE)

    @property
    def _are_relative(self) -> bool:
        """Whether no offset is below the segment's."""
        return self.relatives[0] >= 0

    @classmethod
    def of(cls, run: BatchRun, base_offset: int) -> PackedBatches:
        """Return batches that this process has read from the log of the segment at `base_offset`."""
        columns = _columns_of(run, base_offset)
        return cls(
            columns,
            run.end,
            is_dense=run.is_dense,
            times_rise=never_falls(run.max_timestamps),
            entries=run.entries,
        )

    @classmethod
    def unpack(
        cls, data: Buffer, entries: Callable[[int, int, int], Iterator[ScannedEntry | Damage]]
    ) -> PackedBatches:
        """Return what a `BatchPacker` has packed; `entries` takes start, end, first offset."""
        packed, count, end, is_dense, times_rise = marshal.loads(data)
        columns = [array("q", column) for column in packed]
        full = [column if len(column) == count else column * count for column in columns]
        start, offset = full[0][0], full[1][0]
        return cls(
            full, end, is_dense=is_dense, times_rise=times_rise, entries=lambda: entries(start, end, offset)
        )


class BatchPacker:
    """Collects consecutive batches of a segment and sends them packed, many at a time."""

    __slots__ = ("_base_offset", "_count", "_end", "_is_dense", "_next_offset", "_runs", "_send")

    def __init__(self, base_offset: int, send: Callable[[bytes], None]) -> None:
        self._base_offset = base_offset
        self._send = send
        self._runs: list[tuple[Sequence[int], ...]] = []
        self._count = 0
        self._end = 0
        self._is_dense = True
        self._next_offset = -1

    def add(self, run: BatchRun) -> None:
        follows = not self._runs or run.base_offsets[0] == self._next_offset
        self._is_dense = self._is_dense and follows and run.is_dense
        self._runs.append(_columns_of(run, self._base_offset))
        self._count += len(run)
        self._end, self._next_offset = run.end, run.last_offsets[-1] + 1
        if self._count >= MOST_BATCHES:
            self.flush()

    def flush(self) -> None:
        if not self._runs:
            return
        columns = [_packed(parts) for parts in zip(*self._runs, strict=True)]
        times_rise = never_falls(columns[_TIMESTAMPS])
        packed = (*(column.tobytes() for column in columns),)
        data = packed, self._count, self._end, self._is_dense, times_rise
        self._send(marshal.dumps(data, _MARSHAL_VERSION))
        self._runs.clear()
        self._count, self._is_dense = 0, True


_TIMESTAMPS = 4
"""The number of that column."""


def _columns_of(run: BatchRun, base_offset: int) -> tuple[Sequence[int], ...]:
    last_offsets = run.last_offsets
    return (
        run.positions,
        run.base_offsets,
        last_offsets,
        [*map(sub, last_offsets, repeat(base_offset))] if base_offset else last_offsets,
        run.max_timestamps,
        run.leader_epochs,
        run.producer_ids,
        run.producer_epochs,
        run.sequences,
        run.attributes,
    )


def _packed(parts: Sequence[Sequence[int]]) -> array[int]:
    """Return a column made of these parts; one number if all numbers are the same."""
    first = parts[0][0]
    if all(part[0] == first == part[-1] and part.count(first) == len(part) for part in parts):
        return array("q", (first,))
    column = array("q")
    for part in parts:
        column.fromlist(list(part))
    return column
