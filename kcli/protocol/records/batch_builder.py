"""RecordBatchBuilder: builds one record batch (magic 2) of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.records.batch_header import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MIN_RECORD_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    crc32c,
)
from kcli.protocol.records.record import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TimestampType,
)
from kcli.protocol.records.varints import SMALL_VARINT_LIMIT, SMALL_VARINTS, encode_varint, wrap_int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class RecordBatchBuilder:
    """Collects records and builds their batch.

    The first record's timestamp (ms) is the base timestamp, the largest one the max timestamp. With
    `TimestampType.LOG_APPEND_TIME` readers use the max timestamp for every record. Producer id, epoch and
    base sequence may be set until `build`, because a producer learns them last.
    """

    __slots__ = (
        "_base_timestamp",
        "_buffer",
        "_last_offset_delta",
        "_max_timestamp",
        "base_offset",
        "base_sequence",
        "codec",
        "count",
        "is_control",
        "is_transactional",
        "leader_epoch",
        "level",
        "producer_epoch",
        "producer_id",
        "timestamp_type",
    )

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        base_offset: int = 0,
        is_transactional: bool = False,
        is_control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
    ) -> None:
        self.codec = codec
        self.level = level
        self.timestamp_type = timestamp_type
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.base_offset = base_offset
        self.is_transactional = is_transactional
        self.is_control = is_control
        self.leader_epoch = leader_epoch
        self.count = 0
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP
        self._last_offset_delta = -1
        # Leaves room for the header, so that an uncompressed batch is built in place.
        self._buffer = bytearray(HEADER_SIZE)

    @property
    def estimated_size(self) -> int:
        """The size of the batch in bytes; with a codec, before compression."""
        return len(self._buffer)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp so far, -1 without one."""
        return self._max_timestamp

    @property
    def next_offset(self) -> int:
        """The offset of the next record if none is given."""
        return self.base_offset + self._last_offset_delta + 1

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        *,
        offset: int | None = None,
    ) -> int:
        """Add a record at the next offset, or at a later given one; return the offset.

        Raises `ValueError` if `offset` is not above the last one, or `timestamp` is below -1 (none).
        """
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"negative timestamp: {timestamp}")
        delta = self._last_offset_delta + 1
        if offset is not None:
            if offset - self.base_offset < delta:
                raise ValueError(f"offset {offset} comes after {self.next_offset - 1}")
            delta = offset - self.base_offset
        if not self.count:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        timestamp_delta = timestamp - self._base_timestamp
        small = SMALL_VARINTS
        limit = SMALL_VARINT_LIMIT
        # The zigzag form of a number that is not negative is its double, and nearly all are small.
        parts = b"%b%b%b%b%b%b%b" % (
            small[timestamp_delta << 1]
            if 0 <= timestamp_delta < limit
            else encode_varint(wrap_int64(timestamp_delta)),
            small[delta << 1] if delta < limit else encode_varint(delta),
            b"\x01" if key is None else small[len(key) << 1] if len(key) < limit else encode_varint(len(key)),
            b"" if key is None else key,
            b"\x01"
            if value is None
            else small[len(value) << 1]
            if len(value) < limit
            else encode_varint(len(value)),
            b"" if value is None else value,
            _encode_headers(headers) if headers else b"\x00",
        )
        size = len(parts) + 1
        self._buffer += b"%b\x00%b" % (small[size << 1] if size < limit else encode_varint(size), parts)
        self._last_offset_delta = delta
        self.count += 1
        return self.base_offset + delta

    def append_values(self, timestamp: int, values: Sequence[bytes], start: int, limit: int) -> int:
        """Add records of values only, from `values[start]` on, as long as the batch fits `limit` bytes.

        Returns how many. All get the same `timestamp`; raises `ValueError` if it is below -1 (none).
        """
        if timestamp < NO_TIMESTAMP:
            raise ValueError(f"negative timestamp: {timestamp}")
        base_timestamp = timestamp if not self.count else self._base_timestamp
        before = b"\x00" + encode_varint(wrap_int64(timestamp - base_timestamp))
        room = max(limit - len(self._buffer), 0)
        first = delta = self._last_offset_delta + 1
        small, small_limit = SMALL_VARINTS, SMALL_VARINT_LIMIT
        parts: list[bytes] = []
        # The bytes around a value depend on its length and on the length of its offset.
        frames: dict[int, tuple[bytes, bytes, int]] = {}
        width = 0
        for value in values[start : start + room // MIN_RECORD_BYTES + 1]:
            offset = small[delta << 1] if delta < small_limit else encode_varint(delta)
            if len(offset) != width:
                width = len(offset)
                frames.clear()
            length = len(value)
            frame = frames.get(length)
            if frame is None:
                key_and_length = b"\x01" + encode_varint(length)
                size = len(before) + width + len(key_and_length) + length + 1
                head = encode_varint(size) + before
                frame = frames[length] = head, key_and_length, size + len(head) - len(before)
            head, key_and_length, size = frame
            room -= size
            if room < 0:
                break
            parts += (head, offset, key_and_length, value, b"\x00")
            delta += 1
        count = delta - first
        if count:
            self._buffer += b"".join(parts)
            self._base_timestamp = base_timestamp
            self._max_timestamp = max(self._max_timestamp, timestamp)
            self._last_offset_delta = delta - 1
            self.count += count
        return count

    def build(self, *, last_offset: int | None = None) -> bytearray:
        """Return the batch. Its last offset is that of the last record unless a later one is given.

        The builder must not be used afterwards: the batch may be its buffer.
        """
        if last_offset is not None:
            self._last_offset_delta = max(self._last_offset_delta, last_offset - self.base_offset)
        batch = self._buffer
        if self.codec is not Codec.NONE and self.count:
            payload = compress(self.codec, memoryview(batch)[HEADER_SIZE:], self.level)
            batch = bytearray(HEADER_SIZE)
            batch += payload
        self._pack_header(batch, 0)
        self._pack_header(batch, crc32c(memoryview(batch)[CRC_START:]))
        return batch

    def _pack_header(self, batch: bytearray, crc: int) -> None:
        HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            len(batch) - LOG_OVERHEAD,
            self.leader_epoch,
            2,
            crc,
            self._attributes(),
            self._last_offset_delta,
            self._base_timestamp,
            self._max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )

    def _attributes(self) -> int:
        return (
            self.codec
            | (TIMESTAMP_TYPE_BIT if self.timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_BIT if self.is_transactional else 0)
            | (CONTROL_BIT if self.is_control else 0)
        )


def _encode_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    parts = [b""]
    for name, value in headers:
        encoded = name.encode()
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        parts.append(encode_varint(-1 if value is None else len(value)))
        parts.append(b"" if value is None else value)
    parts[0] = encode_varint(len(parts) // 4)
    return b"".join(parts)
