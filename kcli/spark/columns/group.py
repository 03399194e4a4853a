"""Group: entries of one kind that are decoded in one go.

Uncompressed records stay where they are in the buffer; only next to compressed ones are they copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kcli.protocol.compression import Codec
from kcli.protocol.record_batch_header import HEADER_SIZE
from kcli.spark.columns.chunk import BEGIN, END, Chunk
from kcli.spark.columns.decompress import decompress
from kcli.spark.columns.legacy import LegacyRows
from kcli.spark.columns.sound_batches import batch_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.record import Buffer
    from kcli.spark.columns.entry import Entry


class Group:
    """Batches, or older entries, of `view`, in the order of their offsets."""

    __slots__ = ("_parts", "entries", "legacy", "size_bytes", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.entries: list[Entry] = []
        self.legacy: LegacyRows | None = None
        """The rows of older entries, if the group is of those."""
        self.size_bytes = 0
        """Of the records, decompressed."""
        self._parts: list[Buffer | None] = []

    def takes(self, entry: Entry) -> bool:
        """Whether the entry is of the group's kind."""
        return not self.entries or (self.legacy is None) is (entry.legacy is None)

    def add(self, entry: Entry, start: int, end: int, max_bytes: int) -> int:
        """Add an entry and return its first offset.

        Raises `CorruptRecord`, and changes nothing, if its records cannot be had within `max_bytes`.
        """
        if entry.legacy is not None:
            legacy = self.legacy or LegacyRows()
            first = legacy.add(entry.legacy, start, end, max_bytes)
            self.legacy = legacy
            self.size_bytes = legacy.size_bytes
            self.entries.append(entry)
            return first
        codec = entry.codec
        data = None
        size = entry.size - HEADER_SIZE
        if codec is not Codec.NONE:
            data = decompress(codec, self.view[entry.at + HEADER_SIZE : entry.at + entry.size], max_bytes)
            size = len(data)
        self._parts.append(data)
        self.entries.append(entry)
        self.size_bytes += size
        return entry.first

    def add_plain(self, entries: Sequence[Entry]) -> None:
        """Add batches, none of them compressed, that stand next to each other."""
        self.entries += entries
        self._parts += [None] * len(entries)
        self.size_bytes += entries[-1].at + entries[-1].size - entries[0].at

    def chunk(self, start: int, end: int) -> Chunk:
        """Return all batches, for rows from `start` up to `end`."""
        batches = batch_columns(self.view, self.entries)
        data: Buffer = self.view
        if any(part is not None for part in self._parts):
            parts = [self._records(number) for number in range(len(self.entries))]
            batches[:, END] = np.cumsum([len(part) for part in parts])
            batches[0, BEGIN], batches[1:, BEGIN] = 0, batches[:-1, END]
            data = parts[0] if len(parts) == 1 else b"".join(parts)
        return Chunk(data, batches, start, end)

    def _records(self, number: int) -> Buffer:
        part, entry = self._parts[number], self.entries[number]
        return self.view[entry.at + HEADER_SIZE : entry.at + entry.size] if part is None else part
