"""EntrySearch: finds the next valid entry after damage.

Entries have no marker to look for. A place counts as an entry if its header is possible and the checksum
matches. Patterns find the candidates, blocks of one repeated byte are skipped, and the bytes checksummed are
limited to a multiple of the bytes searched: the time is proportional to the size of the file, even if its
garbage is made to look like headers.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import TYPE_CHECKING

from kcli.forensics.entries.entry_head import HEADER_SIZES, plausible_head
from kcli.protocol.records.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.segment_file import SegmentFile
    from kcli.protocol.records.batch_header import BatchHead

_FIRST_WINDOW_BYTES = 16 * 1024
_WINDOW_BYTES = 1024 * 1024
_BLOCK_BYTES = 4096
_CHECKSUM_FACTOR = 4
_SMALL_BYTES = 16 * 1024
_CHECKSUM_ALLOWANCE = 64 * 1024 * 1024

_OFFSET_AND_SIZE = Struct(">qi")
_LENGTH = Struct(">i")

# Both match only the magic, so that matches may overlap. Behind that of a batch come checksum, attributes,
# last offset delta, timestamps and producer, record count.
_BATCH = re.compile(rb"\x02(?=.{4}\x00[\x00-\x7f][\x00-\x7f].{33}[\x00-\x7f])", re.DOTALL)
# Before the older magic come a size of at least 14 and the checksum; behind it attributes, timestamp, key
# size.
_KEY = rb"(?:\xff\xff\xff\xff|[\x00-\x7f])"
_LEGACY = re.compile(
    rb"[\x00\x01](?<=[\x00-\x7f].{8})(?<!\x00\x00\x00[\x00-\x0d].{5})"
    rb"(?:(?<=\x00)(?=[\x00-\x03]" + _KEY + rb")|(?<=\x01)(?=[\x00-\x03\x08-\x0b].{8}" + _KEY + rb"))",
    re.DOTALL,
)


class EntrySearch:
    """The search in one file, with one allowance of bytes to checksum."""

    __slots__ = ("_allowance", "_file", "_found", "_highest", "_searched", "_zeros")

    def __init__(self, file: SegmentFile, highest: int) -> None:
        self._file = file
        self._highest = highest
        self._allowance = _CHECKSUM_ALLOWANCE
        # The stretch searched last and the entry found at its end: no byte is searched twice.
        self._searched = range(0)
        self._found: BatchHead | None = None
        # The run of zeros met last: many candidates may end in the same one.
        self._zeros = range(0)

    def next_entry(self, position: int, expected: int, stop: int | None = None) -> BatchHead | None:
        """Return the first valid entry that begins in [`position`, `stop`), None without one.

        `expected` is the offset of the next entry. An entry with a lower offset may be a batch inside a
        record, so it counts only if the file ends or goes on behind it. Raises `OSError`.
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
        """Whether `size` bytes may be checksummed; if so, take them from the allowance."""
        if size > max(self._allowance, _SMALL_BYTES):
            return False
        self._allowance = max(self._allowance - size, 0)
        return True

    def earn(self, size: int) -> None:
        """Raise the allowance in proportion to bytes of the file that have been processed."""
        self._allowance += _CHECKSUM_FACTOR * size

    def _search(self, position: int, stop: int, expected: int) -> BatchHead | None:
        file, window = self._file, _FIRST_WINDOW_BYTES
        while position < stop:
            window = min(window, stop - position)
            data = file.read(position, window + HEADER_SIZE)
            if not data:
                return None
            self.earn(min(len(data), window))
            for low, high in _mixed_stretches(data):
                high = min(high, window)
                for at in _candidates(data, low, high, file.end - position, self._highest):
                    head = plausible_head(data, at, position + at, file.end)
                    if head is not None and self._is_valid(head, expected):
                        return head
            position += window
            window = min(2 * window, _WINDOW_BYTES)
        return None

    def leads_on(self, position: int, offset: int) -> bool:
        """Whether the file ends at a position, or an entry above `offset` can begin there."""
        file = self._file
        if position >= file.end:
            return True
        head = file.read(position, HEADER_SIZE)
        if not head.strip(b"\0"):
            if position not in self._zeros:
                self._zeros = range(position, position + file.zeros_from(position))
            return self._zeros.stop == file.end
        following = plausible_head(head, 0, position, file.end)
        return following is not None and offset < following.base_offset <= self._highest

    def _is_valid(self, head: BatchHead, expected: int) -> bool:
        if head.last_offset > self._highest or not self.affords(head.size_in_bytes):
            return False
        if self._file.entry_crc(head.position, head.size_in_bytes, head.magic) != head.crc:
            return False
        return head.base_offset >= expected or self.leads_on(head.end, head.base_offset)


def _mixed_stretches(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (low, high) of the stretches in which entries can begin: all but blocks of one repeated byte."""
    low = -1
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        if block == block[:1] * len(block):
            if low >= 0:
                # The first bytes of the block may be the last of a header.
                yield low, start + MAGIC_POSITION
                low = -1
        elif low < 0:
            low = max(start - HEADER_SIZE, 0)
    if low >= 0:
        yield low, len(data)


def _candidates(data: bytes, low: int, high: int, room: int, highest: int) -> Iterator[int]:
    """Yield, in order, where in [low, high) the first bytes of an entry of any format may stand.

    The file ends `room` bytes behind the beginning of `data`. Garbage may have a candidate in every few
    bytes, so the checks that the patterns cannot do are done in line.
    """
    stop = min(high + MAGIC_POSITION + HEADER_SIZE, len(data))
    room -= LOG_OVERHEAD
    batches = _batches(data, low, high, stop)
    batch = next(batches, high)
    for match in _LEGACY.finditer(data, low + MAGIC_POSITION, stop):
        at = match.start() - MAGIC_POSITION
        if at >= high:
            break
        offset, size = _OFFSET_AND_SIZE.unpack_from(data, at)
        if size <= room - at and 0 <= offset <= highest and _fills(data, at, size):
            while batch < at:
                yield batch
                batch = next(batches, high)
            yield at
    while batch < high:
        yield batch
        batch = next(batches, high)


def _batches(data: bytes, low: int, high: int, stop: int) -> Iterator[int]:
    for match in _BATCH.finditer(data, low + MAGIC_POSITION, stop):
        at = match.start() - MAGIC_POSITION
        if at < high:
            yield at


def _fills(data: bytes, at: int, length: int) -> bool:
    """Whether key and value fill an older entry whose size field is `length`, unless `data` ends before."""
    key_at = at + HEADER_SIZES[data[at + MAGIC_POSITION]]
    end = at + LOG_OVERHEAD + length
    if key_at + 4 > len(data):
        return True
    (key_size,) = _LENGTH.unpack_from(data, key_at)
    value_at = key_at + 4 + key_size if key_size > 0 else key_at + 4
    if value_at + 4 > end or key_size < -1:
        return False
    if value_at + 4 > len(data):
        return True
    (value_size,) = _LENGTH.unpack_from(data, value_at)
    return bool(value_at + 4 + (value_size if value_size > 0 else 0) == end)
