"""Zigzag variable-length integers, as records of magic 2 hold them.

A signed number is folded to an unsigned one (0, -1, 1, -2 … become 0, 1, 2, 3 …) and written in groups of
seven bits, least significant first; the top bit of a byte means that another follows. A varint (32 bits)
takes 1 to 5 bytes, a varlong (64 bits) 1 to 10.
"""

from __future__ import annotations

from struct import Struct

from kcli.protocol.corruption import CorruptRecord

_LAST_GROUP_SHIFT_32 = 28
_LAST_GROUP_SHIFT_64 = 63


def _encode_unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append((value & 0x7F) | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# A table of the numbers of one and two bytes, by far the most common, indexed by the folded value. One call
# cuts it from two rows of bytes: making the numbers one by one would cost some ms of every start.
_LOW = bytes(range(0x80, 0x100)) * 63
_HIGH = b"".join(bytes((high,)) * 128 for high in range(1, 64))
_PAIRS = bytearray(2 * len(_LOW))
_PAIRS[::2], _PAIRS[1::2] = _LOW, _HIGH
SMALL_VARINTS: tuple[bytes, ...] = Struct("1s" * 128 + "2s" * len(_LOW)).unpack(bytes(range(128)) + _PAIRS)
SMALL_VARINT_LIMIT = len(SMALL_VARINTS) // 2


def encode_varint(value: int) -> bytes:
    """Return `value` (at most 64 bits signed) as a zigzag varint or varlong."""
    folded = (value << 1) ^ (value >> 63)
    return SMALL_VARINTS[folded] if folded < 8192 else _encode_unsigned(folded)


def wrap_int64(value: int) -> int:
    """Return `value` wrapped to a signed 64-bit number, as sums and differences of timestamps are."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return the 32-bit number at `position` and the position after it; raise `CorruptRecord`."""
    return _read(data, position, _LAST_GROUP_SHIFT_32)


def read_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return the 64-bit number at `position` and the position after it; raise `CorruptRecord`."""
    return _read(data, position, _LAST_GROUP_SHIFT_64)


def _read(data: bytes | bytearray | memoryview, position: int, last_shift: int) -> tuple[int, int]:
    folded = 0
    shift = 0
    end = len(data)
    while True:
        if position >= end:
            raise CorruptRecord("a record ends inside a number")
        byte = data[position]
        position += 1
        folded |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            raise CorruptRecord("a number in a record is longer than its type")
    # The last group of a full-length number has more bits than the type: cut them, as Java does.
    folded &= 0xFFFFFFFF if last_shift == _LAST_GROUP_SHIFT_32 else 0xFFFFFFFFFFFFFFFF
    return (folded >> 1) ^ -(folded & 1), position
