"""Record batches (magic 2): a batch in a buffer, and iterating over the batches of a buffer.

`batch_header` has the byte table of the header; one record behind it, decompressed, is:

    length      varint    bytes after this field
    attributes  int8      0
    timestamp   varlong   difference to the base timestamp
    offset      varint    difference to the base offset
    key         varint    length (-1 null), then the bytes
    value       varint    length (-1 null), then the bytes
    headers     varint    count, then each: name length and UTF-8 bytes, value length (-1 null) and bytes

If the timestamp type is append time, every record has the batch's max timestamp. Compaction leaves holes
between offsets, and batches without records: readers advance by `next_offset`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, decompress
from kcli.protocol.corruption import MAX_DECOMPRESSED_BYTES, CorruptRecord, TooMuchData
from kcli.protocol.records.batch_header import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
    MIN_LENGTHS,
    SEQUENCE_MASK,
    SIZE_POSITION,
    TIMESTAMP_TYPE_BIT,
    BatchHead,
    BatchProperties,
    batch_crc,
)
from kcli.protocol.records.record import NO_SEQUENCE, Record
from kcli.protocol.records.varints import read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.records.message_set import LegacyEntry


def parse_records(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    base_sequence: int,
) -> Iterator[Record]:
    """Yield `count` records; raise `CorruptRecord` unless they fill `data` exactly.

    This runs for every record consumed. It is one long function because numbers of one and two bytes, nearly
    all of them, are decoded in line, which was measured to be faster.
    """
    end = len(data)
    position = 0
    headers: tuple[tuple[str, bytes | None], ...]
    try:
        for _ in range(count):
            byte = data[position]
            position += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            elif (second := data[position]) < 0x80:
                folded = (byte & 0x7F) | (second << 7)
                length = (folded >> 1) ^ -(folded & 1)
                position += 1
            else:
                length, position = read_varint(data, position - 1)
            record_end = position + length
            if length < 0 or record_end > end:
                raise CorruptRecord(f"a record of {length} bytes does not fit its batch")
            position += 1  # the attributes, unused so far

            byte = data[position]
            position += 1
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
            elif (second := data[position]) < 0x80:
                folded = (byte & 0x7F) | (second << 7)
                timestamp_delta = (folded >> 1) ^ -(folded & 1)
                position += 1
            else:
                timestamp_delta, position = read_varlong(data, position - 1)
                timestamp_delta = wrap_int64(base_timestamp + timestamp_delta) - base_timestamp

            byte = data[position]
            position += 1
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
            elif (second := data[position]) < 0x80:
                folded = (byte & 0x7F) | (second << 7)
                offset_delta = (folded >> 1) ^ -(folded & 1)
                position += 1
            else:
                offset_delta, position = read_varint(data, position - 1)

            byte = data[position]
            position += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = read_varint(data, position - 1)
            if length >= 0:
                key = data[position : position + length]
                position += length
            elif length == -1:
                key = None
            else:
                raise CorruptRecord(f"a key cannot have {length} bytes")

            byte = data[position]
            position += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            elif (second := data[position]) < 0x80:
                folded = (byte & 0x7F) | (second << 7)
                length = (folded >> 1) ^ -(folded & 1)
                position += 1
            else:
                length, position = read_varint(data, position - 1)
            if length >= 0:
                value = data[position : position + length]
                position += length
            elif length == -1:
                value = None
            else:
                raise CorruptRecord(f"a value cannot have {length} bytes")

            if data[position]:  # the number of headers
                headers, position = _parse_headers(data, position, record_end)
            else:
                headers = ()
                position += 1
            if position != record_end:
                raise CorruptRecord("a record does not end where its length says")
            yield Record(
                base_offset + offset_delta,
                base_timestamp + timestamp_delta if append_time is None else append_time,
                key,
                value,
                headers,
                NO_SEQUENCE if base_sequence < 0 else (base_sequence + offset_delta) & SEQUENCE_MASK,
            )
    except IndexError as error:
        raise CorruptRecord("a record batch holds fewer records than it declares") from error
    if position != end:
        raise CorruptRecord("a record batch holds more than the records it declares")


def _parse_headers(
    data: bytes, position: int, record_end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Return the headers at `position` and the position after them."""
    count, position = read_varint(data, position)
    # A header takes at least two bytes: check the count before making any.
    if not 0 <= count <= (record_end - position) // 2:
        raise CorruptRecord(f"a record cannot hold {count} headers")
    headers = []
    for _ in range(count):
        byte = data[position]
        position += 1
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
        else:
            length, position = read_varint(data, position - 1)
        if not 0 <= length <= record_end - position:
            raise CorruptRecord(f"a header name cannot have {length} bytes")
        # Any bytes are sound: each sequence that is not UTF-8 becomes one U+FFFD, as in Java.
        name = data[position : position + length].decode(errors="replace")
        position += length
        byte = data[position]
        position += 1
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
        else:
            length, position = read_varint(data, position - 1)
        if not -1 <= length <= record_end - position:
            raise CorruptRecord(f"a header value cannot have {length} bytes")
        value = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        headers.append((name, value))
    return tuple(headers), position


_SIZE = Struct(">i")


class RecordBatch(BatchProperties):
    """The batch at `position` of `buffer`: its header is decoded, its records are read on demand.

    The buffer may end behind the header: only `records`, `is_valid_crc` and `to_bytes` need the rest. Raises
    `CorruptRecord` for a header that is cut short or invalid.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "count",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "size_in_bytes",
    )

    size_in_bytes: int
    partition_leader_epoch: int
    crc: int
    max_timestamp: int
    producer_epoch: int
    count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        if len(buffer) - position < HEADER_SIZE:
            raise CorruptRecord("a record batch ends inside its header")
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(buffer, position)
        if self.magic != MAGIC:
            raise CorruptRecord(f"not a record batch: magic {self.magic}")
        if length < MIN_BATCH_LENGTH:
            raise CorruptRecord(f"a record batch cannot be as short as {LOG_OVERHEAD + length} bytes")
        self.size_in_bytes = LOG_OVERHEAD + length

    def __repr__(self) -> str:
        return (
            f"RecordBatch(base_offset={self.base_offset}, last_offset={self.last_offset}, "
            f"count={self.count}, size_in_bytes={self.size_in_bytes}, attributes={self.attributes:#x})"
        )

    def head(self, position: int | None = None) -> BatchHead:
        """Return the header by itself, of a batch that stands at `position` of a file."""
        return BatchHead.at(self.buffer, self.position, position)

    def is_valid_crc(self) -> bool:
        """Return whether the batch is complete and its checksum right."""
        if len(self.buffer) - self.position < self.size_in_bytes:
            return False
        return batch_crc(self.buffer, self.position, self.size_in_bytes) == self.crc

    def to_bytes(self) -> bytes:
        """Return a copy of the whole batch; raise `CorruptRecord` if its end is missing."""
        return bytes(self._whole())

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """Yield the records in offset order, decompressed to at most `max_bytes`.

        Raises `CorruptRecord` at the first byte that contradicts the format, possibly after some records;
        does not check the checksum.
        """
        return self.parse_records(self.record_data(max_bytes))

    def parse_records(self, data: bytes) -> Iterator[Record]:
        """Yield the records in what `record_data` returned, which may run in another thread."""
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None
        return parse_records(
            data, self.count, self.base_offset, self.base_timestamp, append_time, self.base_sequence
        )

    def record_data(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
        """Return the bytes of the records, decompressed to at most `max_bytes`; raise `CorruptRecord`."""
        if self.count < 0:
            raise CorruptRecord(f"a record batch cannot hold {self.count} records")
        if self.count == 0:
            # Compaction left only the header: nothing is compressed, whatever the attributes say.
            return b""
        payload = self._whole()[HEADER_SIZE:]
        codec = self.codec
        if codec is not Codec.NONE:
            return decompress(codec, payload, max_bytes)
        if len(payload) > max_bytes:
            raise TooMuchData.above(max_bytes)
        return bytes(payload)

    def _whole(self) -> memoryview:
        if len(self.buffer) - self.position < self.size_in_bytes:
            raise CorruptRecord("a record batch is cut short")
        return memoryview(self.buffer)[self.position : self.position + self.size_in_bytes]


def iter_batches(
    buffer: Buffer, start: int = 0, end: int | None = None
) -> Iterator[RecordBatch | LegacyEntry]:
    """Yield the batches and older entries in `buffer` from `start`, where one begins, to `end`.

    Skips an incomplete one at the end, as fetches and torn files have it. Raises `CorruptRecord` for a size
    below the least and for an unknown magic.
    """
    limit = len(buffer) if end is None else end
    position = start
    while limit - position > MAGIC_POSITION:
        (size,) = _SIZE.unpack_from(buffer, position + SIZE_POSITION)
        if size < MIN_LENGTHS[0]:
            raise CorruptRecord(f"an entry cannot be as short as {LOG_OVERHEAD + size} bytes")
        magic = buffer[position + MAGIC_POSITION]
        if magic > MAGIC:
            raise CorruptRecord(f"unknown magic: {magic}")
        if LOG_OVERHEAD + size > limit - position:
            return
        if magic == MAGIC:
            yield RecordBatch(buffer, position)
        else:
            # Imported on first use: few logs still hold the older formats.
            from kcli.protocol.records.message_set import LegacyEntry

            yield LegacyEntry(buffer, position)
        position += LOG_OVERHEAD + size
