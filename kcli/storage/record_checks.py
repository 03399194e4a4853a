"""Checking the records inside an entry: do they decompress, and are they what the header says?

A batch is walked as a whole where it fits; only one with something wrong in it, or one that does not fit, is
gone through record by record, in pieces. `UNCHECKED_RECORDS` says that not even a piece fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, decompress
from kcli.protocol.compression.pieces import decompressed_pieces
from kcli.protocol.record import CorruptRecord, TimestampType, TooMuchData
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import HEADER_SIZE, TIMESTAMP_TYPE_BIT
from kcli.protocol.records.varints import wrap_int64
from kcli.storage.damage import DamageKind
from kcli.storage.legacy_checks import LegacyRecords, find_value
from kcli.storage.record_findings import RecordFindings
from kcli.storage.record_pieces import RecordPieces
from kcli.storage.record_walk import walk_records
from kcli.storage.stored_records import StoredRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.record import Buffer
    from kcli.protocol.records.message_set import LegacyEntry
    from kcli.storage.damage import Damage
    from kcli.storage.scanned_entry import ScannedEntry

MAX_HELD_BYTES = 16 * 1024 * 1024
"""What may be held of the records of one entry, compressed or not."""

_READ_BYTES = 1024 * 1024
_WALKED_BYTES = 2 * 1024 * 1024


def check_records(entry: ScannedEntry) -> list[Damage]:
    """Return what is wrong inside an entry whose checksum matches, a few damages at most.

    Memory does not depend on what the records decompress to, whatever the entry. Raises `OSError`.
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
        largest = records.finish()
    if largest is not None and not batch.attributes & TIMESTAMP_TYPE_BIT:
        findings.compare_timestamp(wrap_int64(batch.base_timestamp + largest), batch.max_timestamp)


def _walk(entry: ScannedEntry, batch: RecordBatch) -> int | None:
    """Return the largest timestamp delta if nothing is wrong, None if the records need a closer look."""
    try:
        data = decompress(batch.codec, entry.read(HEADER_SIZE, entry.size), _WALKED_BYTES)
        _, largest, is_dense, _ = walk_records(data, 0, batch.count)
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
    """Yield the bytes of an entry from the one numbered `start` on."""
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
