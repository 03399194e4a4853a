"""Unsigned varints: seven bits to a byte, least significant first, the high bit set on all but the last.

Flexible versions (KIP-482) use them for lengths, counts and tags, in at most five bytes for 32 bits. Records
use zigzag varints instead (`kcli.protocol.records.varints`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SIZE_BYTES = 5


def encode_unsigned_varint(value: int) -> bytes:
    """Return the shortest encoding of a value between 0 and 2^32 - 1."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_unsigned_varint(data: Sequence[int], position: int) -> tuple[int, int]:
    """Return the value at `position` and the position behind it.

    Raises `IndexError` at the end of the data and `ValueError` beyond five bytes or 32 bits.
    """
    value = 0
    for shift in range(0, 7 * MAX_SIZE_BYTES, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 32:
                raise ValueError("an unsigned varint of more than 32 bits")
            return value, position
    raise ValueError(f"an unsigned varint of more than {MAX_SIZE_BYTES} bytes")
