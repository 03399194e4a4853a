"""IndexBytes: the entries of an index file, without the zeros that Kafka reserves for later ones.

`sanity_problem` makes the checks of a starting broker, which decide whether it rebuilds an index. They look
only at the index file: its size, and whether its last entry is at or above the first (Kafka classes
`OffsetIndex`, `TimeIndex` and `TransactionIndex`).
"""

from __future__ import annotations

import re
import sys
from array import array
from itertools import islice
from operator import lt
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.storage.index.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.index.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kcli.storage.index.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kcli.storage.index.transaction_index import VERSION, unpack_entry
from kcli.storage.log_paths import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MAX_INDEX_BYTES = 32 * 1024 * 1024
"""The largest index that is read, three times what Kafka lets one grow to by default."""

_CHUNK_BYTES = 1024 * 1024
_HIGH, _LOW = (0, 1) if sys.byteorder == "big" else (1, 0)
"""Which of the two halves of eight bytes comes first."""
_NOT_ZERO = re.compile(rb"[^\0]")


class IndexBytes(NamedTuple):
    """Whole entries of `entry_size` bytes, and how many zeros and stray bytes follow them in the file.

    An index that `is_too_large` has no entries here.
    """

    path: str
    data: bytes
    entry_size: int
    zero_bytes: int
    stray_bytes: int
    is_too_large: bool = False

    @property
    def entries(self) -> int:
        return len(self.data) // self.entry_size

    def words(self) -> array[int]:
        """Return the entries as signed numbers of four bytes."""
        return _in_order(array("i", self.data))

    def too_large(self) -> Finding:
        message = f"over {MAX_INDEX_BYTES} bytes, too many to be right: the entries are not checked"
        return Finding(self.path, FindingKind.INDEX_SIZE, message)

    def report_form(self, report: Callable[[Finding], None], *, is_active: bool, keeps_zeros: bool) -> None:
        """Report an impossible size, zeros at the end of a closed segment's file, and zeros elsewhere.

        With `keeps_zeros` the first entry may be zeros.
        """
        end = len(self.data)
        if self.is_too_large:
            report(self.too_large())
        if self.stray_bytes:
            message = f"{end + self.zero_bytes + self.stray_bytes} bytes, not a multiple of {self.entry_size}"
            report(Finding(self.path, FindingKind.INDEX_SIZE, message, end + self.zero_bytes))
        if self.zero_bytes and not is_active:
            message = f"{self.zero_bytes} bytes of zeros behind {self.entries} entries"
            report(Finding(self.path, FindingKind.INDEX_ZERO_TAIL, message, end))
        self._report_zeros(report, self.entry_size if keeps_zeros else 0)

    def _report_zeros(self, report: Callable[[Finding], None], start: int) -> None:
        """Report entries of zeros from a place on, each run of them once."""
        zeros, size = bytes(self.entry_size), self.entry_size
        at = self.data.find(zeros, start)
        while at >= 0:
            slot = -(-at // size)
            found = _NOT_ZERO.search(self.data, at)
            stop = len(self.data) if found is None else found.start()
            behind = stop // size
            if behind > slot:
                what = f"entry {slot} is" if behind == slot + 1 else f"entries {slot} to {behind - 1} are"
                message = f"{what} zeros, and {self.entries - behind} entries follow"
                report(Finding(self.path, FindingKind.INDEX_ZEROS, message, slot * size))
            at = self.data.find(zeros, stop)


def read_index(path: str, entry_size: int) -> IndexBytes:
    """Read an index file of up to `MAX_INDEX_BYTES`, without the zeros at its end. Raises `OSError`."""
    kept = bytearray()
    size = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            filled = len(chunk.rstrip(b"\0"))
            if filled and size + filled > MAX_INDEX_BYTES:
                return IndexBytes(path, b"", entry_size, 0, 0, is_too_large=True)
            if filled:
                kept.extend(bytes(size - len(kept)))
                kept += chunk[:filled]
            size += len(chunk)
    stray = size % entry_size
    end = min(-(-len(kept) // entry_size) * entry_size, size - stray)
    data = bytes(kept[:end]).ljust(end, b"\0")
    return IndexBytes(path, data, entry_size, size - stray - end, stray)


def never_falls(column: Sequence[int]) -> bool:
    """Whether no number is below the one before it."""
    numbers = list(column)
    return numbers == sorted(numbers)


def always_rises(column: Sequence[int]) -> bool:
    """Whether every number is above the one before it."""
    return all(map(lt, column, islice(column, 1, None)))


def joined_words(high: array[int], low: array[int]) -> array[int]:
    """Return numbers of eight bytes from two columns of `words`."""
    halves = array("i", bytes(8 * len(high)))
    halves[_HIGH::2], halves[_LOW::2] = high, low
    return array("q", halves.tobytes())


def split_words(column: Sequence[int]) -> tuple[array[int], array[int]]:
    """Return the high and the low halves of numbers of eight bytes."""
    halves = array("i", array("q", column).tobytes())
    return halves[_HIGH::2], halves[_LOW::2]


def entries_of(*columns: array[int]) -> bytes:
    """Return the bytes of index entries; each has one number of four bytes from every column."""
    count = len(columns)
    words = array("i", bytes(4 * count * len(columns[0])))
    for number, column in enumerate(columns):
        words[number::count] = column
    return _in_order(words).tobytes()


def are_among(entries: bytes, others: bytes, size: int) -> bool:
    """Whether each of `entries`, which have that size, is among `others`."""
    if entries == others:
        return True
    cut = Struct(f"{size}s").iter_unpack
    return {*cut(entries)} <= {*cut(others)}


def _in_order(words: array[int]) -> array[int]:
    """Swap numbers between the byte order of files, big-endian, and that of the machine."""
    if sys.byteorder == "little":
        words.byteswap()
    return words


ENTRY_SIZES = {
    INDEX_SUFFIX: OFFSET_ENTRY_SIZE,
    TIME_INDEX_SUFFIX: TIME_ENTRY_SIZE,
    TRANSACTION_INDEX_SUFFIX: TRANSACTION_ENTRY_SIZE,
}
_RELATIVE_OFFSET = Struct(">i")
_TIME_ENTRY = Struct(">qi")


def sanity_problem(path: str, suffix: str) -> tuple[Finding | None, bool]:
    """Return why a starting broker rebuilds an index, or None; and whether it is empty. Raises `OSError`."""
    index = read_index(path, ENTRY_SIZES[suffix])
    if index.is_too_large:
        return index.too_large(), False
    if index.stray_bytes:
        size = len(index.data) + index.zero_bytes + index.stray_bytes
        message = f"{size} bytes, not a multiple of {index.entry_size}"
        return Finding(path, FindingKind.INDEX_SIZE, message, size - index.stray_bytes), False
    checks = {INDEX_SUFFIX: _offset_index, TIME_INDEX_SUFFIX: _time_index}
    problem = checks.get(suffix, _transaction_index)(index) if index.entries else None
    return problem, not index.entries and not index.zero_bytes


def _offset_index(index: IndexBytes) -> Finding | None:
    at = len(index.data) - OFFSET_ENTRY_SIZE
    (relative,) = _RELATIVE_OFFSET.unpack_from(index.data, at)
    if relative >= 0:
        return None
    message = f"the last offset is {-relative} below the segment's"
    return Finding(index.path, FindingKind.INDEX_OFFSET_RANGE, message, at)


def _time_index(index: IndexBytes) -> Finding | None:
    at = len(index.data) - TIME_ENTRY_SIZE
    first, _ = _TIME_ENTRY.unpack_from(index.data)
    last, relative = _TIME_ENTRY.unpack_from(index.data, at)
    if last < first:
        message = f"the last timestamp is {last}, the first {first}"
        return Finding(index.path, FindingKind.TIME_INDEX_ORDER, message, at, None, (last, first))
    if relative < 0:
        message = f"the last offset is {-relative} below the segment's"
        return Finding(index.path, FindingKind.INDEX_OFFSET_RANGE, message, at)
    return None


def _transaction_index(index: IndexBytes) -> Finding | None:
    base_offset = int(index.path.rpartition("/")[2].partition(".")[0])
    for at in range(0, len(index.data), TRANSACTION_ENTRY_SIZE):
        version, entry = unpack_entry(index.data, at)
        if version > VERSION or entry.last_offset < base_offset:
            message = f"impossible: version {version}, {entry}"
            return Finding(index.path, FindingKind.TRANSACTION_INDEX_ENTRY, message, at, entry.last_offset)
    return None
