"""The sanity checks of a starting broker: whether it would take an index as it is, or build it anew.

They look at the index files alone: sizes, and whether the last entry is at or above the first (Kafka classes
`OffsetIndex`, `TimeIndex` and `TransactionIndex`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.storage.log_paths import INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from kcli.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from kcli.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from kcli.storage.transaction_index import ENTRY_SIZE as TRANSACTION_ENTRY_SIZE
from kcli.storage.transaction_index import VERSION, unpack_entry
from kcli.storage.verification.finding_kinds import FindingKind
from kcli.storage.verification.findings import Finding
from kcli.storage.verification.index_bytes import read_index

if TYPE_CHECKING:
    from kcli.storage.verification.index_bytes import IndexBytes

ENTRY_SIZES = {
    INDEX_SUFFIX: OFFSET_ENTRY_SIZE,
    TIME_INDEX_SUFFIX: TIME_ENTRY_SIZE,
    TRANSACTION_INDEX_SUFFIX: TRANSACTION_ENTRY_SIZE,
}
_RELATIVE_OFFSET = Struct(">i")
_TIME_ENTRY = Struct(">qi")


def sanity_problem(path: str, suffix: str) -> tuple[Finding | None, bool]:
    """Return why a starting broker would build an index anew, None if not; and whether it is empty.

    Raises `OSError`.
    """
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
            message = f"version {version}, {entry} cannot be"
            return Finding(index.path, FindingKind.TRANSACTION_INDEX_ENTRY, message, at, entry.last_offset)
    return None
