"""Heads of batches and older entries: what they say is what the batches themselves say."""

from __future__ import annotations

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, BatchHead, BatchProperties
from kcli.protocol.records.message_set import LegacyEntry, MessageSetBuilder
from kcli.protocol.records.record import TimestampType


def a_batch() -> bytes:
    """Return a transactional batch of three records at offset 70."""
    builder = RecordBatchBuilder(
        base_offset=70,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        is_transactional=True,
        leader_epoch=4,
    )
    for timestamp in (1000, 3000, 2000):
        builder.append(timestamp, b"key", b"value")
    return bytes(builder.build())


def legacy(magic: int, codec: Codec = Codec.NONE) -> bytes:
    """Return one entry of an older format, with two records if there is a codec."""
    builder = MessageSetBuilder(magic, base_offset=12, codec=codec)
    for timestamp in (1000, 3000)[: 1 if codec is Codec.NONE else 2]:
        builder.append(timestamp, b"key", b"value")
    return builder.build()


def test_the_head_of_a_batch_has_its_fields_and_properties() -> None:
    data = a_batch()
    batch, head = RecordBatch(b"..." + data, 3), BatchHead.at(b"..." + data, 3, 500)
    assert head == batch.head(500)
    assert head == tuple.__new__(BatchHead, (500, *HEADER.unpack_from(data)))
    assert (head.position, head.end) == (500, 500 + len(data))
    names = set(BatchHead._fields) | {name for name in dir(BatchProperties) if name[0] != "_"}
    assert names > {"codec", "last_offset", "is_control", "next_offset"}
    for name in (names | {"size_in_bytes"}) - {"position", "length"}:
        assert getattr(head, name) == getattr(batch, name), name


def test_a_head_stands_where_its_buffer_does_unless_told_otherwise() -> None:
    assert BatchHead.at(b"..." + a_batch(), 3).position == 3


@pytest.mark.parametrize(("magic", "timestamp"), [(0, -1), (1, 1000)])
def test_the_head_of_an_older_entry_has_its_fields(magic: int, timestamp: int) -> None:
    data = legacy(magic)
    head, entry = BatchHead.at(data), LegacyEntry(data)
    assert head == entry.head()
    assert (head.base_offset, head.last_offset, head.next_offset, head.count) == (12, 12, 13, 1)
    assert (head.base_timestamp, head.max_timestamp) == (timestamp, timestamp)
    assert (head.crc, head.attributes, head.end) == (entry.crc, entry.attributes, len(data))
    assert head.timestamp_type is entry.timestamp_type
    assert not (head.has_producer_id)
    assert not (head.is_transactional)
    assert not (head.is_control)
    assert (head.partition_leader_epoch, head.base_sequence, head.last_sequence) == (-1, -1, -1)


def test_a_wrapper_has_the_offset_of_its_last_record_and_an_unknown_count() -> None:
    head = BatchHead.at(legacy(1, Codec.GZIP))
    assert (head.base_offset, head.last_offset, head.count, head.codec) == (13, 13, -1, Codec.GZIP)
    assert (head.is_compressed, head.timestamp_type) == (True, TimestampType.CREATE_TIME)


def test_only_magic_2_has_bits_for_transactions() -> None:
    data = bytearray(legacy(1))
    data[17] |= 0x30
    head = BatchHead.at(data)
    assert (head.attributes & 0x30, head.is_transactional, head.is_control) == (0x30, False, False)


def patched(data: bytes, position: int, value: int) -> bytes:
    """Return `data` with another byte at `position`."""
    return data[:position] + bytes((value,)) + data[position + 1 :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (a_batch()[:16], "ends inside its header"),
        (a_batch()[: HEADER_SIZE - 1], "ends inside its header"),
        (legacy(0)[:17], "ends inside its header"),
        (legacy(1)[:25], "ends inside its header"),
        (patched(a_batch(), 16, 3), "unknown magic: 3"),
        (patched(a_batch(), 8, 0x80), "cannot be as short as"),
        (patched(patched(legacy(0), 11, 13), 10, 0), "cannot be as short as 25 bytes"),
    ],
)
def test_bytes_that_no_batch_begins_with_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=reason):
        BatchHead.at(data)
