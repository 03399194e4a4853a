"""LogSegments: the segments of one log in the order of their base offsets; the last one is active."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.log_segment import LogSegment


class LogSegments:
    """A sorted list, since segments are few and found by offset all the time."""

    __slots__ = ("_base_offsets", "_segments", "active")

    active: LogSegment
    """The last segment, the only one written. Not set while there is no segment."""

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __contains__(self, base_offset: int) -> bool:
        slot = bisect_left(self._base_offsets, base_offset)
        return slot < len(self._base_offsets) and self._base_offsets[slot] == base_offset

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of all segments, ascending."""
        return list(self._base_offsets)

    @property
    def size_bytes(self) -> int:
        """Bytes of records in all segments."""
        return sum([segment.records.size for segment in self._segments])

    def add(self, segment: LogSegment) -> None:
        """Add a segment, in the place of one with the same base offset if there is one."""
        slot = bisect_left(self._base_offsets, segment.base_offset)
        if segment.base_offset in self:
            self._segments[slot] = segment
        else:
            self._base_offsets.insert(slot, segment.base_offset)
            self._segments.insert(slot, segment)
        self.active = self._segments[-1]

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out."""
        slot = self._segments.index(segment)
        del self._segments[slot], self._base_offsets[slot]
        if self._segments:
            self.active = self._segments[-1]

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment that begins at or below `offset`."""
        if self._base_offsets and offset >= self._base_offsets[-1]:
            return self.active
        slot = bisect_right(self._base_offsets, offset)
        return self._segments[slot - 1] if slot else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """Return the first segment that begins above `base_offset`."""
        slot = bisect_right(self._base_offsets, base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def between(self, start: int, end: int) -> list[LogSegment]:
        """Return the segments that may hold offsets of [start, end)."""
        low = max(bisect_right(self._base_offsets, start) - 1, 0)
        return self._segments[low : max(bisect_left(self._base_offsets, end), low)]

    def above(self, offset: int) -> list[LogSegment]:
        """Return the segments that begin above `offset`."""
        return self._segments[bisect_right(self._base_offsets, offset) :]
