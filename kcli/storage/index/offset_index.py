"""OffsetIndex: roughly where in a segment an offset is.

An append adds an entry when more than `index.interval.bytes` were appended since the last one. 8 bytes,
big-endian:

| at | size | field |
|---|---|---|
| 0 | 4 | last offset of a batch, less the segment's base offset |
| 4 | 4 | position of that batch in the `.log` file |

Both columns increase strictly. Files written before Kafka 4.1 may key an entry by the last offset of several
batches appended together (KAFKA-806); the position is that of the first of them (Kafka class `OffsetIndex`).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt

from kcli.storage.index.index_file import CorruptIndex, SegmentIndex

ENTRY_SIZE = 8

MAX_RELATIVE_OFFSET = 2**31 - 1
"""The farthest offset from its base offset that a segment can hold."""


class OffsetIndex(SegmentIndex):
    __slots__ = ("_offsets", "_positions", "max_entries")

    def __init__(self, path: str, base_offset: int, max_size_bytes: int) -> None:
        super().__init__(path, base_offset, ENTRY_SIZE)
        self.max_entries = max_size_bytes // ENTRY_SIZE
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.max_entries

    @property
    def last_offset(self) -> int:
        """The offset of the last entry, the base offset without one."""
        return self.base_offset + self._offsets[-1] if self._offsets else self.base_offset

    @property
    def last_position(self) -> int:
        """The position of the last entry, 0 without one."""
        return self._positions[-1] if self._positions else 0

    def entries(self) -> list[tuple[int, int]]:
        """Return all (offset, position) pairs."""
        return [
            (self.base_offset + offset, position)
            for offset, position in zip(self._offsets, self._positions, strict=True)
        ]

    def create(self) -> None:
        """Start empty, with an empty file. Raises `OSError`."""
        self._file.create()
        del self._offsets[:], self._positions[:]

    def load(self, log_size: int) -> None:
        """Read the file and check it against a log of `log_size` bytes.

        Raises `CorruptIndex` when the entries do not increase or point past the log, and `OSError`.
        """
        words = array("I", self._file.load())
        if sys.byteorder == "little":
            words.byteswap()
        self._offsets, self._positions = words[0::2], words[1::2]
        for column in (self._offsets, self._positions):
            if not all(map(lt, column, islice(column, 1, None))):
                raise CorruptIndex(f"the entries do not increase: `{self.path}`")
        if self._offsets and self._offsets[-1] > MAX_RELATIVE_OFFSET:
            raise CorruptIndex(f"an offset below the segment's: `{self.path}`")
        if self._positions and self._positions[-1] >= log_size:
            raise CorruptIndex(f"an entry points past the {log_size} bytes of the log: `{self.path}`")

    def append(self, offset: int, position: int) -> None:
        """Add an entry; both values must exceed those of the last one."""
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def lookup(self, target: int) -> tuple[int, int]:
        """Return the last entry at or below `target` as (offset, position), (base offset, 0) without one."""
        slot = bisect_right(self._offsets, target - self.base_offset)
        if not slot:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot - 1], self._positions[slot - 1]

    def lookup_behind_gap(self, target: int, min_gap: int) -> tuple[int, int] | None:
        """Return the first entry at or above `target` if it is `min_gap` bytes or more behind the one before.

        None if it lies nearer or does not exist. The first entry is compared with the segment's start. The
        batch there holds `target`, unless batches without an entry lie between the two.
        """
        positions = self._positions
        slot = bisect_left(self._offsets, target - self.base_offset)
        if slot == len(positions) or positions[slot] - (positions[slot - 1] if slot else 0) < min_gap:
            return None
        return self.base_offset + self._offsets[slot], positions[slot]

    def at_position(self, position: int) -> tuple[int, int]:
        """Return the last entry at or below a file position, (base offset, 0) without one."""
        slot = bisect_right(self._positions, position)
        if not slot:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot - 1], self._positions[slot - 1]

    def upper_bound(self, position: int) -> int | None:
        """Return the offset of the first entry at or past a file position, None without one."""
        slot = bisect_left(self._positions, position)
        return self.base_offset + self._offsets[slot] if slot < len(self._offsets) else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at and above an offset, on disk too. Raises `OSError`."""
        slot = bisect_left(self._offsets, max(offset - self.base_offset, 0))
        del self._offsets[slot:], self._positions[slot:]
        self._file.cut(slot)

    def write(self) -> None:
        """Write the entries that the file lacks. Raises `OSError`."""
        start = self._file.entries
        if start == len(self._offsets):
            return
        words = array("I", bytes(ENTRY_SIZE * (len(self._offsets) - start)))
        words[0::2] = self._offsets[start:]
        words[1::2] = self._positions[start:]
        if sys.byteorder == "little":
            words.byteswap()
        self._file.append(words.tobytes())

    def finish(self) -> None:
        """Write all entries and cut the file behind them, as for a closed segment. Raises `OSError`."""
        self.write()
        self._file.cut(len(self._offsets))
