"""StoredRecords: the records of a batch, gone through one by one as their bytes come in.

`record_parser` has the format. Only a record's length must be right for the next one to be found, so several
records of a batch may be found wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.control_records import parse_control_key
from kcli.protocol.record import CorruptRecord, TooMuchData
from kcli.protocol.record_batch_header import HEADER_SIZE
from kcli.protocol.varints import read_varint, read_varlong
from kcli.storage.damage import DamageKind

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer
    from kcli.protocol.record_batch import RecordBatch
    from kcli.storage.record_findings import RecordFindings

_MAX_LENGTH_BYTES = 5


class StoredRecords:
    """The records of `batch`: `feed` what they are made of, then `finish`."""

    __slots__ = ("_batch", "_count", "_findings", "_held", "_is_lost", "_largest", "_last_delta", "_taken")

    def __init__(self, batch: RecordBatch, findings: RecordFindings) -> None:
        self._batch = batch
        self._findings = findings
        # What was fed and not yet gone through, behind `_taken` bytes that were.
        self._held = b""
        self._taken = 0
        self._count = 0
        self._last_delta = -1
        self._largest: int | None = None
        self._is_lost = False

    def feed(self, piece: Buffer, max_bytes: int) -> None:
        """Go through the records that are whole now. Raises `TooMuchData` at one above `max_bytes`."""
        if self._is_lost or self._findings.are_enough:
            return
        data = self._held + bytes(piece) if self._held else bytes(piece)
        at, end = 0, len(data)
        while at < end:
            try:
                length, start = read_varint(data, at)
            except CorruptRecord as error:
                if end - at >= _MAX_LENGTH_BYTES:
                    self._lose(error.message, at)
                    return
                break
            if length < 0:
                self._lose(f"a length of {length} bytes", at)
                return
            if length > max_bytes:
                raise TooMuchData(f"a record of {length} bytes")
            if start + length > end:
                break
            self._check(data[start : start + length], self._taken + at, start + length - at)
            self._count += 1
            at = start + length
        self._held = data[at:]
        self._taken += at

    def finish(self) -> int | None:
        """Return the largest timestamp delta, None if that is not known, when all records were fed."""
        batch, findings = self._batch, self._findings
        if self._held and not self._is_lost and not findings.are_enough:
            self._lose(f"{len(self._held)} bytes are left of it", 0)
        if not self._is_lost and self._count != batch.count:
            findings.add(
                DamageKind.BAD_COUNT,
                f"{self._count} records in a batch that declares {batch.count}",
                field=("record count", 57, 4),
                expected=self._count,
                found=batch.count,
            )
        return None if findings.damages else self._largest

    def _check(self, record: bytes, at: int, size: int) -> None:
        """Check one record without its length; it is `size` bytes from the one numbered `at` on."""
        try:
            timestamp_delta, position = read_varlong(record, 1)
            delta, position = read_varint(record, position)
            key, position = _read_bytes(record, position, "key")
            _, position = _read_bytes(record, position, "value")
            position = _skip_headers(record, position)
            if position != len(record):
                raise CorruptRecord(f"{len(record) - position} bytes behind its headers")
            if self._batch.is_control:
                parse_control_key(key)
        except CorruptRecord as error:
            self._add(DamageKind.BAD_RECORD, error.message, at, size)
            return
        if self._largest is None or timestamp_delta > self._largest:
            self._largest = timestamp_delta
        if not self._last_delta < delta <= self._batch.last_offset_delta:
            offset = self._batch.base_offset + delta
            what = f"offset {offset} "
            if delta <= self._last_delta:
                what += f"comes after {self._batch.base_offset + self._last_delta}"
            else:
                what += f"is beyond the batch's last, {self._batch.last_offset}"
            self._add(DamageKind.BAD_OFFSET_DELTA, what, at, size)
        self._last_delta = max(self._last_delta, delta)

    def _lose(self, why: str, at: int) -> None:
        """Give up at a byte of what is held: where the next record begins is not known."""
        self._is_lost = True
        self._add(DamageKind.BAD_RECORD, why, self._taken + at, 1)

    def _add(self, kind: DamageKind, why: str, at: int, size: int) -> None:
        batch = self._batch
        where = f"record {self._count} of {batch.count}, byte {at} of the "
        is_plain = not batch.is_compressed
        self._findings.add(
            kind,
            where + ("records" if is_plain else "decompressed records") + f": {why}",
            offset=batch.base_offset + self._last_delta + 1,
            field=("record", HEADER_SIZE + at, size) if is_plain else None,
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
