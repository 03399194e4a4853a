"""Pieces: items to write, one behind the other, cut so that what is taken whole ends with an item.

A pipe takes up to `PIECE_BYTES` whole or not at all. As many items as fit make a piece, so that nobody ever
sees a part of one; only an item that is longer takes several pieces, and is torn in between.
"""

from __future__ import annotations

import select
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

PIECE_BYTES = select.PIPE_BUF
"""What a pipe that has room takes without waiting, and in one go: 4096 on Linux."""


class Pieces:
    """What there is to write; `written` says how many bytes of it are out, and is for the writer to raise."""

    __slots__ = ("_data", "_ends", "written")

    def __init__(self, items: Sequence[bytes]) -> None:
        self._data = memoryview(b"".join(items))
        self._ends = list(accumulate(map(len, items)))
        self.written = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to write."""
        return not self._ends or self.written >= self._ends[-1]

    @property
    def whole_items(self) -> int:
        """How many items are out."""
        return bisect_right(self._ends, self.written)

    @property
    def is_torn(self) -> bool:
        """Whether what is out ends within an item."""
        whole = self.whole_items
        return self.written > (self._ends[whole - 1] if whole else 0)

    def piece(self) -> memoryview:
        """Return what to write next: whole items, or a part of one that is longer than a piece."""
        most = self.written + PIECE_BYTES
        whole = bisect_right(self._ends, most)
        end = self._ends[whole - 1] if whole else 0
        return self._data[self.written : end if end > self.written else min(most, self._ends[-1])]

    def end_with_item(self) -> None:
        """Leave out all that has not begun."""
        whole = self.whole_items
        if self.is_torn:
            whole = bisect_right(self._ends, self._ends[whole])
        del self._ends[whole:]
