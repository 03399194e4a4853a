"""FileRecords: the `.log` file of a segment: batches and older entries, back to back.

Every entry begins with an int64 offset and the int32 size of the bytes from byte 12 on, and has its format
(magic) at byte 16; walking and searching need no more. For magic 0 and 1 the offset is that of the last
record inside; for magic 2 it is the first, and an int32 at byte 23 is the delta to the last.

The first use opens the file. Its descriptor belongs to an `OpenFile`, shared by this object and every
`FileSlice`, and closes with the last of them: a slice stays readable after the segment rolled, was renamed or
deleted. Only a truncation below it can cut a slice short.
"""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import LOG_OVERHEAD, MIN_LENGTHS
from kcli.storage import disk
from kcli.storage.index.index_file import CorruptIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer

_LAST_OFFSET_DELTA = Struct(">i")
_ENTRY_HEAD = Struct(">qiib")
_ENTRY_HEAD_SIZE = _ENTRY_HEAD.size
_BATCH_HEAD = Struct(">qi4xb6xi")
_BATCH_HEAD_SIZE = _BATCH_HEAD.size
_MIN_HEADER_SIZE = 27
"""Up to and with the last offset delta of a batch; a whole entry has at least 26 bytes."""

_STAMP_SIZE = 16
"""The first bytes of a batch hold what the leader writes into it: base offset and leader epoch."""

SEARCH_BYTES = 8192
"""The read size of a search for an entry."""
_SCAN_BYTES = 1024 * 1024


class EntryPosition(NamedTuple):
    """The first byte of a batch or older entry, its size with the head, and its offsets.

    For magic 0 and 1 `base_offset` equals `last_offset`: the first one takes a decompression.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int


class OpenFile:
    """A file descriptor that closes with the last reference to this object."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str, flags: int = os.O_RDWR) -> None:
        self.descriptor = disk.open_file(path, flags)

    def __del__(self) -> None:
        # An `open` that failed leaves no descriptor behind.
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class WriteAhead:
    """Entries that any thread writes behind the end of a file, before they are appended.

    Nothing reads past the end; `FileRecords.append` then only moves it. Allow one at a time per file, and no
    other append until then. Call `undo` if they were not appended.
    """

    __slots__ = ("_data", "_file", "_position", "_stamp", "served")

    def __init__(self, file: OpenFile, position: int, data: Buffer) -> None:
        self._file = file
        self._position = position
        self._data = data
        self._stamp = bytes(data[:_STAMP_SIZE])
        self.served = False
        """Whether entries were appended at that place, so that nothing is left to undo."""

    def run(self) -> None:
        """Write the entries. After an `OSError` nothing of them is left."""
        write_at(self._file.descriptor, self._data, self._position)

    def serves(self, file: OpenFile | None, position: int, data: Buffer) -> bool:
        """Whether an append of `data` at `position` finds the same entries written there.

        They differ if they got another offset or leader epoch since. An append at that place ends the chance
        to undo.
        """
        self.served = file is self._file and position == self._position
        return self.served and bytes(data[:_STAMP_SIZE]) == self._stamp

    def undo(self) -> None:
        """Cut off the entries. Raises `OSError`."""
        os.ftruncate(self._file.descriptor, self._position)


def write_at(descriptor: int, data: Buffer, position: int) -> None:
    """Write all of `data`. After an `OSError` the file ends at `position`."""
    length = len(data)
    try:
        written = disk.pwrite(descriptor, data, position)
        if written != length:
            with memoryview(data) as view:
                while written < length:
                    written += disk.pwrite(descriptor, view[written:], position + written)
    except OSError:
        os.ftruncate(descriptor, position)
        raise


class FileSlice:
    """`size` bytes of a log file from `position` on, for `os.sendfile(…, slice.fileno(), …)`."""

    __slots__ = ("_file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self._file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        """Return the descriptor; it stays open as long as this slice exists."""
        return self._file.descriptor

    def read_into(self, buffer: memoryview) -> int:
        """Read the bytes into a buffer with room for them; return their count. Raises `OSError`."""
        return os.preadv(self._file.descriptor, [buffer[: self.size]], self.position)

    def read(self) -> bytes:
        """Return the bytes; fewer if the file was truncated below them. Raises `OSError`."""
        data = os.pread(self._file.descriptor, self.size, self.position)
        if len(data) == self.size or not data:
            return data
        parts, count = [data], len(data)
        while count < self.size and data:
            data = os.pread(self._file.descriptor, self.size - count, self.position + count)
            parts.append(data)
            count += len(data)
        return b"".join(parts)


class FileRecords:
    """The log file at `path`; `size` is the end of its last whole entry."""

    __slots__ = ("file", "path", "size")

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self.file: OpenFile | None = None
        """The open file; `handle` opens it."""

    @classmethod
    def open(cls, path: str) -> FileRecords:
        """Return the records of an existing file. Raises `OSError`."""
        return cls(path, os.path.getsize(path))

    @classmethod
    def create(cls, path: str, *, preallocate_bytes: int = 0) -> FileRecords:
        """Create an empty file, `preallocate_bytes` long on disk until `trim`. Raises `OSError`."""
        records = cls(path, 0)
        records.file = OpenFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if preallocate_bytes:
            os.ftruncate(records.file.descriptor, preallocate_bytes)
        return records

    @property
    def handle(self) -> OpenFile:
        """The open file. Raises `OSError`."""
        if self.file is None:
            self.file = OpenFile(self.path)
        return self.file

    def append(self, data: Buffer, written: WriteAhead | None = None) -> None:
        """Write whole entries at the end, unless `written` did. After an `OSError` none of them is left."""
        position, length = self.size, len(data)
        if written is None or not written.serves(self.file, position, data):
            write_at((self.file or self.handle).descriptor, data, position)
        self.size = position + length

    def write_ahead(self, data: Buffer) -> WriteAhead:
        """Return the write of `data` at the end. Raises `OSError`."""
        return WriteAhead(self.file or self.handle, self.size, data)

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes, never past `size`. Raises `OSError`."""
        return os.pread(self.handle.descriptor, max(min(count, self.size - position), 0), position)

    def slice(self, position: int, size: int) -> FileSlice:
        """Return a slice of `size` bytes that exist."""
        return FileSlice(self.file or self.handle, position, size)

    def entries(self, position: int = 0, end: int | None = None) -> Iterator[EntryPosition]:
        """Yield the entries from the one at `position` on, reading heads only.

        Stops before an entry that reaches past `end` (default: the whole file). Raises `CorruptRecord` at an
        impossible size or magic, and `OSError`.
        """
        limit = self.size if end is None else min(end, self.size)
        chunk, chunk_start = b"", position
        while position + _ENTRY_HEAD_SIZE <= limit:
            at = position - chunk_start
            if at + _MIN_HEADER_SIZE > len(chunk):
                chunk, chunk_start, at = self.read(position, SEARCH_BYTES), position, 0
                if len(chunk) < _ENTRY_HEAD_SIZE:
                    return
            entry = parse_entry(chunk, at, position)
            if position + entry.size > limit:
                return
            yield entry
            position += entry.size

    def batch_at(self, position: int, offset: int, *, last_offset: int) -> EntryPosition | None:
        """Return the batch at a position if it holds `offset` and ends with `last_offset`, else None.

        Raises `OSError`.
        """
        head = self.read(position, _BATCH_HEAD_SIZE)
        if len(head) == _BATCH_HEAD_SIZE:
            base_offset, length, magic, last_offset_delta = _BATCH_HEAD.unpack(head)
            size = LOG_OVERHEAD + length
            if (
                magic == 2
                and length >= MIN_LENGTHS[2]
                and base_offset <= offset <= base_offset + last_offset_delta == last_offset
                and position + size <= self.size
            ):
                return EntryPosition(position, size, base_offset, last_offset)
        return None

    def search(
        self, target: int, position: int, bounds: tuple[int, int] | None = None
    ) -> EntryPosition | None:
        """Return the first entry, from the one at `position` on, whose last offset is `target` or above.

        None without one. `bounds` are the lowest first and the highest last offset of the entry at
        `position`, according to an index. Raises `CorruptIndex` if the entry violates them, `CorruptRecord`
        and `OSError`.
        """
        unpack, file_size = _BATCH_HEAD.unpack_from, self.size
        is_batch = True
        # Batches, nearly all entries, are walked inline.
        while is_batch and position + _BATCH_HEAD_SIZE <= file_size:
            chunk = self.read(position, SEARCH_BYTES)
            at, end = 0, len(chunk)
            while at + _BATCH_HEAD_SIZE <= end:
                base_offset, length, magic, last_offset_delta = unpack(chunk, at)
                if magic != 2 or length < MIN_LENGTHS[2]:
                    is_batch = False
                    break
                size, last_offset = LOG_OVERHEAD + length, base_offset + last_offset_delta
                if bounds is not None:
                    _check_bounds(position + size <= file_size, base_offset, last_offset, bounds)
                    bounds = None
                if last_offset >= target:
                    if position + at + size > file_size:
                        return None
                    return EntryPosition(position + at, size, base_offset, last_offset)
                at += size
            if not at:
                break
            position += at
        if bounds is not None:
            self._check_entry(position, bounds)
        for entry in self.entries(position):
            if entry.last_offset >= target:
                return entry
        return None

    def _check_entry(self, position: int, bounds: tuple[int, int]) -> None:
        """Raise `CorruptIndex` unless an entry with offsets within bounds begins at a position."""
        try:
            entry = next(self.entries(position), None)
        except CorruptRecord:
            entry = None
        if entry is None:
            _check_bounds(False, 0, 0, bounds)
        else:
            _check_bounds(True, entry.base_offset, entry.last_offset, bounds)

    def scan(
        self, position: int = 0, end: int | None = None, *, run_bytes: int = _SCAN_BYTES
    ) -> Iterator[tuple[int, bytes]]:
        """Yield runs of whole entries, about `run_bytes` each, as (position, bytes).

        Stops before an entry that reaches past `end` (default: the whole file). Raises `CorruptRecord` at an
        impossible size or magic, after the entries before it, and `OSError`.
        """
        limit = self.size if end is None else min(end, self.size)
        while position + _ENTRY_HEAD_SIZE <= limit:
            run = self.read(position, min(run_bytes, limit - position))
            if len(run) < _ENTRY_HEAD_SIZE:
                return
            size = parse_entry(run, 0, position).size
            if position + size > limit:
                return
            if size > len(run):
                run = self.read(position, size)
            else:
                size = _whole_entries(run)
            yield position, run[:size]
            position += size

    def truncate_to(self, size: int) -> int:
        """Cut the file to `size` bytes; return how many were cut. Raises `OSError`."""
        if not 0 <= size <= self.size:
            raise ValueError(f"cannot truncate {self.size} bytes to {size}: `{self.path}`")
        cut = self.size - size
        if cut:
            os.ftruncate(self.handle.descriptor, size)
            self.size = size
        return cut

    def trim(self) -> None:
        """Cut off the preallocated bytes behind the last entry. Raises `OSError`."""
        if os.path.getsize(self.path) != self.size:
            os.ftruncate(self.handle.descriptor, self.size)

    def renamed(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        """Release the descriptor; slices keep theirs. The next use opens the file again."""
        self.file = None


class ReadOnlyRecords(FileRecords):
    """The log file of a segment for a user who may only read it."""

    __slots__ = ()

    @property
    def handle(self) -> OpenFile:
        if self.file is None:
            self.file = OpenFile(self.path, os.O_RDONLY)
        return self.file


def _check_bounds(is_whole: bool, base_offset: int, last_offset: int, bounds: tuple[int, int]) -> None:
    """Raise `CorruptIndex` unless the entry that an index points to is whole, with offsets within bounds."""
    low, high = bounds
    if not is_whole or not low <= base_offset <= last_offset <= high:
        raise CorruptIndex(f"the index puts offset {high} where no batch ends with it")


def _whole_entries(run: bytes) -> int:
    """Return how many bytes at the start of a run are whole, possible entries."""
    at, end = 0, len(run)
    while at + _ENTRY_HEAD_SIZE <= end:
        _, length, _, magic = _ENTRY_HEAD.unpack_from(run, at)
        if not 0 <= magic < len(MIN_LENGTHS) or length < MIN_LENGTHS[magic]:
            break
        if at + LOG_OVERHEAD + length > end:
            break
        at += LOG_OVERHEAD + length
    return at


def parse_entry(buffer: Buffer, at: int, position: int) -> EntryPosition:
    """Return position, size and offsets of the entry with its head at `buffer[at]` and first byte `position`.

    With fewer than 27 bytes of a batch, its last offset equals the first. Raises `CorruptRecord` for an
    impossible size or magic.
    """
    offset, size, _, magic = _ENTRY_HEAD.unpack_from(buffer, at)
    if not 0 <= magic < len(MIN_LENGTHS):
        raise CorruptRecord(f"unknown magic {magic} at position {position}")
    if size < MIN_LENGTHS[magic]:
        raise CorruptRecord(f"an entry of {size} bytes is too small for magic {magic} at position {position}")
    last_offset = offset
    if magic == 2 and at + _MIN_HEADER_SIZE <= len(buffer):
        last_offset += _LAST_OFFSET_DELTA.unpack_from(buffer, at + 23)[0]
    return EntryPosition(position, LOG_OVERHEAD + size, offset, last_offset)
