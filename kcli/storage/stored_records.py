"""StoredRecords: the records of a batch, for `RecordPieces` to go through.

`record_parser` has the format. Only a record's length must be right for the next one to be found, so several
records of a batch may be found wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import CorruptRecord
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.protocol.records.control_records import parse_control_key
from kcli.protocol.records.varints import read_varint, read_varlong
from kcli.storage.damage import DamageKind
from kcli.storage.record_pieces import Extent

if TYPE_CHECKING:
    from kcli.protocol.records.batch import RecordBatch
    from kcli.storage.record_findings import RecordFindings

_MAX_LENGTH_BYTES = 5


class StoredRecords:
    """The records of `batch`."""

    __slots__ = ("_batch", "_count", "_findings", "_largest", "_last_delta")

    def __init__(self, batch: RecordBatch, findings: RecordFindings) -> None:
        self._batch = batch
        self._findings = findings
        self._count = 0
        self._last_delta = -1
        self._largest: int | None = None

    def extent(self, data: bytes, at: int) -> Extent | None:
        """Return where a record begins and ends. Raises `CorruptRecord`."""
        try:
            length, start = read_varint(data, at)
        except CorruptRecord:
            if len(data) - at >= _MAX_LENGTH_BYTES:
                raise
            return None
        if length < 0:
            raise CorruptRecord(f"a length of {length} bytes")
        return Extent(start, start + length)

    def check(self, data: bytes, at: int, extent: Extent, place: int) -> None:
        """Check one record."""
        batch, record, size = self._batch, data[extent.start : extent.end], extent.end - at
        try:
            timestamp_delta, position = read_varlong(record, 1)
            delta, position = read_varint(record, position)
            key, position = _read_bytes(record, position, "key")
            _, position = _read_bytes(record, position, "value")
            position = _skip_headers(record, position)
            if position != len(record):
                raise CorruptRecord(f"{len(record) - position} bytes behind its headers")
            if batch.is_control:
                parse_control_key(key)
        except CorruptRecord as error:
            self._add(DamageKind.BAD_RECORD, error.message, place, size)
            self._count += 1
            return
        if self._largest is None or timestamp_delta > self._largest:
            self._largest = timestamp_delta
        if not self._last_delta < delta <= batch.last_offset_delta:
            what = f"offset {batch.base_offset + delta} "
            if delta <= self._last_delta:
                what += f"comes after {batch.base_offset + self._last_delta}"
            else:
                what += f"is beyond the batch's last, {batch.last_offset}"
            self._add(DamageKind.BAD_OFFSET_DELTA, what, place, size)
        self._last_delta = max(self._last_delta, delta)
        self._count += 1

    def lose(self, why: str, place: int) -> None:
        """Report that where the next record begins is not known."""
        self._add(DamageKind.BAD_RECORD, why, place, 1)

    def finish(self) -> int | None:
        """Return the largest timestamp delta when all records were checked."""
        batch = self._batch
        if self._count != batch.count:
            self._findings.add(
                DamageKind.BAD_COUNT,
                f"{self._count} records in a batch that declares {batch.count}",
                field=("record count", 57, 4),
                expected=self._count,
                found=batch.count,
            )
        return self._largest

    def _add(self, kind: DamageKind, why: str, place: int, size: int) -> None:
        batch = self._batch
        where = f"record {self._count} of {batch.count}, byte {place} of the "
        is_plain = not batch.is_compressed
        self._findings.add(
            kind,
            where + ("records" if is_plain else "decompressed records") + f": {why}",
            offset=batch.base_offset + self._last_delta + 1,
            field=("record", HEADER_SIZE + place, size) if is_plain else None,
            expected=batch.count,
            found=self._count,
        )


def _read_bytes(record: bytes, position: int, what: str) -> tuple[bytes | None, int]:
    """Return the bytes behind their length, -1 for none, and the position behind them."""
    length, position = read_varint(record, position)
    if not -1 <= length <= len(record) - position:
        raise CorruptRecord(f"a {what} of {length} bytes does not fit")
    if length < 0:
        return None, position
    return record[position : position + length], position + length


def _skip_headers(record: bytes, position: int) -> int:
    count, position = read_varint(record, position)
    # Each takes two bytes at least.
    if not 0 <= count <= (len(record) - position) // 2:
        raise CorruptRecord(f"{count} headers do not fit")
    for number in range(count):
        name, position = _read_bytes(record, position, f"name of header {number}")
        if name is None:
            raise CorruptRecord(f"header {number} has no name")
        try:
            name.decode()
        except UnicodeDecodeError:
            raise CorruptRecord(f"the name of header {number} is not UTF-8: {name!r}") from None
        _, position = _read_bytes(record, position, f"value of header {number}")
    return position
