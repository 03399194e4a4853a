"""Finding the next valid entry after damage.

Entries carry no marker to look for, so a place counts when its header can be one and its checksum is that of
the bytes it claims. The bytes are searched by pattern, blocks of one and the same byte are passed over, and
the bytes that checksums may be taken of are limited to a multiple of those searched: a file of garbage, even
of garbage made to look like headers, takes time in proportion to its size.
"""

from __future__ import annotations

import re
from heapq import merge
from typing import TYPE_CHECKING

from kcli.protocol.record_batch_header import HEADER_SIZE, MAGIC_POSITION
from kcli.storage.entry_head import EntryHead, crc_of, plausible_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.storage.segment_file import SegmentFile

_FIRST_WINDOW_BYTES = 16 * 1024
_WINDOW_BYTES = 1024 * 1024
_BLOCK_BYTES = 4096
_CHECKSUM_FACTOR = 8
_CHECKSUM_ALLOWANCE = 64 * 1024 * 1024

# From the magic on: checksum, attributes, last offset delta, timestamps and producer, record count.
_BATCH = re.compile(rb"\x02.{4}\x00[\x00-\x7f][\x00-\x7f].{33}[\x00-\x7f]", re.DOTALL)
# Not a size below 14, then the checksum; magic, attributes, timestamp, length of the key.
_LEGACY = re.compile(
    rb"(?:\x00[\x00-\x03]|\x01[\x00-\x03\x08-\x0b].{8})(?:\xff{4}|[\x00-\x7f])"
    rb"(?<!\x00\x00\x00[\x00-\x0d].{4}\x00[\x00-\x03][\x00-\x7f])",
    re.DOTALL,
)


class EntrySearch:
    """The search in one file; what may be spent on checksums is counted over all of it."""

    __slots__ = ("_allowance", "_file", "_found", "_highest", "_searched")

    def __init__(self, file: SegmentFile, highest: int) -> None:
        self._file = file
        self._highest = highest
        self._allowance = _CHECKSUM_ALLOWANCE
        # The stretch that was searched last, and what was found at its end: no byte is searched twice.
        self._searched = range(0)
        self._found: EntryHead | None = None

    def next_entry(self, position: int, expected: int, stop: int | None = None) -> EntryHead | None:
        """Return the first valid entry that begins at `position` or later and before `stop`, if there is one.

        `expected` is the offset that the next entry would have. One that begins below it could be a batch
        inside a record, so it counts only if the file goes on or ends behind it. Raises `OSError`.
        """
        stop = self._file.end if stop is None else stop
        if position not in self._searched and (self._found is None or position != self._found.position):
            self._found, self._searched = None, range(position, position)
        if self._found is None and self._searched.stop < stop:
            self._found = self._search(self._searched.stop, stop, expected)
            end = stop if self._found is None else self._found.position
            self._searched = range(self._searched.start, end)
        found = self._found
        return found if found is not None and found.position < stop else None

    def affords(self, size: int) -> bool:
        """Whether a checksum of so many bytes may be taken; if so it counts as taken."""
        if size > self._allowance:
            return False
        self._allowance -= size
        return True

    def earn(self, size: int) -> None:
        """Allow checksums in proportion to bytes of the file that have been dealt with."""
        self._allowance += _CHECKSUM_FACTOR * size

    def _search(self, position: int, stop: int, expected: int) -> EntryHead | None:
        file, window = self._file, _FIRST_WINDOW_BYTES
        while position < stop:
            window = min(window, stop - position)
            data = file.read(position, window + HEADER_SIZE)
            if not data:
                return None
            self.earn(min(len(data), window))
            for low, high in _mixed_stretches(data):
                for at in _candidates(data, low, min(high, window)):
                    head = plausible_head(data, at, position + at, file.end)
                    if head is not None and self._is_valid(head, expected):
                        return head
            position += window
            window = min(2 * window, _WINDOW_BYTES)
        return None

    def leads_on(self, head: EntryHead) -> bool:
        """Whether the file ends behind an entry, or goes on there with what can be the next one."""
        file, position = self._file, head.end
        if position >= file.end or file.zeros_from(position) == file.end - position:
            return True
        following = plausible_head(file.read(position, HEADER_SIZE), 0, position, file.end)
        return following is not None and head.base_offset < following.base_offset <= self._highest

    def _is_valid(self, head: EntryHead, expected: int) -> bool:
        if head.last_offset > self._highest or not self.affords(head.size):
            return False
        if crc_of(self._file, head.position, head.size, head.magic) != head.crc:
            return False
        return head.base_offset >= expected or self.leads_on(head)


def _mixed_stretches(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (low, high) of where entries can begin: not within blocks of one and the same byte."""
    low = -1
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        if block == block[:1] * len(block):
            if low >= 0:
                # The last bytes of a header may well be the first of the block.
                yield low, start + MAGIC_POSITION
                low = -1
        elif low < 0:
            low = max(start - HEADER_SIZE, 0)
    if low >= 0:
        yield low, len(data)


def _candidates(data: bytes, low: int, high: int) -> Iterator[int]:
    """Yield, in order, where in [low, high) an entry of any format may begin."""
    stop = min(high + MAGIC_POSITION + HEADER_SIZE, len(data))
    return merge(_matches(_BATCH, data, low, high, stop), _matches(_LEGACY, data, low, high, stop))


def _matches(pattern: re.Pattern[bytes], data: bytes, low: int, high: int, stop: int) -> Iterator[int]:
    match = pattern.search(data, low + MAGIC_POSITION, stop)
    while match is not None:
        start = match.start()
        if start - MAGIC_POSITION >= high:
            return
        yield start - MAGIC_POSITION
        match = pattern.search(data, start + 1, stop)
