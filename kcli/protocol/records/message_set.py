"""Message sets (magic 0 and 1): the format of Kafka before 0.11.

A message set is entries one after the other, each:

| offset  | size | field                                                                      |
|---------|------|----------------------------------------------------------------------------|
| 0       | 8    | offset                                                                     |
| 8       | 4    | size: bytes after this field, at least 14 (magic 0) or 22 (magic 1)        |
| 12      | 4    | CRC-32 (that of `zlib`) over bytes 16 to the end                           |
| 16      | 1    | magic, 0 or 1                                                              |
| 17      | 1    | attributes: bits 0-2 codec, 3 timestamp type (magic 1)                     |
| 18      | 8    | timestamp in ms, -1 none (magic 1 only)                                    |
| 18 / 26 | 4+k  | key length (-1 null) and key                                               |
| …       | 4+v  | value length (-1 null) and value                                           |

Compression makes a wrapper: an entry without a key whose value is a compressed message set of plain
entries. The wrapper's offset is that of its last inner entry. Inner offsets are absolute in magic 0 and
relative in magic 1: inner + wrapper - last inner. Old versions of librdkafka send wrappers of offset 0,
whose inner offsets then count from 0. A wrapper of append time dates all its entries; one of create time
carries the largest of their timestamps.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING, ClassVar

from kcli.protocol.compression.codecs import Codec, compress, decompress
from kcli.protocol.corruption import BYTES_PER_RECORD, MAX_DECOMPRESSED_BYTES, CorruptRecord, TooMuchData
from kcli.protocol.records.batch_header import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MIN_LENGTHS,
    TIMESTAMP_TYPE_BIT,
    AttributeProperties,
    BatchHead,
)
from kcli.protocol.records.record import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Record,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer

_HEADER = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_OFFSET_AND_SIZE = Struct(">qi")
_CRC_START = 16


class LegacyEntry(AttributeProperties):
    """The entry at `position` of `buffer`: a record, or a wrapper of several.

    It has those names of a `RecordBatch` that apply to it. Raises `CorruptRecord` if it is cut short or of
    another magic; key and value are read on demand.
    """

    __slots__ = ("attributes", "buffer", "crc", "magic", "offset", "position", "size_in_bytes", "timestamp")

    partition_leader_epoch: ClassVar[int] = NO_LEADER_EPOCH
    producer_id: ClassVar[int] = NO_PRODUCER_ID
    producer_epoch: ClassVar[int] = NO_PRODUCER_EPOCH
    base_sequence: ClassVar[int] = NO_SEQUENCE
    last_sequence: ClassVar[int] = NO_SEQUENCE
    has_producer_id: ClassVar[bool] = False
    is_transactional: ClassVar[bool] = False
    is_control: ClassVar[bool] = False
    delete_horizon_ms: ClassVar[int | None] = None

    offset: int
    size_in_bytes: int
    crc: int
    timestamp: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        if len(buffer) - position < _HEADER.size:
            raise CorruptRecord("an entry ends inside its header")
        self.buffer = buffer
        self.position = position
        self.offset, size, self.crc, self.magic, self.attributes = _HEADER.unpack_from(buffer, position)
        if not 0 <= self.magic <= 1:
            raise CorruptRecord(f"not an entry of a message set: magic {self.magic}")
        if size < MIN_LENGTHS[self.magic]:
            raise CorruptRecord(f"an entry cannot be as short as {LOG_OVERHEAD + size} bytes")
        self.size_in_bytes = LOG_OVERHEAD + size
        self.timestamp = NO_TIMESTAMP
        if self.magic == 1:
            if len(buffer) - position < _HEADER.size + _TIMESTAMP.size:
                raise CorruptRecord("an entry ends inside its header")
            (self.timestamp,) = _TIMESTAMP.unpack_from(buffer, position + _HEADER.size)

    def __repr__(self) -> str:
        return (
            f"LegacyEntry(offset={self.offset}, magic={self.magic}, size_in_bytes={self.size_in_bytes}, "
            f"attributes={self.attributes:#x})"
        )

    def head(self, position: int | None = None) -> BatchHead:
        """Return the header by itself, of an entry that stands at `position` of a file."""
        return BatchHead.at(self.buffer, self.position, position)

    @property
    def is_compressed(self) -> bool:
        return bool(self.attributes & CODEC_MASK)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp inside, -1 without one."""
        return self.timestamp

    @property
    def base_offset(self) -> int:
        """The offset of the first record; a wrapper is decompressed to learn it."""
        return next(self.records()).offset if self.is_compressed else self.offset

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    @property
    def count(self) -> int:
        """The number of records; a wrapper is decompressed to learn it."""
        return sum(1 for _ in self.records()) if self.is_compressed else 1

    def is_valid_crc(self) -> bool:
        """Return whether the entry is complete and its checksum right; inner entries have their own."""
        end = self.position + self.size_in_bytes
        if len(self.buffer) < end:
            return False
        return zlib.crc32(memoryview(self.buffer)[self.position + _CRC_START : end]) == self.crc

    def to_bytes(self) -> bytes:
        """Return a copy of the whole entry; raise `CorruptRecord` if its end is missing."""
        if len(self.buffer) - self.position < self.size_in_bytes:
            raise CorruptRecord("an entry is cut short")
        return bytes(self.buffer[self.position : self.position + self.size_in_bytes])

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """Yield the record, or those of a wrapper decompressed to at most `max_bytes`.

        Raises `CorruptRecord` for bytes that contradict the format; does not check checksums.
        """
        if not self.is_compressed:
            key, value = self.key_and_value()
            yield Record(self.offset, self.timestamp, _copied(key), _copied(value))
            return
        yield from self.inner_records(self.inner_entries(max_bytes))

    def inner_records(self, entries: list[LegacyEntry]) -> Iterator[Record]:
        """Yield the records of a wrapper whose entries `inner_entries` returned."""
        base_offset = self._inner_base_offset(entries)
        append_time = self.timestamp if self.attributes & TIMESTAMP_TYPE_BIT and self.magic == 1 else None
        for entry in entries:
            key, value = entry.key_and_value()
            timestamp = entry.timestamp if append_time is None else append_time
            yield Record(base_offset + entry.offset, timestamp, _copied(key), _copied(value))

    def inner_entries(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[LegacyEntry]:
        """Return the entries of a wrapper with their stored offsets.

        Raises `CorruptRecord`, and `TooMuchData` for more than `max_bytes`, an entry counting for
        `BYTES_PER_RECORD`.
        """
        codec = self.codec
        if codec is Codec.ZSTD:
            raise CorruptRecord(f"magic {self.magic} does not know zstd")
        _, value = self.key_and_value()
        if value is None:
            raise CorruptRecord("a wrapper without a value")
        data = decompress(codec, value, max_bytes, magic=self.magic)
        entries: list[LegacyEntry] = []
        position = 0
        while position < len(data):
            if len(entries) * BYTES_PER_RECORD > max_bytes:
                raise TooMuchData(f"a wrapper of more than {len(entries)} entries")
            entry = LegacyEntry(data, position)
            position += entry.size_in_bytes
            if position > len(data):
                raise CorruptRecord("the last entry of a wrapper is cut short")
            if entry.is_compressed:
                raise CorruptRecord("a wrapper inside a wrapper")
            entries.append(entry)
        if not entries:
            raise CorruptRecord("a wrapper without entries")
        return entries

    def _inner_base_offset(self, entries: list[LegacyEntry]) -> int:
        """Return what makes an inner offset absolute when added (Kafka's `AbstractLegacyRecordBatch`)."""
        if self.magic == 0 or self.offset == 0:
            return 0
        last = entries[-1].offset
        if self.offset < last:
            raise CorruptRecord(f"a wrapper's offset {self.offset} lies before its last entry's: {last}")
        return self.offset - last

    def key_and_value(self) -> tuple[memoryview | None, memoryview | None]:
        """Return views of key and value; raise `CorruptRecord` if they do not fill the entry exactly."""
        end = self.position + self.size_in_bytes
        if len(self.buffer) < end:
            raise CorruptRecord("an entry is cut short")
        view = memoryview(self.buffer)[:end]
        start = self.position + _HEADER.size + (_TIMESTAMP.size if self.magic == 1 else 0)
        key, start = _read_bytes(view, start)
        value, start = _read_bytes(view, start)
        if start != end:
            raise CorruptRecord("an entry does not end where its size says")
        return key, value


class MessageSetBuilder:
    """Collects records and builds a message set of magic 0 or 1: plain entries, or one wrapper of a codec.

    Under `TimestampType.LOG_APPEND_TIME` the caller passes the append time with every record.
    """

    __slots__ = (
        "_entries",
        "_last_offset",
        "_max_timestamp",
        "base_offset",
        "codec",
        "magic",
        "timestamp_type",
    )

    def __init__(
        self,
        magic: int,
        *,
        codec: Codec = Codec.NONE,
        base_offset: int = 0,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> None:
        if codec is Codec.ZSTD:
            raise ValueError("message sets do not know zstd")
        self.magic = magic
        self.codec = codec
        self.base_offset = base_offset
        self.timestamp_type = timestamp_type
        self._entries = bytearray()
        self._last_offset = base_offset - 1
        self._max_timestamp = NO_TIMESTAMP

    @property
    def estimated_size(self) -> int:
        """The size of the set in bytes; with a codec, before compression."""
        return len(self._entries)

    def append(
        self, timestamp: int, key: Buffer | None, value: Buffer | None, *, offset: int | None = None
    ) -> int:
        """Add a record at the next offset, or at a later given one; return the offset."""
        if offset is None:
            offset = self._last_offset + 1
        elif offset <= self._last_offset:
            raise ValueError(f"offset {offset} comes after {self._last_offset}")
        self._last_offset = offset
        self._max_timestamp = max(self._max_timestamp, timestamp)
        compressed = self.codec is not Codec.NONE
        stored_offset = offset - self.base_offset if compressed and self.magic == 1 else offset
        self._entries += encode_entry(stored_offset, self.magic, self._timestamp_bit(), timestamp, key, value)
        return offset

    def build(self) -> bytes:
        """Return the message set; no bytes without records."""
        entries = bytes(self._entries)
        if self.codec is Codec.NONE or not entries:
            return entries
        value = compress(self.codec, entries, magic=self.magic)
        attributes = self.codec | self._timestamp_bit()
        return encode_entry(self._last_offset, self.magic, attributes, self._max_timestamp, None, value)

    def _timestamp_bit(self) -> int:
        if self.magic == 1 and self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return TIMESTAMP_TYPE_BIT
        return 0


def encode_entry(
    offset: int, magic: int, attributes: int, timestamp: int, key: Buffer | None, value: Buffer | None
) -> bytes:
    """Return one entry; magic 0 has no timestamp."""
    checked = b"".join(
        (
            bytes((magic, attributes)),
            _TIMESTAMP.pack(timestamp) if magic == 1 else b"",
            _LENGTH.pack(-1 if key is None else len(key)),
            b"" if key is None else key,
            _LENGTH.pack(-1 if value is None else len(value)),
            b"" if value is None else value,
        )
    )
    return _OFFSET_AND_SIZE.pack(offset, len(checked) + 4) + _CRC.pack(zlib.crc32(checked)) + checked


def _read_bytes(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    """Return the bytes behind the int32 length at `position`, and the position after them."""
    start = position + _LENGTH.size
    if start > len(view):
        raise CorruptRecord("an entry ends inside a length")
    (length,) = _LENGTH.unpack_from(view, position)
    if length == -1:
        return None, start
    if not 0 <= length <= len(view) - start:
        raise CorruptRecord(f"a key or value of {length} bytes does not fit its entry")
    return view[start : start + length], start + length


def _copied(data: memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
