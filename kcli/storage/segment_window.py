"""SegmentWindow: the part of a log file that a scan is at, in memory.

It is small enough for a processor's caches, where a checksum finds what was just read, and large enough to
hold many batches, which are looked at together. Measured, that is worth more than reading ahead in a second
thread, which the interpreter makes wait for the first one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.storage.segment_file import SegmentFile

WINDOW_BYTES = 2 * 1024 * 1024
_SPARE_BYTES = 64
"""What is read behind a large entry: the header of the next one."""


class SegmentWindow:
    """The first `limit` bytes of `buffer` are those of the file from `origin` on; `find` moves the window."""

    __slots__ = ("_file", "buffer", "limit", "origin", "view")

    def __init__(self, file: SegmentFile) -> None:
        self._file = file
        self.buffer = bytearray(min(WINDOW_BYTES, file.end))
        self.view = memoryview(self.buffer)
        self.origin = 0
        self.limit = 0

    def find(self, position: int, count: int) -> int:
        """Return where in the buffer `count` bytes from a position on are, -1 if the file lacks them.

        Raises `OSError`.
        """
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
