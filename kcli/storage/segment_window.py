"""SegmentWindow: the part of a log file that a scan is at, in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from kcli.storage.segment_file import SegmentFile

WINDOW_BYTES = 1024 * 1024


class SegmentWindow:
    """Up to `limit` bytes of `buffer` hold the file from `start` on; `find` moves it."""

    __slots__ = ("_file", "buffer", "limit", "start", "view")

    def __init__(self, file: SegmentFile) -> None:
        self._file = file
        self.buffer = bytearray(WINDOW_BYTES)
        self.view = memoryview(self.buffer)
        self.start = 0
        self.limit = 0

    def __enter__(self) -> SegmentWindow:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def find(self, position: int, count: int) -> int:
        """Return where in the buffer `count` bytes from a position on are, -1 if the file lacks them."""
        at = position - self.start
        if at >= 0 and at + count <= self.limit:
            return at
        if count > len(self.buffer):
            self.buffer = bytearray(count)
            self.view = memoryview(self.buffer)
        self.start, self.limit = position, 0
        room = min(len(self.buffer), self._file.end - position)
        while self.limit < room:
            got = os.preadv(self._file.descriptor, [self.view[self.limit : room]], position + self.limit)
            if not got:
                break
            self.limit += got
        return 0 if self.limit >= count else -1
