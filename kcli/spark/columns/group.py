"""Group: entries of one kind that are decoded in one go.

Uncompressed records stay where they are in the buffer; only next to compressed ones are they copied, so that
all of them stand in the order of their offsets.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import CODEC_MASK, HEADER_SIZE
from kcli.spark.columns.chunk import BEGIN, END, Chunk
from kcli.spark.columns.legacy import LegacyRows
from kcli.spark.columns.sound_batches import batch_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.spark.columns.entry import Entry
    from kcli.spark.columns.unpacked import Place, Unpacked

_CODECS = tuple(Codec)


class Group:
    """Batches, or older entries, of `view`, in the order of their offsets."""

    __slots__ = ("_places", "_unpacked", "entries", "legacy", "size_bytes", "view")

    def __init__(self, view: memoryview, unpacked: Unpacked) -> None:
        unpacked.clear()
        self.view = view
        self.entries: list[Entry] = []
        self.legacy: LegacyRows | None = None
        """The rows of older entries, if the group is of those."""
        self.size_bytes = 0
        """Of the records, decompressed."""
        self._unpacked = unpacked
        self._places: list[Place] = []
        """Of the entries in there, from the first compressed one on of all of them."""

    def takes(self, entry: Entry) -> bool:
        """Whether the entry is of the group's kind."""
        return not self.entries or (self.legacy is None) is (entry.legacy is None)

    def add_legacy(self, entry: Entry, start: int, end: int, max_bytes: int) -> int:
        """Add an older entry and return its first offset.

        Raises `CorruptRecord`, and changes nothing, if its records cannot be had within `max_bytes`.
        """
        assert entry.legacy is not None
        legacy = self.legacy or LegacyRows()
        first = legacy.add(entry.legacy, start, end, max_bytes)
        self.legacy = legacy
        self.size_bytes = legacy.size_bytes
        self.entries.append(entry)
        return first

    def fill(self, entries: Sequence[Entry], at: int, size_bytes: int, max_bytes: int) -> None:
        """Add batches from number `at` on, until the group is of that size.

        Raises `CorruptRecord` behind the last one whose records can be had within `max_bytes`.
        """
        # Thousands a second: what is looked up once is not looked up for each.
        view, places, unpack, keep = self.view, self._places, self._unpacked.add, self.entries.append
        for entry in islice(entries, at, None):
            begin, end, codec = entry[0] + HEADER_SIZE, entry[0] + entry[1], entry[5] & CODEC_MASK
            if codec or places:
                if len(places) < len(self.entries):
                    self._unpack_plain()
                place = unpack(_CODECS[codec], view[begin:end], max_bytes)
                places.append(place)
                begin, end = place
            keep(entry)
            self.size_bytes += end - begin
            if self.size_bytes >= size_bytes:
                return

    def add_plain(self, entries: Sequence[Entry]) -> None:
        """Add batches, none of them compressed, that stand next to each other."""
        self.entries += entries
        if self._places:
            self._unpack_plain()
        self.size_bytes += entries[-1].at + entries[-1].size - entries[0].at

    def chunk(self, start: int, end: int) -> Chunk:
        """Return all batches, for rows from `start` up to `end`."""
        batches = batch_columns(self.view, self.entries)
        if not self._places:
            return Chunk(self.view, batches, start, end)
        batches[:, [BEGIN, END]] = self._places
        return Chunk(self._unpacked.view, batches, start, end)

    def _unpack_plain(self) -> None:
        """Copy the uncompressed entries that are not in there yet."""
        for entry in self.entries[len(self._places) :]:
            records = self._records(entry)
            self._places.append(self._unpacked.add(Codec.NONE, records, len(records)))

    def _records(self, entry: Entry) -> memoryview:
        return self.view[entry.at + HEADER_SIZE : entry.at + entry.size]
