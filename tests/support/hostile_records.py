"""Hostile records: decompression bombs, and batches whose headers lie under a good checksum."""

from __future__ import annotations

import struct
import time
import zlib
from functools import cache
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, crc32c
from kcli.protocol.records.message_set import encode_entry

if TYPE_CHECKING:
    from collections.abc import Iterable

MEGABYTE = 1024 * 1024
BLOCK = 32 * MEGABYTE
"""What one member or frame of a bomb decompresses to."""

TINY_RECORD = bytes.fromhex("0c 00 00 00 01 01 00")
"""The smallest record there is: seven bytes, no key, no value, offset delta 0."""

FIELDS = (
    "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
)  # fmt: skip
"""The header of a batch of magic 2, in order."""

_CRC = struct.Struct(">I")


def produce_request(topic: str, records: bytes, *, acks: int = 1, index: int = 0) -> ProduceRequest:
    """A request with records for one partition."""
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def large_batch(size: int) -> bytes:
    """A good batch of one record, whose value has `size` zeros."""
    builder = RecordBatchBuilder()
    builder.append(now_ms(), None, bytes(size))
    return builder.build()


def now_ms() -> int:
    """The time of day, which record timestamps must be near."""
    return int(time.time() * 1000)


# --- magic 2 -----------------------------------------------------------------------------------------


def batch(payload: bytes, *, codec: int = 0, count: int = 1, **fields: int) -> bytes:
    """A batch around `payload`, with any header fields and a checksum that fits them."""
    timestamp = now_ms()
    values = {
        "base_offset": 0,
        "length": HEADER_SIZE + len(payload) - LOG_OVERHEAD,
        "leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": codec,
        "last_offset_delta": max(count - 1, -(2**31)),
        "base_timestamp": timestamp,
        "max_timestamp": timestamp,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": count,
        **fields,
    }
    whole = bytearray(HEADER.pack(*(values[name] for name in FIELDS)) + payload)
    if "crc" not in fields:
        _CRC.pack_into(whole, CRC_START - _CRC.size, crc32c(bytes(whole[CRC_START:])))
    return bytes(whole)


def tiny_records(count: int) -> bytes:
    """`count` records of seven bytes that all claim to be the first."""
    return TINY_RECORD * count


def keyed_records(count: int) -> Iterable[bytes]:
    """Small records with keys, their offset deltas in order."""
    for number in range(count):
        delta = _varint(number)
        yield _varint(len(delta) + 6) + b"\x00\x00" + delta + b"\x02k\x01\x00"


def _varint(number: int) -> bytes:
    folded = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while folded > 0x7F:
        encoded.append(folded & 0x7F | 0x80)
        folded >>= 7
    encoded.append(folded)
    return bytes(encoded)


# --- magic 0 and 1 -----------------------------------------------------------------------------------


def wrapper(magic: int, codec: int, payload: bytes, *, offset: int = 0) -> bytes:
    """An entry that claims to hold a compressed message set."""
    return encode_entry(offset, magic, codec, now_ms(), None, payload)


def entries(magic: int, count: int) -> bytes:
    """A message set of `count` smallest entries."""
    return encode_entry(0, magic, 0, now_ms(), None, None) * count


# --- bombs -------------------------------------------------------------------------------------------


@cache
def bomb(codec: Codec, size: int) -> bytes:
    """Bytes that decompress to `size` zeros: as many members or frames as it takes."""
    if codec is Codec.GZIP:
        block = zlib.compress(bytes(BLOCK), 9, 31)
    elif codec is Codec.SNAPPY:
        # One header; the blocks behind it repeat.
        framed = compress(codec, bytes(BLOCK))
        return framed[:16] + framed[16:] * (size // BLOCK)
    else:
        block = compress(codec, bytes(BLOCK))
    return block * (size // BLOCK)


def snappy_that_claims(size: int) -> bytes:
    """A raw snappy block whose only truth is its size."""
    encoded = bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + b"\xff" * 64
