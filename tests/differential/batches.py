"""Record batches for Produce: sound ones of every size and codec, and such as are wrong in one place."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.records.batch_header import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, crc32c
from kcli.protocol.records.message_set import encode_entry
from kcli.protocol.records.varints import encode_varint, wrap_int64
from tests.support.hostile_records import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

COUNTS = (1, 1, 2, 3, 10, 50, 127, 129, 148, 149, 400)
SIZES = (0, 1, 10, 63, 64, 100, 300)
NUMBERS = (-(2**31), -2, -1, 0, 1, 2, 3, 63, 64, 127, 128, 1000, 2**31 - 1)
LONGS = (-(2**63), -(2**40), -2, -1, 0, 1, 1000, 2**40, 2**63 - 1)
DAY_MS = 86_400_000
_CRC = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class RecordParts:
    """A record before encoding. A length of None is that of the bytes; any other one is a lie."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...] = ()
    attributes: int = 0
    length: int | None = None
    key_length: int | None = None
    value_length: int | None = None
    header_count: int | None = None

    def encode(self) -> bytes:
        """The bytes of the record, its length included."""
        count = len(self.headers) if self.header_count is None else self.header_count
        body = b"".join(
            (
                struct.pack("b", self.attributes),
                encode_varint(wrap_int64(self.timestamp_delta)),
                encode_varint(self.offset_delta),
                _blob(self.key, self.key_length),
                _blob(self.value, self.value_length),
                encode_varint(count),
                *(_blob(part) for header in self.headers for part in header),
            )
        )
        return encode_varint(len(body) if self.length is None else self.length) + body


def _blob(data: bytes | None, length: int | None = None) -> bytes:
    if length is None:
        length = -1 if data is None else len(data)
    return encode_varint(length) + (data or b"")


@dataclass(slots=True)
class BatchParts:
    """A batch before encoding: its records, and header fields that override what would be right."""

    records: list[RecordParts]
    codec: int = 0
    base_timestamp: int = 0
    header: dict[str, int] = field(default_factory=dict)
    packed: Callable[[bytes], bytes] = lambda data: data
    behind: bytes = b""

    def encode(self) -> bytes:
        """The bytes of the batch, its checksum right unless the header names another one."""
        payload = b"".join(record.encode() for record in self.records) + self.behind
        payload = self.packed(compress(Codec(self.codec), payload) if self.codec else payload)
        latest = max((record.timestamp_delta for record in self.records), default=0)
        values = {
            "base_offset": 0,
            "length": HEADER_SIZE + len(payload) - LOG_OVERHEAD,
            "leader_epoch": -1,
            "magic": 2,
            "crc": 0,
            "attributes": self.codec,
            "last_offset_delta": len(self.records) - 1,
            "base_timestamp": self.base_timestamp,
            "max_timestamp": wrap_int64(self.base_timestamp + latest),
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "count": len(self.records),
            **self.header,
        }
        whole = bytearray(HEADER.pack(*(values[name] for name in FIELDS)) + payload)
        if "crc" not in self.header:
            _CRC.pack_into(whole, CRC_START - _CRC.size, crc32c(bytes(whole[CRC_START:])))
        return bytes(whole)


def sound_batch(random: Random) -> BatchParts:
    """A batch that a producer would send."""
    now = int(time.time() * 1000)
    size = random.choice(SIZES)
    has_keys = random.random() < 0.7
    headers = ((b"trace", b"1"), (b"empty", None)) if random.random() < 0.2 else ()
    deltas = random.random() < 0.7
    records = [
        RecordParts(
            random.randrange(100) * deltas,
            number,
            b"key-%d" % number if has_keys else None,
            None
            if random.random() < 0.1
            else random.randbytes(random.randint(0, size) if random.random() < 0.5 else size),
            headers,
        )
        for number in range(random.choice(COUNTS))
    ]
    header = {}
    if random.random() < 0.1:
        header = {
            "producer_id": random.choice((7001, 7002)),
            "producer_epoch": random.choice((0, 0, 1)),
            "base_sequence": random.choice((0, 0, 1, 5, len(records))),
        }
    return BatchParts(records, random.choice((0, 0, 1, 2, 3, 4)), now, header)


def spoiled_batch(random: Random) -> bytes:
    """A batch with one thing wrong, most of the time."""
    batch = sound_batch(random)
    return random.choice(_SPOILERS)(batch, random)


def produced(random: Random) -> bytes:
    """What a Produce request carries for one partition: never null, which Apache Kafka does not answer."""
    kind = random.random()
    if kind < 0.45:
        return sound_batch(random).encode()
    if kind < 0.95:
        return spoiled_batch(random)
    return random.choice((b"", b"x", bytes(100), sound_batch(random).encode() + sound_batch(random).encode()))


def _spoil_header(batch: BatchParts, random: Random) -> bytes:
    name = random.choice(FIELDS)
    values = {
        "magic": (-1, 0, 1, 3, 127),
        "attributes": _attributes(batch, random),
        "crc": (0, 1, 2**32 - 1),
        "producer_epoch": (-2, -1, 0, 1, 2**15 - 1),
    }.get(name)
    if values is None:
        values = (
            LONGS if name in {"base_offset", "base_timestamp", "max_timestamp", "producer_id"} else NUMBERS
        )
    batch.header[name] = random.choice(values)
    if name == "length":
        batch.header[name] = random.choice((-1, 0, 48, 49, 50, 2**31 - 1))
    elif name in {"last_offset_delta", "count"} and random.random() < 0.5:
        batch.header[name] = len(batch.records) + random.choice((-2, 0, 1))
    elif name in {"base_timestamp", "max_timestamp"} and random.random() < 0.5:
        batch.header[name] = batch.base_timestamp + random.choice((-DAY_MS, -1, 1, 50, DAY_MS, 3 * DAY_MS))
    return batch.encode()


def _attributes(batch: BatchParts, random: Random) -> tuple[int, ...]:
    return (*range(8), *(batch.codec | bit for bit in (8, 16, 32, 48, 64, 128, 256, 0x4000)), -1)


def _spoil_record(batch: BatchParts, random: Random) -> bytes:
    position = random.choice((0, len(batch.records) - 1, random.randrange(len(batch.records))))
    record = batch.records[position]
    wrong = random.choice(
        (
            {"attributes": random.choice((1, -1, 127))},
            {"length": random.choice((*NUMBERS, len(record.encode()) + random.choice((-2, 0, 1))))},
            {"timestamp_delta": random.choice((*LONGS, DAY_MS, -DAY_MS, 3 * DAY_MS))},
            {"offset_delta": random.choice((*NUMBERS, position + 1, position - 1))},
            {"key_length": random.choice(NUMBERS)},
            {"value_length": random.choice(NUMBERS)},
            {"header_count": random.choice(NUMBERS)},
            {"headers": ((None, b"x"),)},
            {"headers": ((b"\xff\xfe", b"x"),)},
        )
    )
    batch.records[position] = replace(record, **wrong)
    if "timestamp_delta" in wrong and random.random() < 0.5:
        batch.header["max_timestamp"] = batch.base_timestamp
    return batch.encode()


def _spoil_payload(batch: BatchParts, random: Random) -> bytes:
    kind = random.randrange(5)
    if kind == 0:
        batch.behind = random.choice((b"\0", b"xyz", bytes(100)))
    elif kind == 1:
        batch.packed = lambda data: data[: random.randrange(len(data) + 1)]
    elif kind == 2:
        batch.packed = lambda data: data + b"behind"
    elif kind == 3:
        batch.packed = lambda data: _flipped(data, random)
    else:
        batch.header["attributes"] = random.choice((1, 2, 3, 4, 5, 6, 7, 0))
    return batch.encode()


def _spoil_frame(batch: BatchParts, random: Random) -> bytes:
    whole = batch.encode()
    kind = random.randrange(4)
    if kind == 0:
        return whole[: random.randrange(len(whole))]
    if kind == 1:
        return whole + random.choice((b"x", bytes(11), bytes(12), bytes(61)))
    if kind == 2:
        return _flipped(whole, random)
    return encode_entry(0, random.randrange(2), 0, batch.base_timestamp, b"key", b"value")


def _spoil_keys(batch: BatchParts, random: Random) -> bytes:
    position = random.randrange(len(batch.records))
    batch.records[position] = replace(batch.records[position], key=None)
    return batch.encode()


def _spoil_producer(batch: BatchParts, random: Random) -> bytes:
    batch.header.update(
        producer_id=random.choice((-2, -1, 0, 7001)),
        producer_epoch=random.choice((-2, -1, 0, 1)),
        base_sequence=random.choice((-2, -1, 0, 1, 2**31 - 1)),
    )
    batch.header["attributes"] = batch.codec | random.choice((0, 0, 16, 32, 48))
    return batch.encode()


def _flipped(data: bytes, random: Random) -> bytes:
    spoiled = bytearray(data)
    if spoiled:
        spoiled[random.randrange(len(spoiled))] ^= 1 << random.randrange(8)
    return bytes(spoiled)


_SPOILERS = (
    _spoil_header, _spoil_header, _spoil_record, _spoil_record, _spoil_payload, _spoil_frame, _spoil_keys,
    _spoil_producer,
)  # fmt: skip
