"""The header of a record batch (magic 2), and what may be changed in it after a batch was built.

| offset | size | field                                                                       |
|--------|------|-----------------------------------------------------------------------------|
| 0      | 8    | base offset                                                                 |
| 8      | 4    | batch length: bytes after this field, at least 49                           |
| 12     | 4    | partition leader epoch (-1 none)                                            |
| 16     | 1    | magic = 2 (message sets have theirs at the same place)                      |
| 17     | 4    | CRC-32C over bytes 21 to the end                                            |
| 21     | 2    | attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,   |
|        |      | 6 delete horizon set                                                        |
| 23     | 4    | last offset delta                                                           |
| 27     | 8    | base timestamp (the delete horizon if bit 6 is set)                         |
| 35     | 8    | max timestamp                                                               |
| 43     | 8    | producer id (-1 none)                                                       |
| 51     | 2    | producer epoch (-1 none)                                                    |
| 53     | 4    | base sequence (-1 none)                                                     |
| 57     | 4    | record count                                                                |
| 61     | …    | records; one compressed blob when the codec is not 0                        |

Base offset and leader epoch lie outside the CRC, so a leader patches them freely; every other change
needs a new CRC. The functions here change a batch in place, at `position` of a writable buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.record import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TimestampType,
)

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer


Checksum = Callable[..., int]
"""Takes the data and the CRC of the bytes before it (0 if not given), and returns the CRC of both."""


def _load_crc32c() -> Checksum:
    """Load CRC-32C (Castagnoli); the checksum of the older formats is `zlib.crc32`.

    `import crc32c` asks the installed distribution for its version, which costs ten times what its extension
    module does, so the extension is loaded by itself, or the package where that is laid out otherwise.
    """
    name = "crc32c._crc32c"
    loaded = sys.modules.get(name)
    if loaded is None:
        package = PathFinder.find_spec("crc32c")
        locations = package.submodule_search_locations if package is not None else None
        extension = PathFinder.find_spec(name, locations) if locations is not None else None
        if extension is None or extension.loader is None:
            from crc32c import crc32c as imported

            return imported
        loaded = module_from_spec(extension)
        extension.loader.exec_module(loaded)
        # A later `import crc32c` finds the module instead of loading it a second time.
        sys.modules[name] = loaded
    checksum: Checksum = loaded.crc32c
    return checksum


crc32c: Checksum = _load_crc32c()


HEADER = Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size

# In all formats the size counts the bytes after offset and size, and the magic stands at the same place.
LOG_OVERHEAD = 12
SIZE_POSITION = 8
EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_START = 21
LAST_OFFSET_DELTA_POSITION = 23
MAX_TIMESTAMP_POSITION = 35

MAGIC = 2
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD
MIN_LENGTHS = (14, 22, MIN_BATCH_LENGTH)
"""The smallest value of the size field, by magic."""
MIN_RECORD_BYTES = 7
MAX_OFFSET = 2**63 - 1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

# Sequence numbers wrap from 2147483647 to 0.
SEQUENCE_MASK = 0x7FFFFFFF

_LENGTH = Struct(">i")
_BASE_OFFSET = Struct(">q")
_CRC = Struct(">I")
_CRC_POSITION = 17
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_POSITION = 21
_TIMESTAMP = Struct(">q")
_PRODUCER_STATE = Struct(">qhi")
_PRODUCER_STATE_POSITION = 43
# Offset, size, CRC, magic, attributes of an older entry; magic 1 has a timestamp behind them.
_LEGACY_HEADER = Struct(">qiIbB")


class AttributeProperties:
    """What the attributes of a batch, or of an entry of an older format, say."""

    __slots__ = ()

    magic: int
    attributes: int

    @property
    def codec(self) -> Codec:
        """The codec of the records. Raises `CorruptRecord` for an unknown one."""
        return Codec.of_attributes(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps; magic 0 has none."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME


class BatchProperties(AttributeProperties):
    """What follows from the fields of a batch's header, whichever object holds them."""

    __slots__ = ()

    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    producer_id: int
    base_sequence: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record the batch was built with, even if compaction removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset at which a reader continues."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record the batch was built with, -1 without an idempotent producer."""
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are one compressed blob. Raises `CorruptRecord` for an unknown codec."""
        return self.codec is not Codec.NONE

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0 and self.magic == MAGIC

    @property
    def is_control(self) -> bool:
        """Whether its record is a control record, which applications never see."""
        return self.attributes & CONTROL_BIT != 0 and self.magic == MAGIC

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones in this batch, None before the first cleaning."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


class _HeaderFields(NamedTuple):
    position: int
    base_offset: int
    length: int
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
    count: int  # type: ignore[assignment]  # the record count hides the method of tuples


class BatchHead(BatchProperties, _HeaderFields):
    """The header of the batch at `position`, without its records; an older entry has one too.

    The fields stand in the order of `HEADER`: hot loops build a head of a batch by
    `tuple.__new__(BatchHead, (position, *HEADER.unpack_from(buffer, position)))`.

    An older entry has no leader epoch, producer and sequence. Its base offset is the offset it carries, that
    of its last record; its last offset delta is 0; both timestamps are the one it carries (-1 in magic 0);
    its count is 1, and -1 for a compressed one, which holds any number of records.
    """

    __slots__ = ()

    @classmethod
    def at(cls, buffer: Buffer, at: int = 0, position: int | None = None) -> BatchHead:
        """Return the head at `at` of `buffer`, which is `position` of the file (`at` if not given).

        Raises `CorruptRecord` for an unknown magic, a size below the least, or too few bytes for the header.
        The batch itself may be longer than the buffer.
        """
        if position is None:
            position = at
        available = len(buffer) - at
        if available <= MAGIC_POSITION:
            raise CorruptRecord("a record batch ends inside its header")
        magic = buffer[at + MAGIC_POSITION]
        if magic > MAGIC:
            raise CorruptRecord(f"unknown magic: {magic}")
        (length,) = _LENGTH.unpack_from(buffer, at + SIZE_POSITION)
        if length < MIN_LENGTHS[magic]:
            raise CorruptRecord(f"a record batch cannot be as short as {LOG_OVERHEAD + length} bytes")
        if magic == MAGIC:
            if available < HEADER_SIZE:
                raise CorruptRecord("a record batch ends inside its header")
            return tuple.__new__(cls, (position, *HEADER.unpack_from(buffer, at)))
        timestamp_at = _LEGACY_HEADER.size
        if available < timestamp_at + magic * _TIMESTAMP.size:
            raise CorruptRecord("a record batch ends inside its header")
        offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(buffer, at)
        timestamp = _TIMESTAMP.unpack_from(buffer, at + timestamp_at)[0] if magic else NO_TIMESTAMP
        return cls(
            position,
            offset,
            length,
            NO_LEADER_EPOCH,
            magic,
            crc,
            attributes,
            0,
            timestamp,
            timestamp,
            NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH,
            NO_SEQUENCE,
            -1 if attributes & CODEC_MASK else 1,
        )

    @property
    def size_in_bytes(self) -> int:
        """How many bytes the batch takes, header included."""
        return LOG_OVERHEAD + self.length

    @property
    def end(self) -> int:
        """Where the next batch begins."""
        return self.position + LOG_OVERHEAD + self.length


def batch_crc(buffer: Buffer, position: int, size_in_bytes: int) -> int:
    """Return the CRC-32C of the batch of `size_in_bytes` at `position`."""
    return crc32c(memoryview(buffer)[position + CRC_START : position + size_in_bytes])


def set_base_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Set base offset and leader epoch, which the CRC does not cover."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + EPOCH_POSITION, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Make `timestamp` (ms) the append time, which replaces the timestamps of all records."""
    set_max_timestamp(buffer, position, TimestampType.LOG_APPEND_TIME, timestamp)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, timestamp_type: TimestampType, timestamp: int
) -> None:
    """Set the largest timestamp and who set it (Kafka's `MutableRecordBatch.setMaxTimestamp`)."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_POSITION)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    else:
        attributes &= ~TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, timestamp)
    update_crc(buffer, position)


def set_producer_state(
    buffer: bytearray | memoryview, position: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Set the id and epoch of an idempotent producer, and the sequence of the first record."""
    _PRODUCER_STATE.pack_into(
        buffer, position + _PRODUCER_STATE_POSITION, producer_id, producer_epoch, base_sequence
    )
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Recompute the checksum of the whole batch at `position`."""
    (length,) = _LENGTH.unpack_from(buffer, position + SIZE_POSITION)
    _CRC.pack_into(buffer, position + _CRC_POSITION, batch_crc(buffer, position, LOG_OVERHEAD + length))


def next_sequence(base_sequence: int, increment: int) -> int:
    """Return the sequence number `increment` records after `base_sequence`; -1 stays -1."""
    return base_sequence if base_sequence < 0 else (base_sequence + increment) & SEQUENCE_MASK
