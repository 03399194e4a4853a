"""SegmentFile: a log file opened for reading; SegmentWindow: the part of it that a scan has in memory."""

from __future__ import annotations

import errno
import os
import stat
import time
import zlib
from typing import TYPE_CHECKING

from kcli.protocol.records.batch_header import CRC_START, MAGIC_POSITION, crc32c

if TYPE_CHECKING:
    from types import TracebackType

    from kcli.protocol.records.batch_header import Checksum


LONG_BYTES = 32 * 1024 * 1024
"""A log of this size or more is long: several processes read it, behind a progress bar."""
CHUNK_BYTES = 1024 * 1024
_ZEROS = bytes(CHUNK_BYTES)
_PAUSE_SECONDS = 0.005
_RECENT_SECONDS = 0.1
"""How long after its last change a file may still be in the middle of one."""


class SegmentFile:
    """The file at `path` up to `end`, by default its size when it is opened. Raises `OSError`.

    A broker may append to the file, or cut it; then less can be read than `end` says.
    """

    __slots__ = ("_seen", "descriptor", "end", "path")

    def __init__(self, path: str, end: int | None = None) -> None:
        self.path = path
        # Opening a pipe must not wait for its other end. Regular files ignore the flag.
        self.descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        status = os.fstat(self.descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            raise OSError(errno.EINVAL, "not a regular file", path)
        self._seen = status.st_size, status.st_mtime_ns
        self.end = status.st_size if end is None else min(end, status.st_size)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def __enter__(self) -> SegmentFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    def has_changed(self) -> int | None:
        """Return the size if the file has changed since it was opened, or since the last call; else None."""
        status = os.fstat(self.descriptor)
        seen = status.st_size, status.st_mtime_ns
        if seen == self._seen:
            return None
        self._seen = seen
        return status.st_size

    @property
    def changed_at(self) -> float:
        """The modification time that was seen last, in seconds of the wall clock."""
        return self._seen[1] / 1e9

    def size_after_a_pause(self) -> int | None:
        """Wait for a file that was changed just now; return its size if it changes again, else None."""
        for _ in range(int(_RECENT_SECONDS / _PAUSE_SECONDS)):
            time.sleep(_PAUSE_SECONDS)
            size = self.has_changed()
            if size is not None or not 0 <= time.time() - self.changed_at < _RECENT_SECONDS:
                return size
        return None

    def read(self, position: int, count: int, end: int | None = None) -> bytes:
        """Return up to `count` bytes, never past the end."""
        limit = self.end if end is None else end
        return os.pread(self.descriptor, max(min(count, limit - position), 0), position)

    def crc32c(self, start: int, stop: int) -> int | None:
        """Return the CRC-32C of a stretch of any length, None if the file ends before `stop`."""
        return self._checksum(crc32c, start, stop, 0)

    def entry_crc(self, position: int, size: int, magic: int) -> int | None:
        """Compute the checksum of an entry of that size and magic, None if bytes are missing.

        Magic 0 and 1 are covered by it: this one takes the place of the byte in the file.
        """
        if magic == 2:
            return self.crc32c(position + CRC_START, position + size)
        start, value = position + MAGIC_POSITION + 1, zlib.crc32(bytes((magic,)))
        return self._checksum(zlib.crc32, start, position + size, value)

    def _checksum(self, function: Checksum, start: int, stop: int, value: int) -> int | None:
        while start < stop:
            data = os.pread(self.descriptor, min(CHUNK_BYTES, stop - start), start)
            if not data:
                return None
            value = function(data, value)
            start += len(data)
        return value

    def zeros_from(self, position: int) -> int:
        """Return the length of the run of zeros that begins at a position."""
        start = position
        while position < self.end:
            data = self.read(position, CHUNK_BYTES)
            if not data:
                break
            if data == _ZEROS[: len(data)]:
                position += len(data)
                continue
            return position - start + len(data) - len(data.lstrip(b"\0"))
        return position - start

    def zeros_before(self, position: int, low: int) -> int:
        """Return the length of the run of zeros that ends at a position and begins at `low` or later."""
        stop = position
        while position > low:
            start = max(position - CHUNK_BYTES, low)
            data = self.read(start, position - start, position)
            if data == _ZEROS[: len(data)] and data:
                position = start
                continue
            return stop - position + len(data) - len(data.rstrip(b"\0"))
        return stop - position


WINDOW_BYTES = 2 * 1024 * 1024
_SPARE_BYTES = 64
"""How much is read behind a large entry: the header of the next one."""


class SegmentWindow:
    """The first `limit` bytes of `buffer` are those of the file from `origin` on; `find` moves the window.

    It fits a processor's cache, where a checksum finds the bytes just read, and holds many batches, which are
    decoded together. Measured, that gains more than reading ahead in a second thread: the interpreter makes
    that one wait.
    """

    __slots__ = ("_file", "buffer", "limit", "origin", "view")

    def __init__(self, file: SegmentFile) -> None:
        self._file = file
        self.buffer = bytearray(min(WINDOW_BYTES, file.end))
        self.view = memoryview(self.buffer)
        self.origin = 0
        self.limit = 0

    def find(self, position: int, count: int) -> int:
        """Return where these bytes are in the buffer, -1 if the file lacks them. Raises `OSError`."""
        at = position - self.origin
        if at >= 0 and at + count <= self.limit:
            return at
        wanted = WINDOW_BYTES if count <= WINDOW_BYTES else count + _SPARE_BYTES
        wanted = min(wanted, self._file.end - position)
        kept = max(self.limit - at, 0) if at >= 0 else 0
        source = self.view[at : at + kept]
        if wanted > len(self.buffer):
            self.buffer = bytearray(wanted)
            self.view = memoryview(self.buffer)
        self.view[:kept] = source
        self.origin, self.limit = position, kept
        while self.limit < wanted:
            got = os.preadv(self._file.descriptor, [self.view[self.limit : wanted]], position + self.limit)
            if not got:
                break
            self.limit += got
        return 0 if self.limit >= count else -1
