"""The header of a record batch (magic 2), and what may be changed in it once a batch is built.

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
takes a new CRC. The functions here change a batch in place, at `position` of a writable buffer.

CRC-32C (Castagnoli), the checksum of a record batch and of a producer snapshot.

The `crc32c` package asks the installed distribution for its version when imported, which costs ten times
what its extension module does, so the extension is loaded by itself; a layout it cannot be found in falls
back to the plain import. The checksum of the older formats is `zlib.crc32`.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from kcli.protocol.record import TimestampType

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer


class Checksum(Protocol):
    """The CRC of `data`, continuing from `value`, the CRC of the bytes before it."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load_crc32c() -> Checksum:
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

# Of all formats: the size is the number of bytes after offset and size, the magic stands where it always did.
LOG_OVERHEAD = 12
SIZE_POSITION = 8
MAGIC_POSITION = 16
# The smallest value of the batch length field.
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

# Sequence numbers wrap from 2147483647 to 0.
SEQUENCE_MASK = 0x7FFFFFFF

_LENGTH = Struct(">i")
EPOCH_POSITION = 12
_BASE_OFFSET = Struct(">q")
_CRC = Struct(">I")
_CRC_POSITION = 17
CRC_START = 21
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_PRODUCER_STATE = Struct(">qhi")
_PRODUCER_STATE_POSITION = 43


def batch_crc(buffer: Buffer, position: int, size_in_bytes: int) -> int:
    """The CRC-32C that the batch of `size_in_bytes` at `position` should carry."""
    return crc32c(memoryview(buffer)[position + CRC_START : position + size_in_bytes])


def set_base_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Give the batch its place in the log; the CRC does not cover it."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + EPOCH_POSITION, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Make `timestamp` (ms), the broker's clock, the time of every record, whatever the client set."""
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
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp)
    update_crc(buffer, position)


def set_producer_state(
    buffer: bytearray | memoryview, position: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Stamp the batch with an idempotent producer's identity and the sequence of its first record."""
    _PRODUCER_STATE.pack_into(
        buffer, position + _PRODUCER_STATE_POSITION, producer_id, producer_epoch, base_sequence
    )
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Recompute the checksum of the whole batch at `position`."""
    (length,) = _LENGTH.unpack_from(buffer, position + SIZE_POSITION)
    _CRC.pack_into(buffer, position + _CRC_POSITION, batch_crc(buffer, position, LOG_OVERHEAD + length))


def next_sequence(base_sequence: int, increment: int) -> int:
    """The sequence number `increment` records after `base_sequence`; none stays none."""
    return base_sequence if base_sequence < 0 else (base_sequence + increment) & SEQUENCE_MASK
