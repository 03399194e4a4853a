"""TimeIndex: roughly up to where in a segment all timestamps are below a given one.

An entry (timestamp, offset) says that no record at or before the offset has a larger timestamp. An append
adds one together with an offset index entry if the segment's largest timestamp has grown since; closing the
segment adds the last one, for which a slot is reserved. 12 bytes, big-endian:

| at | size | field |
|---|---|---|
| 0 | 8 | timestamp, ms |
| 8 | 4 | offset, less the segment's base offset |

Timestamps increase strictly (Kafka class `TimeIndex`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from struct import Struct

from kcli.storage.index.index_file import CorruptIndex, SegmentIndex

_ENTRY = Struct(">qi")
ENTRY_SIZE = _ENTRY.size

NO_TIMESTAMP = -1


class TimeIndex(SegmentIndex):
    __slots__ = ("_offsets", "_timestamps", "max_entries")

    def __init__(self, path: str, base_offset: int, max_size_bytes: int) -> None:
        super().__init__(path, base_offset, ENTRY_SIZE)
        self.max_entries = max_size_bytes // ENTRY_SIZE
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def is_full(self) -> bool:
        """Whether only the reserved slot is free."""
        return len(self._timestamps) >= self.max_entries - 1

    @property
    def last_entry(self) -> tuple[int, int]:
        """The last (timestamp, offset), (-1, base offset) without one."""
        if not self._timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def entries(self) -> list[tuple[int, int]]:
        """Return all (timestamp, offset) pairs."""
        return [
            (timestamp, self.base_offset + offset)
            for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)
        ]

    def create(self) -> None:
        """Start empty, with an empty file. Raises `OSError`."""
        self._file.create()
        del self._timestamps[:], self._offsets[:]

    def load(self) -> None:
        """Read the file. Raises `CorruptIndex` when the entries do not increase, and `OSError`."""
        pairs = list(_ENTRY.iter_unpack(self._file.load()))
        self._timestamps = array("q", [timestamp for timestamp, _ in pairs])
        self._offsets = array("i", [offset for _, offset in pairs])
        if not all(map(lt, self._timestamps, islice(self._timestamps, 1, None))):
            raise CorruptIndex(f"the timestamps do not increase: `{self.path}`")
        if not all(map(le, self._offsets, islice(self._offsets, 1, None))):
            raise CorruptIndex(f"the offsets do not increase: `{self.path}`")
        if self._offsets and self._offsets[0] < 0:
            raise CorruptIndex(f"an offset below the segment's: `{self.path}`")

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp exceeds that of the last one."""
        if timestamp > (self._timestamps[-1] if self._timestamps else NO_TIMESTAMP):
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry at or below a timestamp, (-1, base offset) without one."""
        slot = bisect_right(self._timestamps, timestamp)
        if not slot:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[slot - 1], self.base_offset + self._offsets[slot - 1]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above an offset, on disk too. Raises `OSError`."""
        slot = bisect_left(self._offsets, offset - self.base_offset)
        del self._timestamps[slot:], self._offsets[slot:]
        self._file.cut(slot)

    def write(self) -> None:
        """Write the entries that the file lacks. Raises `OSError`."""
        start = self._file.entries
        if start == len(self._timestamps):
            return
        pairs = zip(self._timestamps[start:], self._offsets[start:], strict=True)
        self._file.append(b"".join([_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs]))

    def finish(self) -> None:
        """Write all entries and cut the file behind them, as for a closed segment. Raises `OSError`."""
        self.write()
        self._file.cut(len(self._timestamps))
