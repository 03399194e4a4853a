"""The checks of the records inside an entry: do they decompress, and are they what the header says?

A batch that fits into memory is walked in one go. One that does not fit, or that has a fault, is checked
record by record, in pieces of its bytes. `UNCHECKED_RECORDS` says that not even a piece fits.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kcli.forensics.entries.damage import DamageKind
from kcli.forensics.entries.entry_head import HEADER_SIZES
from kcli.forensics.entries.record_findings import Extent, RecordFindings, RecordPieces
from kcli.protocol.compression.codecs import Codec, decompress
from kcli.protocol.compression.pieces import decompressed_pieces
from kcli.protocol.corruption import CorruptRecord, TooMuchData
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MIN_LENGTHS,
    SIZE_POSITION,
    TIMESTAMP_TYPE_BIT,
)
from kcli.protocol.records.control_records import parse_control_key
from kcli.protocol.records.message_set import LegacyEntry
from kcli.protocol.records.record import TimestampType
from kcli.protocol.records.record_walk import walk_records
from kcli.protocol.records.varints import read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.forensics.entries.damage import Damage
    from kcli.forensics.entries.scanned_entry import ScannedEntry
    from kcli.protocol.corruption import Buffer


_MAX_LENGTH_BYTES = 5


class StoredRecords:
    """The records of `batch`, for `RecordPieces`; `record_walk` describes the format.

    The length of a record is enough to find the next one, so several records of a batch can be damaged.
    """

    __slots__ = ("_batch", "_count", "_findings", "_largest", "_last_delta")

    def __init__(self, batch: RecordBatch, findings: RecordFindings) -> None:
        self._batch = batch
        self._findings = findings
        self._count = 0
        self._last_delta = -1
        self._largest: int | None = None

    def extent(self, data: bytes, at: int) -> Extent | None:
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
        self._add(DamageKind.BAD_RECORD, why, place, 1)

    def finish(self) -> int | None:
        """Compare the number of records with the header; return the largest timestamp delta."""
        batch = self._batch
        if self._count != batch.count:
            why, field = (
                f"{self._count} records in a batch that declares {batch.count}",
                ("record count", 57, 4),
            )
            kind = DamageKind.BAD_COUNT
            self._findings.add(kind, why, field=field, expected=self._count, found=batch.count)
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
    """Return the bytes behind their length, None for -1, and the position behind them."""
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
        _, position = _read_bytes(record, position, f"value of header {number}")
    return position


_LENGTH = Struct(">i")


class LegacyRecords:
    """The entries inside `wrapper`, which is of magic 0 or 1, for `RecordPieces`.

    Each has a checksum of its own. In magic 0 their offsets are absolute and the last one is the wrapper's;
    in magic 1 they are relative to the first.
    """

    __slots__ = ("_count", "_findings", "_largest", "_last", "_wrapper")

    def __init__(self, wrapper: LegacyEntry, findings: RecordFindings) -> None:
        self._wrapper = wrapper
        self._findings = findings
        self._count = 0
        self._last = -1
        self._largest: int | None = None

    def extent(self, data: bytes, at: int) -> Extent | None:
        start = at + LOG_OVERHEAD
        if start > len(data):
            return None
        (size,) = _LENGTH.unpack_from(data, at + SIZE_POSITION)
        if size < MIN_LENGTHS[0]:
            raise CorruptRecord(f"a size of {size} is too small")
        return Extent(start, start + size)

    def check(self, data: bytes, at: int, extent: Extent, place: int) -> None:
        self._check(data, at, extent.end)
        self._count += 1

    def lose(self, why: str, place: int) -> None:
        self._add(DamageKind.BAD_RECORD, why)

    def finish(self) -> int | None:
        """Compare the last offset with the wrapper's; return the largest timestamp."""
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
            computed = zlib.crc32(memoryview(data)[at + MAGIC_POSITION : end])
            if computed != entry.crc:
                why = f"checksum {entry.crc:#010x} in it, {computed:#010x} of its bytes"
                self._add(DamageKind.BAD_RECORD_CRC, why, expected=entry.crc, found=computed)
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
        wanted, found = self._wrapper.offset, self._last
        message = f"offset {found} of the last entry inside {why}, {wanted}"
        self._findings.add(DamageKind.BAD_OFFSET_DELTA, message, expected=wanted, found=found)

    def _add(
        self, kind: DamageKind, why: str, *, expected: int | None = None, found: int | None = None
    ) -> None:
        message, offset = f"entry {self._count} inside the wrapper: {why}", self._wrapper.offset
        self._findings.add(kind, message, offset=offset, expected=expected, found=found)


def find_value(entry: ScannedEntry, findings: RecordFindings) -> int | None:
    """Return where the value of an older entry begins in it, None if key and value do not fill it."""
    key_at = HEADER_SIZES[entry.magic]
    value_at = key_at
    for name in ("key", "value"):
        raw = entry.read(value_at, _LENGTH.size)
        room = entry.size - value_at - _LENGTH.size
        length = _LENGTH.unpack(raw)[0] if len(raw) == _LENGTH.size else -2
        if not -1 <= length <= room or (name == "value" and max(length, 0) != room):
            message = f"a {name} of {length} bytes does not fit: {room} are left"
            field = (f"{name} length", value_at, _LENGTH.size)
            findings.add(DamageKind.BAD_RECORD, message, field=field, expected=room, found=length)
            return None
        if name == "value":
            return value_at + _LENGTH.size
        value_at += _LENGTH.size + max(length, 0)
    return None


MAX_HELD_BYTES = 16 * 1024 * 1024
"""How many bytes of the records of one entry may be in memory, compressed or not."""

_READ_BYTES = 1024 * 1024
_WALKED_BYTES = 2 * 1024 * 1024


def check_records(entry: ScannedEntry) -> list[Damage]:
    """Return the first damages inside an entry whose checksum matches.

    Memory does not depend on the size of the decompressed records. Raises `OSError`.
    """
    findings = RecordFindings(entry)
    try:
        batch = entry.batch
        if isinstance(batch, RecordBatch):
            _check_batch(entry, batch, findings)
        elif batch.is_compressed:
            _check_wrapper(entry, batch, findings)
        else:
            find_value(entry, findings)
    except TooMuchData:
        message = f"the records were not checked: that takes more than {MAX_HELD_BYTES} bytes of memory"
        findings.add(DamageKind.UNCHECKED_RECORDS, message)
    except CorruptRecord as error:
        findings.add(DamageKind.UNDECODABLE_RECORDS, error.message)
    return findings.damages


def _check_batch(entry: ScannedEntry, batch: RecordBatch, findings: RecordFindings) -> None:
    if batch.count == 0:
        if entry.size > HEADER_SIZE and batch.codec is Codec.NONE:
            more = f"{entry.size - HEADER_SIZE} bytes of records in a batch of none"
            findings.add(DamageKind.BAD_COUNT, more, expected=0)
        return
    largest = None
    if entry.is_whole and not batch.is_control:
        largest = _walk(entry, batch)
    if largest is None:
        records = RecordPieces(StoredRecords(batch, findings), findings)
        for piece in decompressed_pieces(batch.codec, _pieces(entry, HEADER_SIZE), MAX_HELD_BYTES):
            records.feed(piece, MAX_HELD_BYTES)
        delta = records.finish()
        largest = None if delta is None else wrap_int64(batch.base_timestamp + delta)
    if largest is not None and not batch.attributes & TIMESTAMP_TYPE_BIT:
        findings.compare_timestamp(largest, batch.max_timestamp)


def _walk(entry: ScannedEntry, batch: RecordBatch) -> int | None:
    """Return the largest timestamp of sound records, None if they must be checked one by one."""
    try:
        data = decompress(batch.codec, entry.read(HEADER_SIZE, entry.size), _WALKED_BYTES)
        _, largest, is_dense, _ = walk_records(data, 0, batch.count, batch.base_timestamp)
    except CorruptRecord:
        return None
    return largest if is_dense and batch.count == batch.last_offset_delta + 1 else None


def _check_wrapper(entry: ScannedEntry, wrapper: LegacyEntry, findings: RecordFindings) -> None:
    value_at = find_value(entry, findings)
    if value_at is None:
        return
    if wrapper.codec is Codec.ZSTD:
        raise CorruptRecord(f"magic {wrapper.magic} does not know zstd")
    records = RecordPieces(LegacyRecords(wrapper, findings), findings)
    pieces = _pieces(entry, value_at)
    for piece in decompressed_pieces(wrapper.codec, pieces, MAX_HELD_BYTES, magic=wrapper.magic):
        records.feed(piece, MAX_HELD_BYTES)
    largest = records.finish()
    if largest is not None and wrapper.timestamp_type is TimestampType.CREATE_TIME:
        findings.compare_timestamp(largest, wrapper.timestamp)


def _pieces(entry: ScannedEntry, start: int) -> Iterator[Buffer]:
    if entry.is_whole:
        at = entry.batch.position
        if start < entry.size:
            yield memoryview(entry.batch.buffer)[at + start : at + entry.size]
        return
    while start < entry.size:
        piece = entry.read(start, _READ_BYTES)
        if not piece:
            return  # the file was cut
        yield piece
        start += len(piece)
