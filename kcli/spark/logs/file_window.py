"""FileWindow: the part of a log file that is read at the moment, in a buffer that is used again and again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.forensics.entries.segment_file import SegmentFile

WINDOW_BYTES = 8 * 1024 * 1024
"""More is no faster; an entry that is larger gets a larger buffer, a short file a small one."""


class FileWindow:
    """The first `stop` bytes of `buffer` are those of the file from `position` on."""

    __slots__ = ("_file", "_view", "_window_bytes", "buffer", "position", "stop")

    def __init__(self, window_bytes: int = WINDOW_BYTES) -> None:
        self._window_bytes = window_bytes
        self.buffer = bytearray()
        self._view = memoryview(self.buffer)
        self._file: SegmentFile | None = None
        self.position = 0
        self.stop = 0

    @property
    def end(self) -> int:
        """Where in the file the window ends."""
        return self.position + self.stop

    def open(self, file: SegmentFile, position: int) -> None:
        """Turn to a place in a file, nothing of which has been read."""
        self._file = file
        self.position, self.stop = position, 0

    def move(self, position: int, needed: int) -> None:
        """Let the window begin at a position and read on, so that `needed` bytes fit, up to the file's end.

        What of it was read before is kept. Raises `OSError`.
        """
        file = self._file
        assert file is not None
        at = position - self.position
        kept = self._view[at : self.stop] if 0 <= at <= self.stop else self._view[:0]
        count = len(kept)
        needed = max(needed, min(self._window_bytes, file.end - position))
        if needed > len(self.buffer):
            larger = bytearray(needed)
            larger[:count] = kept
            self.buffer, self._view = larger, memoryview(larger)
        else:
            self._view[:count] = kept
        self.position, self.stop = position, count
        wanted = min(len(self.buffer), file.end - position)
        while self.stop < wanted:
            got = os.preadv(file.descriptor, [self._view[self.stop : wanted]], self.end)
            if not got:
                file.end = self.end  # the file was cut
                return
            self.stop += got
