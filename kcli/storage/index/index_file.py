"""IndexFile: the file of an index, entries of one size; SegmentIndex: the base of a segment's indexes.

An index lives in memory; its file lacks the entries not yet written. Kafka maps a preallocated file instead
and cuts it when the segment closes, so a crash of Kafka leaves a tail of zeros that is not part of the index.
kcli writes only the entries, so after a clean stop both leave the same bytes.
"""

from __future__ import annotations

import os
from contextlib import suppress

from kcli.errors import KcliError
from kcli.storage import disk


class CorruptIndex(KcliError):
    """An index file that cannot belong to its segment, which rebuilds it."""


class IndexFile:
    """`entries` entries of `entry_size` bytes at `path`; the first write creates the file."""

    __slots__ = ("entries", "entry_size", "path")

    def __init__(self, path: str, entry_size: int) -> None:
        self.path = path
        self.entry_size = entry_size
        self.entries = 0

    def create(self) -> None:
        """Create an empty file, or empty the one that exists. Raises `OSError`."""
        os.close(disk.open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        self.entries = 0

    def load(self) -> bytes:
        """Return the entries on disk, without a tail of zeros. Raises `CorruptIndex` and `OSError`.

        An entry that only ends with zeros comes back whole.
        """
        data = disk.read_file(self.path)
        if len(data) % self.entry_size:
            raise CorruptIndex(f"{len(data)} bytes, not a multiple of {self.entry_size}: `{self.path}`")
        self.entries = -(-len(data.rstrip(b"\0")) // self.entry_size)
        return data[: self.entries * self.entry_size]

    def append(self, data: bytes) -> None:
        """Write whole entries behind those on disk. Raises `OSError`."""
        descriptor = disk.open_file(self.path, os.O_WRONLY | os.O_CREAT)
        try:
            disk.write_fully(descriptor, data, self.entries * self.entry_size)
        finally:
            os.close(descriptor)
        self.entries += len(data) // self.entry_size

    def cut(self, entries: int) -> None:
        """Keep at most the first `entries` entries, and nothing behind them. Raises `OSError`."""
        if os.path.exists(self.path):
            keep = min(self.entries, entries)
            if os.path.getsize(self.path) != keep * self.entry_size:
                os.truncate(self.path, keep * self.entry_size)
        self.entries = min(self.entries, entries)


class SegmentIndex:
    """An index of the segment at `base_offset`, in memory, with its file behind it."""

    __slots__ = ("_file", "base_offset")

    def __init__(self, path: str, base_offset: int, entry_size: int) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(path, entry_size)

    @property
    def path(self) -> str:
        return self._file.path

    def sync(self) -> None:
        """Sync the entries written so far. Raises `OSError`."""
        with suppress(FileNotFoundError):
            disk.sync_path(self.path)

    def renamed(self, path: str) -> None:
        self._file.path = path
