"""Produce on the wire without message objects: the request is read in place, a success is packed at once.

No request is as frequent, so this avoids the objects of the generated codec: one for the request and one for
each topic and partition, both ways. The bytes are the same, and a test compares both:
`kcli.protocol.messages.produce` has the layout. A response with an error is a `ProduceResponse`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING

from kcli.protocol.schema.declaration import MAX_REQUEST_ELEMENTS, DecodeError, reason_of_failure
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint, encode_unsigned_varint
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FLEXIBLE_FROM = 9
TOPIC_IDS_FROM = 13
TRANSACTIONS_FROM = 3

_LENGTH = Struct(">h")
_COUNT = Struct(">i")
_ACKS = Struct(">hi")
_PARTITION = Struct(">ii")
_INDEX = Struct(">i")
_UUID_SIZE = 16

ShortProduce = tuple[int, bytes, int, memoryview, memoryview, int, int, int]
"""One batch to one partition: acks, topic, index, records; buffer, start and end of the body; the version.

The topic is its encoded name, from version 13 on its id. A tuple, because most requests to a broker need one.
"""
Topic = tuple[str, bytes, list[tuple[int, "memoryview | None"]]]
"""Name, topic id (one of the two is empty or zero), and (index, records) of each partition."""


class ProduceData:
    """A request: `acks`, its timeout, and the records by topic, which stay in the frame."""

    __slots__ = ("acks", "size", "timeout_ms", "topics", "transactional_id")

    def __init__(
        self, transactional_id: str | None, acks: int, timeout_ms: int, topics: list[Topic], size: int
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.size = size
        """The bytes of the request body."""

    def copy_records(self) -> None:
        """Copy the records out of the frame, which is reused as soon as the handler awaits."""
        for _, _, partitions in self.topics:
            partitions[:] = [
                (index, None if records is None else memoryview(bytearray(records)))
                for index, records in partitions
            ]


def decoder(version: int) -> Callable[[memoryview, int, int], tuple[ProduceData, int]]:
    """Return what reads a request body of this version. It raises `DecodeError`."""
    read = _read_flexible if version >= FLEXIBLE_FROM else _read_plain

    def decode(buffer: memoryview, position: int, end: int) -> tuple[ProduceData, int]:
        body = buffer[position:end]
        try:
            return read(body, version), end
        except (StructError, IndexError, ValueError) as error:
            raise DecodeError(
                f"malformed ProduceRequest version {version}: {reason_of_failure(error)}"
            ) from error

    return decode


def _read_plain(body: memoryview, version: int) -> ProduceData:
    transactional_id = None
    position = 0
    if version >= TRANSACTIONS_FROM:
        (length,) = _LENGTH.unpack_from(body, 0)
        position = 2
        if length >= 0:
            transactional_id, position = _text(body, position, length)
        elif length != -1:
            raise ValueError("a negative length")
    acks, timeout_ms = _ACKS.unpack_from(body, position)
    topics: list[Topic] = []
    count, position = _count(body, position + 6)
    room = _take(MAX_REQUEST_ELEMENTS, count)
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(body, position)
        name, position = _text(body, position + 2, length)
        partitions: list[tuple[int, memoryview | None]] = []
        partition_count, position = _count(body, position)
        room = _take(room, partition_count)
        for _ in range(partition_count):
            index, size = _PARTITION.unpack_from(body, position)
            position += 8
            if size == -1:
                partitions.append((index, None))
                continue
            stop = position + size
            if not position <= stop <= len(body):
                raise ValueError("cut short")
            partitions.append((index, body[position:stop]))
            position = stop
        topics.append((name, ZERO_UUID, partitions))
    return ProduceData(transactional_id, acks, timeout_ms, topics, len(body))


def _read_flexible(body: memoryview, version: int) -> ProduceData:
    end = len(body)
    length, position = _varint(body, 0)
    transactional_id = None
    if length:
        transactional_id, position = _text(body, position, length - 1)
    acks, timeout_ms = _ACKS.unpack_from(body, position)
    topics: list[Topic] = []
    count, position = _compact_count(body, position + 6)
    room = _take(MAX_REQUEST_ELEMENTS, count)
    for _ in range(count):
        name, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_FROM:
            topic_id = bytes(body[position : position + _UUID_SIZE])
            position += _UUID_SIZE
        else:
            length, position = _varint(body, position)
            name, position = _text(body, position, length - 1)
        partitions: list[tuple[int, memoryview | None]] = []
        partition_count, position = _compact_count(body, position)
        room = _take(room, partition_count)
        for _ in range(partition_count):
            (index,) = _INDEX.unpack_from(body, position)
            size, position = _varint(body, position + 4)
            if size:
                stop = position + size - 1
                if stop > end:
                    raise ValueError("cut short")
                partitions.append((index, body[position:stop]))
                position = stop
            else:
                partitions.append((index, None))
            if body[position]:
                position, room = _skip_tags(body, position, room)
            else:
                position += 1
        position, room = _skip_tags(body, position, room)
        topics.append((name, topic_id, partitions))
    _skip_tags(body, position, room)
    return ProduceData(transactional_id, acks, timeout_ms, topics, end)


def _text(body: memoryview, position: int, length: int) -> tuple[str, int]:
    stop = position + length
    if not position <= stop <= len(body):
        raise ValueError("cut short")
    return str(body[position:stop], "utf-8", "replace"), stop


def _count(body: memoryview, position: int) -> tuple[int, int]:
    count: int = _COUNT.unpack_from(body, position)[0]
    if not 0 <= count <= len(body) - position:
        raise ValueError(f"an array cannot have {count} elements")
    return count, position + 4


def _compact_count(body: memoryview, position: int) -> tuple[int, int]:
    count, position = _varint(body, position)
    if not 1 <= count <= len(body) - position + 1:
        raise ValueError(f"an array cannot have {count - 1} elements")
    return count - 1, position


def _varint(body: memoryview, position: int) -> tuple[int, int]:
    byte = body[position]
    if byte < 0x80:
        return byte, position + 1
    return decode_unsigned_varint(body, position)


def _take(room: int, count: int) -> int:
    """Return the elements that the request may still have after `count` more."""
    if count > room:
        raise ValueError("too many elements")
    return room - count


def _skip_tags(body: memoryview, position: int, room: int) -> tuple[int, int]:
    """Return the position behind a tag section, and the elements that may follow."""
    if body[position] == 0:
        return position + 1, room
    count, position = decode_unsigned_varint(body, position)
    room = _take(room, count)
    for _ in range(count):
        _, position = decode_unsigned_varint(body, position)
        size, position = decode_unsigned_varint(body, position)
        position += size
        if position > len(body):
            raise ValueError("cut short")
    return position, room


_END_9 = b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"
"""Behind a last row: no record errors, message or tags, no tags of the topic; throttle time; no tags."""

Row = tuple[int, int, int, int, int]
"""Index, error code, base offset, append time, log start offset."""

_ROW_0 = Struct(">ihq")
_ROW_2 = Struct(">ihqq")
_ROW_5 = Struct(">ihqqq")
_NO_ERRORS_8 = b"\x00\x00\x00\x00\xff\xff"
_NO_THROTTLE = b"\x00\x00\x00\x00"
_END_8 = _NO_ERRORS_8 + _NO_THROTTLE
_NO_ERRORS_9 = b"\x01\x00\x00"
"""No record errors, no error message; from version 9 both compact, and no tags."""

OneRowFrame = tuple["Callable[..., bytes]", int, bytes, bytes]
"""What packs a whole frame; its size, and the bytes before and behind the row."""
_frames: dict[tuple[bytes, int], OneRowFrame] = {}
_MAX_FRAMES = 10_000


def one_row_frame(name: bytes, version: int) -> OneRowFrame:
    """Return what makes the frame for one success in one topic, named or identified, from version 5 on.

    It packs the size, a correlation id, the first part, the row's fields and the second part.
    """
    return _frames.get((name, version)) or _make_frame(name, version)


def _make_frame(name: bytes, version: int) -> OneRowFrame:
    if len(_frames) >= _MAX_FRAMES:
        _frames.clear()
    if version >= FLEXIBLE_FROM:
        # The header has no tags either.
        size = b"" if version >= TOPIC_IDS_FROM else encode_unsigned_varint(len(name) + 1)
        head = b"".join((b"\x00\x02", size, name, b"\x02"))
        tail = _END_9
    else:
        one = _COUNT.pack(1)
        head = b"".join((one, _LENGTH.pack(len(name)), name, one))
        tail = _END_8 if version == 8 else _NO_THROTTLE
    layout = Struct(f">ii{len(head)}sihqqq{len(tail)}s")
    frame = _frames[name, version] = layout.pack, layout.size - 4, head, tail
    return frame


def encode_rows(topics: Iterable[tuple[str, bytes, list[Row]]], version: int) -> bytes:
    """Return the response body for rows without messages and record errors."""
    flexible = version >= FLEXIBLE_FROM
    parts: list[bytes] = []
    count = 0
    for name, topic_id, rows in topics:
        count += 1
        if version >= TOPIC_IDS_FROM:
            parts += (topic_id, encode_unsigned_varint(len(rows) + 1))
        elif flexible:
            raw = name.encode()
            parts += (encode_unsigned_varint(len(raw) + 1), raw, encode_unsigned_varint(len(rows) + 1))
        else:
            raw = name.encode()
            parts += (_LENGTH.pack(len(raw)), raw, _COUNT.pack(len(rows)))
        for row in rows:
            if version >= 5:
                parts.append(_ROW_5.pack(*row))
                if version >= 8:
                    parts.append(_NO_ERRORS_9 if flexible else _NO_ERRORS_8)
            elif version >= 2:
                parts.append(_ROW_2.pack(*row[:4]))
            else:
                parts.append(_ROW_0.pack(*row[:3]))
        if flexible:
            parts.append(b"\x00")
    if flexible:
        return b"".join([encode_unsigned_varint(count + 1), *parts, b"\x00\x00\x00\x00\x00"])
    # The throttle time comes last, from version 1.
    return b"".join([_COUNT.pack(count), *parts, b"\x00\x00\x00\x00" if version >= 1 else b""])
