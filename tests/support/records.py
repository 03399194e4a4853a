"""Records as the interop clients read and write them in files, and random ones from a seed.

A file is records one after another, all numbers big endian; length -1 is null:

    slot        int32   producing: the partition; consuming: the position of the argument that asked for it
    offset      int64   -1 when producing
    timestamp   int64   milliseconds
    key         int32 length, bytes
    value       int32 length, bytes
    headers     int32 count, then each: int32 length, name; int32 length, value
"""

from __future__ import annotations

import random
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIX = struct.Struct(">iqq")
LENGTH = struct.Struct(">i")
# An hour ago: within the default retention, so that no broker deletes what it was just given.
FIRST_TIMESTAMP = int(time.time() - 3600) * 1000

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class TestRecord:
    """One record; `timestamp` -1 lets the client choose."""

    __test__ = False

    slot: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What a client's interface can express."""

    headers: bool = True
    null_header_values: bool = True
    timestamps: bool = True
    empty: bool = True
    both_null: bool = True
    same_headers: bool = False


def _blob(data: bytes | None) -> bytes:
    return LENGTH.pack(-1) if data is None else LENGTH.pack(len(data)) + data


def encode(records: Iterable[TestRecord]) -> bytes:
    """The file content for records."""
    parts: list[bytes] = []
    for record in records:
        parts += (PREFIX.pack(record.slot, record.offset, record.timestamp), _blob(record.key))
        parts += (_blob(record.value), LENGTH.pack(len(record.headers)))
        for name, value in record.headers:
            parts += (_blob(name.encode()), _blob(value))
    return b"".join(parts)


def decode(data: bytes) -> Iterator[TestRecord]:
    """The records of a file's content; raises `struct.error` when it is cut."""
    position = 0

    def number() -> int:
        nonlocal position
        (value,) = LENGTH.unpack_from(data, position)
        position += 4
        return int(value)

    def blob() -> bytes | None:
        nonlocal position
        size = number()
        if size < 0:
            return None
        position += size
        return data[position - size : position]

    while position < len(data):
        slot, offset, timestamp = PREFIX.unpack_from(data, position)
        position += PREFIX.size
        key, value = blob(), blob()
        headers = tuple(((blob() or b"").decode(), blob()) for _ in range(number()))
        yield TestRecord(slot, offset, timestamp, key, value, headers)


def _bytes(source: random.Random, smallest: int, largest: int) -> bytes:
    size = source.randint(smallest, largest)
    if source.random() < 0.5:
        return source.randbytes(size)
    return (b"%x " % source.getrandbits(24) * (size // 2 + 1))[:size]


def _headers(source: random.Random, shape: Shape) -> Headers:
    headers: list[tuple[str, bytes | None]] = []
    for name in source.sample(("trace", "größe", "retry-count", "x"), source.randint(0, 3)):
        for _ in range(source.choice((1, 1, 2))):
            null = shape.null_header_values and source.random() < 0.2
            headers.append((name, None if null else source.randbytes(source.randint(0, 12))))
    return tuple(headers)


def generate(seed: int, slot: int, count: int, shape: Shape) -> list[TestRecord]:
    """`count` records for one partition: null and empty keys and values, headers, one value of 100 KB."""
    source = random.Random(f"{seed}/{slot}")
    smallest = 0 if shape.empty else 1
    records: list[TestRecord] = []
    timestamp = FIRST_TIMESTAMP + slot * 1_000
    for number in range(count):
        timestamp += source.randint(-5, 20)
        key = None if source.random() < 0.2 else _bytes(source, smallest, 24)
        null = source.random() < 0.1 and (shape.both_null or key is not None)
        value = None if null else _bytes(source, smallest, 240)
        if number == count // 2:
            value = _bytes(source, 100_000, 100_000)
        headers = _headers(source, shape) if shape.headers and not shape.same_headers else ()
        records.append(TestRecord(slot, -1, timestamp if shape.timestamps else -1, key, value, headers))
    if shape.same_headers:
        same = (("trace", b"%08x" % source.getrandbits(32)), ("retry-count", b"3"))
        records = [replace(record, headers=same) for record in records]
    return records
