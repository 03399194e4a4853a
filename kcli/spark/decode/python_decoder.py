"""The plain decoder: record by record, field by field. Tests compare the others with it.

Header names that are not UTF-8 are read as Java reads them: each bad sequence becomes one U+FFFD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import TIMESTAMP_TYPE_BIT
from kcli.protocol.records.varints import read_varint, read_varlong, wrap_int64
from kcli.spark.decode.arrow_columns import HEADERS
from kcli.spark.decode.chunk import Chunk, CorruptRecords, Fields, timestamp_types

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

Header = tuple[str, bytes | None]


class _Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None


def decode_plainly(chunk: Chunk, wanted: Collection[str]) -> Fields:
    """Return the records of a chunk as columns; raises `CorruptRecords`."""
    records: list[_Record] = []
    for number, batch in enumerate(chunk.batches.tolist()):
        try:
            records += _records(chunk, batch)
        except CorruptRecord as error:
            raise CorruptRecords(number, error.message) from error
    return Fields(
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        timestamp_types(chunk),
        pa.array([record.key for record in records], pa.binary()) if "key" in wanted else None,
        pa.array([record.value for record in records], pa.binary()) if "value" in wanted else None,
        pa.array([record.headers for record in records], HEADERS) if "headers" in wanted else None,
    )


def _records(chunk: Chunk, batch: list[int]) -> Iterator[_Record]:
    begin, end, count, base_offset, last_delta, base_timestamp, max_timestamp, attributes = batch
    data = bytes(chunk.data[begin:end])
    position = 0
    previous = -1
    for _ in range(count):
        length, position = read_varint(data, position)
        record_end = position + length
        if length < 0 or record_end > len(data):
            raise CorruptRecord("a record does not fit its batch")
        timestamp_delta, position = read_varlong(data, position + 1)
        offset_delta, position = read_varint(data, position)
        key, position = _bytes(data, position)
        value, position = _bytes(data, position)
        headers, position = _headers(data, position)
        if position != record_end:
            raise CorruptRecord("a record does not end where its length says")
        if not previous < offset_delta <= last_delta:
            raise CorruptRecord("the offsets of a batch do not increase, or pass its last one")
        previous = offset_delta
        timestamp = wrap_int64(base_timestamp + timestamp_delta)
        if attributes & TIMESTAMP_TYPE_BIT:
            timestamp = max_timestamp
        yield _Record(base_offset + offset_delta, timestamp, key, value, headers or None)
    if position != len(data):
        raise CorruptRecord("a batch holds more than its records")


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= len(data) - position:
        raise CorruptRecord("a key or value does not fit its batch")
    return data[position : position + length], position + length


def _headers(data: bytes, position: int) -> tuple[list[Header], int]:
    count, position = read_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptRecord("the headers of a record do not fit its batch")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _bytes(data, position)
        if name is None:
            raise CorruptRecord("a header without a name")
        value, position = _bytes(data, position)
        headers.append((name.decode(errors="replace"), value))
    return headers, position
