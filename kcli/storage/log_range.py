"""Reading a log by ranges at the same time: where the batches of a stretch of it begin, and whether they fit.

A range holds the batches that begin in a stretch of a file. Its first one is found by its looks and its
checksum, and may in truth be inside of a record. So a range counts only if it begins exactly where the one
before it ended: then all beginnings follow from that of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.storage.batch_run import MAX_RELATIVE_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.segment_file import SegmentFile


class RangeStart(NamedTuple):
    """Where the first batch begins, its offset, how many offsets it has, and the one behind it, if one is."""

    position: int
    offset: int
    span: int
    following: int | None

    def follows_on(self, position: int, expected: int) -> bool:
        """Whether it comes where it should; of its offset see `BatchReader.is_out_of_line`."""
        if self.position != position or self.offset < expected:
            return False
        return self.offset == expected or not self.span or self.following != expected + self.span


def stretches(size: int, most: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield where ranges for so many readers begin and end, `most` bytes or fewer.

    The last are small, so that no reader waits long for another.
    """
    start = 0
    while start < size:
        each = min(most, max((size - start) // (2 * count), most // 8))
        yield start, min(start + each, size)
        start += each


def begin_of(segment: SegmentFile, base_offset: int, start: int, end: int) -> int:
    """Return where the first batch of a stretch begins, its end if there is none. Raises `OSError`."""
    if not start:
        return 0
    from kcli.storage.entry_search import EntrySearch

    search = EntrySearch(segment, base_offset + MAX_RELATIVE_OFFSET)
    found = search.next_entry(start, base_offset, end)
    return end if found is None else found.position
