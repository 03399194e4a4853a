"""The records inside a batch of magic 2, decompressed: bytes in, `Record`s out.

One record is:

    length      varint    bytes after this field
    attributes  int8      0
    timestamp   varlong   difference to the base timestamp
    offset      varint    difference to the base offset
    key         varint    length (-1 null), then the bytes
    value       varint    length (-1 null), then the bytes
    headers     varint    count, then each: name length and UTF-8 bytes, value length (-1 null) and bytes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.record import NO_SEQUENCE, CorruptRecord, Record
from kcli.protocol.record_batch_header import SEQUENCE_MASK
from kcli.protocol.varints import read_varint, read_varlong, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterator


def parse_records(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    base_sequence: int,
) -> Iterator[Record]:
    """Yield `count` records and insist that `data` ends behind them.

    This runs once per record of everything that is consumed: numbers of one and two bytes, nearly all of
    them, are decoded in line.
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
            position += 1  # the attributes, which mean nothing yet

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
    """The headers at `position` and the position after them."""
    count, position = read_varint(data, position)
    # Each takes two bytes at least: a count beyond that is refused before anything is made of it.
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
        try:
            name = data[position : position + length].decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord("a header name is not UTF-8") from error
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
