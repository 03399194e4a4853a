"""Conversion between message sets (magic 0 and 1) and record batches (magic 2).

Records of producers before 0.11 (Produce 0 to 2) are converted up, records for consumers before 0.11 (Fetch 0
to 3) down. Apache Kafka 4.0 removed both (KIP-724); this does what 3.9 did (`LogValidator`,
`RecordsUtil.downConvert`).
"""

from __future__ import annotations

from struct import error as StructError
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import BYTES_PER_RECORD, MAX_DECOMPRESSED_BYTES, CorruptRecord, TooMuchData
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.message_set import LegacyEntry, MessageSetBuilder
from kcli.protocol.records.record import NO_TIMESTAMP, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.corruption import Buffer


def up_convert(
    buffer: Buffer, *, codec: Codec | None = None, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytearray:
    """Return one record batch of all the records in a producer's message set, offsets from 0.

    It is compressed by `codec`, or as the set was. Missing timestamps are -1. A set with append time becomes
    a batch with append time, which a leader refuses. An incomplete entry at the end is dropped; a set without
    a complete entry becomes no bytes.

    Raises `CorruptRecord` for wrong checksums, also of inner entries, and broken structure; `TooMuchData` for
    more than `max_bytes` of records, each counting for at least `BYTES_PER_RECORD`; `KafkaError`
    INVALID_RECORD if entries differ in magic, and INVALID_TIMESTAMP for a timestamp below -1.
    """
    entries = _entries_of_one_magic(buffer)
    if not entries:
        return bytearray()
    if codec is None:
        codec = next((entry.codec for entry in entries if entry.is_compressed), Codec.NONE)
    append_time = any(entry.timestamp_type is TimestampType.LOG_APPEND_TIME for entry in entries)
    builder = RecordBatchBuilder(
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
    )
    for entry in entries:
        _check(entry)
        room = max_bytes - max(builder.estimated_size, builder.count * BYTES_PER_RECORD)
        if room < 0:
            raise TooMuchData(f"a message set of more than {builder.count} records")
        if entry.is_compressed:
            for inner in entry.inner_entries(room):
                if inner.magic != entry.magic:
                    raise KafkaError(
                        ErrorCode.INVALID_RECORD,
                        f"magic {inner.magic} inside a wrapper of magic {entry.magic}",
                    )
                _check(inner)
                _append(builder, inner, entry.timestamp if append_time else inner.timestamp)
        else:
            _append(builder, entry, entry.timestamp)
    return builder.build()


def _entries_of_one_magic(buffer: Buffer) -> Sequence[LegacyEntry]:
    entries: list[LegacyEntry] = []
    for entry in iter_batches(buffer):
        if not isinstance(entry, LegacyEntry) or (entries and entry.magic != entries[0].magic):
            raise KafkaError(ErrorCode.INVALID_RECORD, "a message set holds entries of different magic")
        entries.append(entry)
    return entries


def _check(entry: LegacyEntry) -> None:
    if not entry.is_valid_crc():
        raise CorruptRecord(f"wrong checksum in the entry at offset {entry.offset}")


def _append(builder: RecordBatchBuilder, entry: LegacyEntry, timestamp: int) -> None:
    key, value = entry.key_and_value()
    if timestamp < NO_TIMESTAMP:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"negative timestamp: {timestamp}")
    builder.append(timestamp, None if key is None else bytes(key), None if value is None else bytes(value))


def down_convert(
    buffer: Buffer, magic: int, *, first_offset: int = 0, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Return the complete entries of `buffer` as a message set of `magic` (0 or 1), with the same offsets.

    Entries of that magic or an older one stay as they are. Headers, producers and control batches do not
    exist in a message set and are dropped; compressed batches become wrappers of the same codec. Records of
    uncompressed batches before `first_offset`, the requested offset, are left out: some clients do not skip
    them.

    The result is empty if the buffer holds no complete batch, or control batches only. It ends before the
    batch with which more than `max_bytes` would be read, a record counting for at least `BYTES_PER_RECORD`.

    Raises `CorruptRecord`, `TooMuchData` if the first batch exceeds the limit, and `KafkaError`
    UNSUPPORTED_COMPRESSION_TYPE for zstd, which old clients cannot read.
    """
    parts: list[bytes] = []
    room = max_bytes
    for batch in iter_batches(buffer):
        if batch.magic <= magic:
            parts.append(batch.to_bytes())
        elif not batch.is_control:
            try:
                converted, read = _down_convert_batch(batch, magic, first_offset, room)
            except TooMuchData:
                if not any(parts):
                    raise
                break
            parts.append(converted)
            room -= read
    return b"".join(parts)


def _down_convert_batch(
    batch: RecordBatch | LegacyEntry, magic: int, first_offset: int, max_bytes: int
) -> tuple[bytes, int]:
    """Return a batch as a message set, and how many bytes reading it counts for."""
    if isinstance(batch, RecordBatch) and batch.count * BYTES_PER_RECORD > max_bytes:
        raise TooMuchData(f"a record batch of {batch.count} records")
    codec = batch.codec
    if codec is Codec.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "records compressed with zstd need a newer client"
        )
    records = list(batch.records(max_bytes))
    if codec is Codec.NONE:
        records = [record for record in records if record.offset >= first_offset]
    if not records:
        return b"", 0
    builder = MessageSetBuilder(
        magic, codec=codec, base_offset=records[0].offset, timestamp_type=batch.timestamp_type
    )
    try:
        for record in records:
            builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    except (ValueError, StructError) as error:
        # Checksums are not checked here, so damage can show as offsets that fall or exceed 64 bits.
        raise CorruptRecord(f"invalid records in a batch: {error}") from error
    return builder.build(), max(builder.estimated_size, len(records) * BYTES_PER_RECORD)
