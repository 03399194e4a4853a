"""Groups of entries that are decoded in one step.

A run of sound batches is walked in one loop, and their headers become columns many at a time; nearly all data
is like that. Any other entry ends the run and is checked singly. Uncompressed records stay where they are in
the buffer, unless compressed ones are next to them: then all are copied, in the order of their offsets. The
rows of message sets (magic 0 and 1) are gathered one by one: they are few and small.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import BYTES_PER_RECORD, CorruptRecord
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHead,
    crc32c,
)
from kcli.protocol.records.message_set import LegacyEntry
from kcli.spark.decode.arrow_columns import HEADERS
from kcli.spark.decode.chunk import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BEGIN,
    COUNT,
    END,
    LAST_DELTA,
    MAX_TIMESTAMP,
    Chunk,
    Fields,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kcli.protocol.records.record import Record
    from kcli.spark.decode.decompression import ByteRange, DecompressedRecords


class LegacyRows:
    """The rows of older entries, in the order of their offsets."""

    __slots__ = ("_keys", "_offsets", "_timestamps", "_types", "_values", "size_bytes")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self.size_bytes = 0
        """About how much memory the rows take."""

    def add(self, entry: LegacyEntry, start: int, end: int, max_bytes: int) -> int:
        """Add the rows of an entry with offsets in `start..end - 1`; return its first offset.

        Raises `CorruptRecord` before adding any.
        """
        records = list(_checked_records(entry, max_bytes))
        kept = [record for record in records if start <= record.offset < end]
        timestamp_type = int(entry.timestamp_type)
        for record in kept:
            self._offsets.append(record.offset)
            self._timestamps.append(record.timestamp)
            self._types.append(timestamp_type)
            self._keys.append(record.key)
            self._values.append(record.value)
            self.size_bytes += BYTES_PER_RECORD + len(record.key or b"") + len(record.value or b"")
        return records[0].offset

    def __len__(self) -> int:
        return len(self._offsets)

    def fields(self, wanted: Collection[str]) -> Fields:
        count = len(self._offsets)
        return Fields(
            np.array(self._offsets, np.int64),
            np.array(self._timestamps, np.int64),
            np.array(self._types, np.int32),
            pa.array(self._keys, pa.binary()) if "key" in wanted else None,
            pa.array(self._values, pa.binary()) if "value" in wanted else None,
            pa.nulls(count, HEADERS) if "headers" in wanted else None,
        )


def _checked_records(entry: LegacyEntry, max_bytes: int) -> Iterable[Record]:
    """Return the records of an entry; those of a wrapper only if every checksum inside is right."""
    if not entry.is_compressed:
        return entry.records(max_bytes)
    entries = entry.inner_entries(max_bytes)
    if not all(inner.is_valid_crc() for inner in entries):
        raise CorruptRecord("a record inside a compressed set does not match its own checksum")
    records = list(entry.inner_records(entries))
    if any(after.offset <= before.offset for before, after in pairwise(records)):
        raise CorruptRecord("the offsets inside a compressed set do not increase")
    return records


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
    """Consecutive batches; `is_ordinary`: none is transactional, `is_plain`: none is compressed either."""

    entries: list[BatchHead]
    is_plain: bool
    is_ordinary: bool

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        return self.entries[-1].end


def sound_run(
    view: memoryview, at: int, stop: int, next_offset: int, end: int, limit_offset: int
) -> SoundRun:
    """Return the run of batches at `at` that begins with offset `next_offset`, up to offset `end`.

    All are whole, have records, and end below `limit_offset`.
    """
    entries: list[BatchHead] = []
    unpack, make, flags = HEADER.unpack_from, tuple.__new__, 0
    while at + HEADER_SIZE <= stop and next_offset < end:
        # Names for all fields: a head from a starred tuple takes a fifth longer.
        (
            first, length, epoch, magic, crc, attributes,
            delta, time, max_time, producer, term, sequence, count,
        ) = unpack(view, at)  # fmt: skip
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
        fields = (
            at, first, length, epoch, magic, crc, attributes,
            delta, time, max_time, producer, term, sequence, count,
        )  # fmt: skip
        entries.append(make(BatchHead, fields))
        next_offset, at = last + 1, behind
    return SoundRun(entries, not flags & (_SPECIAL | CODEC_MASK), not flags & _SPECIAL)


def batch_columns(view: memoryview, entries: Sequence[BatchHead]) -> np.ndarray:
    """Return the rows of a chunk for batches, as if their records were uncompressed."""
    at = np.fromiter((entry[0] for entry in entries), np.int64, len(entries))
    heads = np.frombuffer(view, np.uint8)[at[:, None] + _BYTES].view(_FIELDS)[:, 0]
    rows = np.empty((len(entries), len(_COLUMNS) + 2), np.int64)
    rows[:, BEGIN] = at + HEADER_SIZE
    rows[:, END] = at + LOG_OVERHEAD + heads["length"]
    for column, name in _COLUMNS.items():
        rows[:, column] = heads[name]
    return rows


_CODECS = tuple(Codec)


class Group:
    """Batches, or older entries, of `view`, in the order of their offsets."""

    __slots__ = ("_decompressed", "_places", "entries", "legacy", "size_bytes", "view")

    def __init__(self, view: memoryview, decompressed: DecompressedRecords) -> None:
        decompressed.clear()
        self.view = view
        self.entries: list[BatchHead] = []
        self.legacy: LegacyRows | None = None
        """The rows of older entries, if the group is of those."""
        self.size_bytes = 0
        """Of the decompressed records."""
        self._decompressed = decompressed
        self._places: list[ByteRange] = []
        """The places of all entries in the decompressed buffer; empty before the first compressed one."""

    def takes(self, entry: BatchHead) -> bool:
        return not self.entries or (self.legacy is None) is (entry.magic == MAGIC)

    def add_legacy(self, entry: BatchHead, start: int, end: int, max_bytes: int) -> int:
        """Add an older entry and return its first offset.

        Raises `CorruptRecord`, and changes nothing, if its records do not decompress within `max_bytes`.
        """
        legacy = self.legacy or LegacyRows()
        first = legacy.add(LegacyEntry(self.view, entry.position), start, end, max_bytes)
        self.legacy = legacy
        self.size_bytes = legacy.size_bytes
        self.entries.append(entry)
        return first

    def fill(self, entries: Sequence[BatchHead], at: int, size_bytes: int, max_bytes: int) -> None:
        """Add batches from index `at` on, until the group has that size.

        Raises `CorruptRecord` behind the last one whose records decompress within `max_bytes`.
        """
        # Hot loop, thousands a second: attributes are looked up once.
        view, places, unpack, keep = self.view, self._places, self._decompressed.add, self.entries.append
        for entry in islice(entries, at, None):
            at, size, codec = entry[0], entry[2], entry[6] & CODEC_MASK
            begin, end = at + HEADER_SIZE, at + LOG_OVERHEAD + size
            if codec or places:
                if len(places) < len(self.entries):
                    self._copy_plain()
                place = unpack(_CODECS[codec], view[begin:end], max_bytes)
                places.append(place)
                begin, end = place
            keep(entry)
            self.size_bytes += end - begin
            if self.size_bytes >= size_bytes:
                return

    def add_plain(self, entries: Sequence[BatchHead]) -> None:
        """Add uncompressed batches that follow each other in the buffer."""
        self.entries += entries
        if self._places:
            self._copy_plain()
        self.size_bytes += entries[-1].end - entries[0].position

    def chunk(self, start: int, end: int) -> Chunk:
        """Return all batches as a chunk, for rows from `start` up to `end`."""
        batches = batch_columns(self.view, self.entries)
        if not self._places:
            return Chunk(self.view, batches, start, end)
        batches[:, [BEGIN, END]] = self._places
        return Chunk(self._decompressed.view, batches, start, end)

    def _copy_plain(self) -> None:
        """Copy the uncompressed entries that are not copied yet."""
        for entry in self.entries[len(self._places) :]:
            records = self.view[entry.position + HEADER_SIZE : entry.end]
            self._places.append(self._decompressed.add(Codec.NONE, records, len(records)))
