"""LegacyRecords: the entries inside a wrapper of magic 0 or 1, for `RecordPieces` to go through.

Each has a checksum of its own. Offsets are absolute in magic 0, where the last is the wrapper's; in magic 1
they count from the first one.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.batch_header import LOG_OVERHEAD, SIZE_POSITION
from kcli.protocol.records.message_set import MIN_SIZES, LegacyEntry
from kcli.storage.damage import DamageKind
from kcli.storage.entry_head import HEADER_SIZES
from kcli.storage.record_pieces import Extent

if TYPE_CHECKING:
    from kcli.storage.record_findings import RecordFindings
    from kcli.storage.scanned_entry import ScannedEntry

_LENGTH = Struct(">i")
_CRC_START = 16


class LegacyRecords:
    """The entries inside `wrapper`."""

    __slots__ = ("_count", "_findings", "_largest", "_last", "_wrapper")

    def __init__(self, wrapper: LegacyEntry, findings: RecordFindings) -> None:
        self._wrapper = wrapper
        self._findings = findings
        self._count = 0
        self._last = -1
        self._largest: int | None = None

    def extent(self, data: bytes, at: int) -> Extent | None:
        """Return where an entry begins behind its size, and ends. Raises `CorruptRecord`."""
        start = at + LOG_OVERHEAD
        if start > len(data):
            return None
        (size,) = _LENGTH.unpack_from(data, at + SIZE_POSITION)
        if size < MIN_SIZES[0]:
            raise CorruptRecord(f"a size of {size} is too small")
        return Extent(start, start + size)

    def check(self, data: bytes, at: int, extent: Extent, place: int) -> None:
        """Check one entry."""
        self._check(data, at, extent.end)
        self._count += 1

    def lose(self, why: str, place: int) -> None:
        """Report that where the next entry begins is not known."""
        self._add(DamageKind.BAD_RECORD, why)

    def finish(self) -> int | None:
        """Return the largest timestamp when all entries were checked."""
        wrapper = self._wrapper
        if not self._count:
            why = "a wrapper without entries"
            self._findings.add(DamageKind.BAD_COUNT, why, expected="1 or more", found=0)
        elif wrapper.magic == 0 and self._last != wrapper.offset:
            self._add_last("is not that of its wrapper")
        elif wrapper.magic == 1 and self._last > wrapper.offset:
            self._add_last("counts more than there are before that of its wrapper")
        return self._largest

    def _check(self, data: bytes, at: int, end: int) -> None:
        wrapper = self._wrapper
        try:
            entry = LegacyEntry(data, at)
            if entry.magic != wrapper.magic:
                raise CorruptRecord(f"magic {entry.magic} inside magic {wrapper.magic}")
            if entry.is_compressed:
                raise CorruptRecord("a wrapper inside a wrapper")
            computed = zlib.crc32(memoryview(data)[at + _CRC_START : end])
            if computed != entry.crc:
                self._add(
                    DamageKind.BAD_RECORD_CRC,
                    f"checksum {entry.crc:#010x} in it, {computed:#010x} of its bytes",
                    expected=entry.crc,
                    found=computed,
                )
            entry.key_and_value()
        except CorruptRecord as error:
            self._add(DamageKind.BAD_RECORD, error.message)
            return
        if entry.offset <= self._last:
            self._add(DamageKind.BAD_OFFSET_DELTA, f"offset {entry.offset} comes after {self._last}")
        self._last = entry.offset
        if self._largest is None or entry.timestamp > self._largest:
            self._largest = entry.timestamp

    def _add_last(self, why: str) -> None:
        self._findings.add(
            DamageKind.BAD_OFFSET_DELTA,
            f"offset {self._last} of the last entry inside {why}, {self._wrapper.offset}",
            expected=self._wrapper.offset,
            found=self._last,
        )

    def _add(
        self, kind: DamageKind, why: str, *, expected: int | None = None, found: int | None = None
    ) -> None:
        self._findings.add(
            kind,
            f"entry {self._count} inside the wrapper: {why}",
            offset=self._wrapper.offset,
            expected=expected,
            found=found,
        )


def find_value(entry: ScannedEntry, findings: RecordFindings) -> int | None:
    """Return where in an older entry its value begins, None if key and value do not fill it."""
    key_at = HEADER_SIZES[entry.magic]
    value_at = key_at
    for name in ("key", "value"):
        raw = entry.read(value_at, _LENGTH.size)
        room = entry.size - value_at - _LENGTH.size
        length = _LENGTH.unpack(raw)[0] if len(raw) == _LENGTH.size else -2
        if not -1 <= length <= room or (name == "value" and max(length, 0) != room):
            findings.add(
                DamageKind.BAD_RECORD,
                f"a {name} of {length} bytes does not fit: {room} are left",
                field=(f"{name} length", value_at, _LENGTH.size),
                expected=room,
                found=length,
            )
            return None
        if name == "value":
            return value_at + _LENGTH.size
        value_at += _LENGTH.size + max(length, 0)
    return None
