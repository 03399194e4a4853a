"""TransactionIndex: the transactions aborted by a marker in this segment.

The first of them creates the file. 34 bytes an entry, big-endian:

| at | size | field |
|---|---|---|
| 0 | 2 | version, 0 |
| 2 | 8 | producer id |
| 10 | 8 | first offset of the transaction |
| 18 | 8 | last offset: that of the abort marker |
| 26 | 8 | last stable offset when the marker was written |

Last offsets increase strictly (Kafka classes `TransactionIndex` and `AbortedTxn`).
"""

from __future__ import annotations

import os
from struct import Struct
from typing import NamedTuple

from kcli.storage.index.index_file import CorruptIndex, SegmentIndex

_ENTRY = Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size

VERSION = 0


class AbortedTransaction(NamedTuple):
    """One aborted transaction; consumers that read committed data skip its records."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def unpack_entry(data: bytes, position: int) -> tuple[int, AbortedTransaction]:
    """Return version and fields of the entry at a position, unchecked."""
    version, *fields = _ENTRY.unpack_from(data, position)
    return version, AbortedTransaction(*fields)


class TransactionIndex(SegmentIndex):
    """The aborted transactions of one segment."""

    __slots__ = ("_entries", "_is_loaded")

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset, ENTRY_SIZE)
        self._entries: list[AbortedTransaction] = []
        self._is_loaded = False

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[AbortedTransaction]:
        return list(self._entries)

    def load_once(self) -> None:
        """Read the file if it exists, the first time. Raises `CorruptIndex` and `OSError`."""
        if not self._is_loaded:
            self.load()

    def load(self) -> None:
        """Read the file if it exists. Raises `CorruptIndex` and `OSError`."""
        if not os.path.exists(self.path):
            self._is_loaded = True
            return
        self._entries = []
        previous = self.base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(self._file.load()):
            entry = AbortedTransaction(*fields)
            if version != VERSION or entry.last_offset <= previous:
                raise CorruptIndex(f"an impossible entry: {entry}: `{self.path}`")
            previous = entry.last_offset
            self._entries.append(entry)
        self._is_loaded = True

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry and write it to the file. Raises `OSError`."""
        if self._entries and entry.last_offset <= self._entries[-1].last_offset:
            raise ValueError(f"aborted transactions out of order: {entry} after {self._entries[-1]}")
        self._file.append(_ENTRY.pack(VERSION, *entry))
        self._entries.append(entry)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that touch [fetch_offset, upper_bound), and whether these are all.

        If not, the next segment may hold markers of more.
        """
        found = []
        for entry in self._entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker is at or above an offset. Raises `OSError`."""
        keep = next((slot for slot, e in enumerate(self._entries) if e.last_offset >= offset), None)
        if keep is not None:
            del self._entries[keep:]
            self._file.cut(keep)

    def reset(self) -> None:
        """Drop all entries before a rebuild. Raises `OSError`."""
        self._entries.clear()
        self._is_loaded = True
        self._file.entries = 0
        self._file.cut(0)
