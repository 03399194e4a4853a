"""Record batches (magic 2): a view of the header, the records behind it, and walking a buffer of them.

`record_batch_header` has the byte table of the header, `record_parser` that of the records.

A batch whose timestamp type is append time dates every record with its max timestamp. Compaction leaves
holes between offsets and batches of no records at all: readers advance by `next_offset`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.compression import Codec, decompress, too_large
from kcli.protocol.record import MAX_DECOMPRESSED_BYTES, CorruptRecord, Record, TimestampType
from kcli.protocol.record_batch_builder import RecordBatchBuilder
from kcli.protocol.record_batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MIN_BATCH_LENGTH,
    SIZE_POSITION,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    batch_crc,
    next_sequence,
    set_producer_state,
)
from kcli.protocol.record_parser import parse_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.message_set import LegacyEntry
    from kcli.protocol.record import Buffer

__all__ = [
    "HEADER_SIZE",
    "CorruptRecord",
    "RecordBatch",
    "RecordBatchBuilder",
    "iter_batches",
    "set_producer_state",
]

MAGIC = 2

# The smallest size field of the older formats: CRC, magic, attributes, two lengths.
_MIN_LEGACY_SIZE = 14
_SIZE = Struct(">i")


class RecordBatch:
    """The batch at `position` of `buffer`: its header, decoded; its records, on demand.

    The header alone may be there (a file is scanned by headers): only `records`, `is_valid_crc` and
    `to_bytes` need the rest. Raises `CorruptRecord` when the header is cut short or is none.
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

    base_offset: int
    size_in_bytes: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
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

    @property
    def last_offset(self) -> int:
        """The offset of the last record the batch was built with, even if compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where a reader goes on."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record the batch was built with, -1 without an idempotent producer."""
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """Raises `CorruptRecord` for a number that names none."""
        return Codec.of_attributes(self.attributes)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are one compressed blob."""
        return self.codec is not Codec.NONE

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether its one record is for the log itself and never handed to applications."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote it."""
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop the tombstones in here, None before the first cleaning."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def is_valid_crc(self) -> bool:
        """Whether all bytes are there and the checksum is theirs."""
        if len(self.buffer) - self.position < self.size_in_bytes:
            return False
        return batch_crc(self.buffer, self.position, self.size_in_bytes) == self.crc

    def to_bytes(self) -> bytes:
        """The whole batch, copied; raises `CorruptRecord` when its end is missing."""
        return bytes(self._whole())

    def records(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
        """The records in offset order, decompressed to at most `max_bytes`.

        Raises `CorruptRecord` at the first byte that contradicts the format, so possibly after some
        records; the checksum is not looked at.
        """
        return self.parse_records(self.record_data(max_bytes))

    def parse_records(self, data: bytes) -> Iterator[Record]:
        """The records in what `record_data` gave, which may have been called in another thread."""
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None
        return parse_records(
            data, self.count, self.base_offset, self.base_timestamp, append_time, self.base_sequence
        )

    def record_data(self, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
        """The bytes of the records, decompressed to at most `max_bytes`; raises `CorruptRecord`."""
        if self.count < 0:
            raise CorruptRecord(f"a record batch cannot hold {self.count} records")
        if self.count == 0:
            # What compaction leaves of a batch: nothing was compressed, whatever the attributes say.
            return b""
        payload = self._whole()[HEADER_SIZE:]
        codec = self.codec
        if codec is not Codec.NONE:
            return decompress(codec, payload, max_bytes)
        if len(payload) > max_bytes:
            raise too_large(max_bytes)
        return bytes(payload)

    def _whole(self) -> memoryview:
        if len(self.buffer) - self.position < self.size_in_bytes:
            raise CorruptRecord("a record batch is cut short")
        return memoryview(self.buffer)[self.position : self.position + self.size_in_bytes]


def iter_batches(
    buffer: Buffer, start: int = 0, end: int | None = None
) -> Iterator[RecordBatch | LegacyEntry]:
    """Walk the entries of any format in `buffer` from `start`, which is where one begins, to `end`.

    An incomplete entry at the end is passed over in silence: fetches and torn files end like that. A size
    that cannot be, or a magic that is none, raises `CorruptRecord`.
    """
    limit = len(buffer) if end is None else end
    position = start
    while limit - position > MAGIC_POSITION:
        (size,) = _SIZE.unpack_from(buffer, position + SIZE_POSITION)
        if size < _MIN_LEGACY_SIZE:
            raise CorruptRecord(f"an entry cannot be as short as {LOG_OVERHEAD + size} bytes")
        magic = buffer[position + MAGIC_POSITION]
        if magic > MAGIC:
            raise CorruptRecord(f"unknown magic: {magic}")
        if LOG_OVERHEAD + size > limit - position:
            return
        if magic == MAGIC:
            yield RecordBatch(buffer, position)
        else:
            # Imported here: few logs still hold the older formats.
            from kcli.protocol.message_set import LegacyEntry

            yield LegacyEntry(buffer, position)
        position += LOG_OVERHEAD + size
