"""Checks the records of a batch without decoding them, and finds their smallest and largest timestamp.

This runs for every record of every small batch produced, so numbers of one and two bytes, nearly all of them,
are decoded in line and nothing is allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.varints import read_varint, read_varlong

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer


def walk_records(data: Buffer, position: int, count: int) -> tuple[int, int, bool, bool]:
    """Check `count` records (at least one) that must fill `data` from `position` to its end.

    Returns the smallest and the largest timestamp delta, whether the offset deltas are 0, 1, 2 …, and whether
    every record has a key. Raises `CorruptRecord` if the records contradict the format.
    """
    end = len(data)
    min_delta, max_delta = 2**64, -(2**64)
    dense = keyed = True
    try:
        for index in range(count):
            byte = data[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif (second := data[position + 1]) < 0x80 and not byte & 1:
                length = (byte & 0x7F | second << 7) >> 1
                position += 2
            else:
                length, position = read_varint(data, position)
            record_end = position + length
            if length < 0 or record_end > end:
                raise CorruptRecord(f"a record of {length} bytes does not fit its batch")

            byte = data[position + 1]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 2
            else:
                delta, position = read_varlong(data, position + 1)
            if delta > max_delta:
                max_delta = delta
            if delta < min_delta:
                min_delta = delta

            byte = data[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif (second := data[position + 1]) < 0x80 and not byte & 1:
                offset_delta = (byte & 0x7F | second << 7) >> 1
                position += 2
            else:
                offset_delta, position = read_varint(data, position)
            if offset_delta != index:
                dense = False

            byte = data[position]
            if byte == 1:
                keyed = False
                position += 1
            elif byte < 0x80 and not byte & 1:
                position += 1 + (byte >> 1)
            else:
                position = _skip_bytes(data, position)
            byte = data[position]
            if byte < 0x80 and not byte & 1:
                position += 1 + (byte >> 1)
            elif byte & 0x81 == 0x80 and (second := data[position + 1]) < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                position = _skip_bytes(data, position)
            position = _skip_headers(data, position, record_end) if data[position] else position + 1
            if position != record_end:
                raise CorruptRecord("a record does not end where its length says")
    except IndexError as error:
        raise CorruptRecord("a record batch holds fewer records than it declares") from error
    if position != end:
        raise CorruptRecord("a record batch holds more than the records it declares")
    return min_delta, max_delta, dense, keyed


def is_one_record(data: Buffer, position: int) -> bool:
    """Return whether `data` holds, from `position` to its end, exactly one simple record.

    Such a record has no headers, deltas of 0 and at most 8191 bytes; `walk_records` checks others.
    """
    try:
        byte = data[position]
        if byte < 0x80:
            position += 1
        elif (second := data[position + 1]) < 0x80:
            byte = byte & 0x7F | second << 7
            position += 2
        else:
            return False
        if byte & 1 or position + (byte >> 1) != len(data) or data[position + 1] or data[position + 2]:
            return False
        byte = data[position + 3]
        if byte == 1:
            position += 4
        elif byte < 0x80 and not byte & 1:
            position += 4 + (byte >> 1)
        else:
            return False
        byte = data[position]
        if byte < 0x80:
            position += 1
        elif (second := data[position + 1]) < 0x80:
            byte = byte & 0x7F | second << 7
            position += 2
        else:
            return False
        return not byte & 1 and position + (byte >> 1) + 1 == len(data) and not data[-1]
    except IndexError:
        return False


def _skip_bytes(data: Buffer, position: int) -> int:
    """Return the position behind a length (-1 null) and as many bytes."""
    length, position = read_varint(data, position)
    if length < -1:
        raise CorruptRecord(f"a key or value cannot have {length} bytes")
    return position + max(length, 0)


def _skip_headers(data: Buffer, position: int, record_end: int) -> int:
    """Return the position behind the headers of a record."""
    count, position = read_varint(data, position)
    # A header takes at least two bytes: check the count before the loop.
    if not 0 <= count <= max(record_end - position, 0) // 2:
        raise CorruptRecord(f"a record cannot hold {count} headers")
    for _ in range(count):
        length, position = read_varint(data, position)
        if not 0 <= length <= record_end - position:
            raise CorruptRecord(f"a header name cannot have {length} bytes")
        try:
            bytes(data[position : position + length]).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord("a header name is not UTF-8") from error
        position = _skip_bytes(data, position + length)
    return position
