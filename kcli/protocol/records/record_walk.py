"""Checks the records of a batch without decoding them, and finds their smallest and largest timestamp.

This runs for every record that is produced. `walk_records` is the optional extension module `_record_walk`
where it was built, and `walk_records_in_python` elsewhere: slower, with the same results and errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.corruption import BYTES_PER_RECORD, CorruptRecord
from kcli.protocol.records.varints import read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.corruption import Buffer

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


def walk_records_in_python(
    data: Buffer, position: int, count: int, base_timestamp: int
) -> tuple[int, int, bool, bool]:
    """Check `count` records (at least one) that must fill `data` from `position` to its end.

    Returns the smallest and the largest timestamp, whether the offset deltas are 0, 1, 2 …, and whether every
    record has a key. Raises `CorruptRecord` if the records contradict the format.
    """
    end = len(data)
    if not 0 <= position <= end:
        raise ValueError(f"byte {position} of {end}")
    if count < 1:
        raise CorruptRecord(f"a record batch cannot hold {count} records")
    # Reading a view byte by byte takes a third longer than reading bytes.
    read = bytes(data) if isinstance(data, memoryview) else data
    start = position
    min_delta, max_delta = 2**64, -(2**64)
    dense = keyed = True
    for index in range(count):
        if position >= end:
            raise CorruptRecord("a record batch holds fewer records than it declares")
        # Numbers of one and two bytes, nearly all of them, are decoded in line and nothing is allocated.
        try:
            byte = read[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif (second := read[position + 1]) < 0x80 and not byte & 1:
                length = (byte & 0x7F | second << 7) >> 1
                position += 2
            else:
                length, position = read_varint(read, position)
        except (IndexError, CorruptRecord):
            raise _bad_fields(index) from None
        record_end = position + length
        if length < 0 or record_end > end:
            raise CorruptRecord(f"record {index}: {length} bytes do not fit its batch")

        try:
            byte = read[position + 1]
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
                position += 2
            elif (second := read[position + 2]) < 0x80 and not byte & 1:
                delta = (byte & 0x7F | second << 7) >> 1
                position += 3
            else:
                delta, position = read_varlong(read, position + 1)
            if delta > max_delta:
                max_delta = delta
            if delta < min_delta:
                min_delta = delta

            byte = read[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            elif (second := read[position + 1]) < 0x80 and not byte & 1:
                offset_delta = (byte & 0x7F | second << 7) >> 1
                position += 2
            else:
                offset_delta, position = read_varint(read, position)
            if offset_delta != index:
                dense = False

            byte = read[position]
            if byte == 1:
                keyed = False
                position += 1
            elif byte < 0x80 and not byte & 1:
                position += 1 + (byte >> 1)
            else:
                length, position = _skip_bytes(read, position)
                keyed = keyed and length >= 0
            byte = read[position]
            if byte < 0x80 and not byte & 1:
                position += 1 + (byte >> 1)
            elif byte & 0x81 == 0x80 and (second := read[position + 1]) < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                _, position = _skip_bytes(read, position)
            position = _skip_headers(read, position, record_end) if read[position] else position + 1
        except (IndexError, CorruptRecord):
            raise _bad_fields(index) from None
        if position != record_end:
            raise _bad_fields(index)
    if position != end:
        raise CorruptRecord("a record batch holds more than the records it declares")
    smallest, largest = base_timestamp + min_delta, base_timestamp + max_delta
    if smallest >= _MIN_INT64 and largest <= _MAX_INT64:
        return smallest, largest, dense, keyed
    return *_wrapped_extremes(read, start, count, base_timestamp), dense, keyed


def _bad_fields(index: int) -> CorruptRecord:
    return CorruptRecord(f"record {index}: its fields do not fill its length")


def _skip_bytes(data: Buffer, position: int) -> tuple[int, int]:
    """Return a length (-1 null), and the position behind it and as many bytes."""
    length, position = read_varint(data, position)
    if length < -1:
        raise CorruptRecord(f"a key or value cannot have {length} bytes")
    return length, position + max(length, 0)


def _skip_headers(data: Buffer, position: int, record_end: int) -> int:
    """Return the position behind the headers of a record."""
    count, position = read_varint(data, position)
    # A header takes at least two bytes: check the count before the loop.
    if not 0 <= count <= max(record_end - position, 0) // 2:
        raise CorruptRecord(f"a record cannot hold {count} headers")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise CorruptRecord(f"a header name cannot have {length} bytes")
        _, position = _skip_bytes(data, position + length)
    return position


def _wrapped_extremes(data: Buffer, position: int, count: int, base_timestamp: int) -> tuple[int, int]:
    """Return the smallest and largest timestamp of sound records where sums wrap, as they do in Java."""
    smallest, largest = _MAX_INT64, _MIN_INT64
    for _ in range(count):
        length, position = read_varint(data, position)
        delta, _ = read_varlong(data, position + 1)
        timestamp = wrap_int64(base_timestamp + delta)
        smallest, largest = min(smallest, timestamp), max(largest, timestamp)
        position += length
    return smallest, largest


walk_records: Callable[[Buffer, int, int, int], tuple[int, int, bool, bool]]
try:
    from kcli.protocol.records import _record_walk
    from kcli.protocol.records._record_walk import walk_records

    # That of a former version, in a checkout: `record_filter` does without it.
    RECORD_WALK = "compiled" if hasattr(_record_walk, "select_records") else "outdated"
    WALKED_BYTES_PER_RECORD = 8
except ImportError:
    walk_records = walk_records_in_python
    RECORD_WALK = "python"
    WALKED_BYTES_PER_RECORD = BYTES_PER_RECORD
"""The least that a record counts for where the work of a walk is limited."""
