"""Message sets of magic 0 and 1: known bytes, wrappers and their offsets, damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.message_set import LegacyEntry, MessageSetBuilder, encode_entry
from kcli.protocol.records.record import Record, TimestampType
from tests.protocol.records.record_sets import LEGACY_CODECS, Input, inputs, write

ONE_ENTRY = bytes.fromhex("0000000000000000 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")
TIMESTAMP = 1_700_000_000_000


def test_one_record_makes_the_known_bytes() -> None:
    builder = MessageSetBuilder(1)
    assert builder.append(TIMESTAMP, b"k", b"v") == 0
    assert builder.estimated_size == 36
    assert builder.build() == ONE_ENTRY


def test_an_entry_reads_as_it_was_written() -> None:
    entry = LegacyEntry(b"before" + ONE_ENTRY, 6)
    assert entry.is_valid_crc()
    assert (entry.base_offset, entry.last_offset, entry.next_offset, entry.count) == (0, 0, 1, 1)
    assert (entry.magic, entry.size_in_bytes, entry.codec) == (1, 36, Codec.NONE)
    assert (entry.timestamp_type, entry.max_timestamp) == (TimestampType.CREATE_TIME, TIMESTAMP)
    assert (entry.producer_id, entry.base_sequence, entry.partition_leader_epoch) == (-1, -1, -1)
    assert entry.to_bytes() == ONE_ENTRY
    assert list(entry.records()) == [Record(0, TIMESTAMP, b"k", b"v")]


def test_magic_0_has_no_timestamp() -> None:
    entry = LegacyEntry(encode_entry(5, 0, 0, TIMESTAMP, None, b"v"))
    assert entry.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    assert list(entry.records()) == [Record(5, -1, None, b"v")]
    assert entry.size_in_bytes == 12 + 14 + 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@given(st.lists(inputs, min_size=1, max_size=10), st.integers(0, 2**60))
def test_records_come_back(magic: int, codec: Codec, given: list[Input], base_offset: int) -> None:
    for written in write(magic, codec, base_offset, given):
        entry = LegacyEntry(written.data)
        assert list(entry.records()) == written.records
        assert entry.is_valid_crc()
        assert entry.codec is codec
        assert entry.count == len(written.records)
        assert (entry.base_offset, entry.last_offset) == (
            written.records[0].offset,
            written.records[-1].offset,
        )


@pytest.mark.parametrize(("magic", "stored"), [(0, [50, 51, 53]), (1, [0, 1, 3])])
def test_inner_offsets_are_absolute_in_magic_0_and_relative_in_magic_1(magic: int, stored: list[int]) -> None:
    builder = MessageSetBuilder(magic, codec=Codec.GZIP, base_offset=50)
    for offset in (50, 51, 53):
        builder.append(TIMESTAMP + offset, None, b"v", offset=offset)
    wrapper = LegacyEntry(builder.build())
    assert wrapper.offset == 53
    assert wrapper.timestamp == (TIMESTAMP + 53 if magic else -1)
    assert [entry.offset for entry in wrapper.inner_entries()] == stored
    assert [record.offset for record in wrapper.records()] == [50, 51, 53]


def wrapper_of(*inner_offsets: int, offset: int, magic: int = 1, attributes: int = Codec.GZIP) -> LegacyEntry:
    """A wrapper of empty records at `inner_offsets`, itself at `offset`."""
    entries = b"".join(encode_entry(inner, magic, 0, 7, None, b"") for inner in inner_offsets)
    return LegacyEntry(encode_entry(offset, magic, attributes, 9, None, compress(Codec.GZIP, entries)))


@pytest.mark.parametrize(
    ("inner", "offset", "absolute"),
    [
        pytest.param((0, 1, 2), 102, [100, 101, 102], id="as stored by a broker"),
        pytest.param((0, 1, 2), 2, [0, 1, 2], id="as sent by a producer"),
        pytest.param((0, 1, 2), 0, [0, 1, 2], id="as sent by old librdkafka"),
        pytest.param((0, 4), 104, [100, 104], id="compacted in the middle"),
        pytest.param((3, 5), 105, [103, 105], id="compacted at the start"),
    ],
)
def test_wrapper_offsets(inner: tuple[int, ...], offset: int, absolute: list[int]) -> None:
    wrapper = wrapper_of(*inner, offset=offset)
    assert [record.offset for record in wrapper.records()] == absolute
    assert wrapper.base_offset == absolute[0]
    assert wrapper.count == len(absolute)


def test_a_wrapper_of_append_time_dates_its_entries() -> None:
    assert [r.timestamp for r in wrapper_of(0, 1, offset=1).records()] == [7, 7]
    appended = wrapper_of(0, 1, offset=1, attributes=Codec.GZIP | 8)
    assert appended.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [r.timestamp for r in appended.records()] == [9, 9]


def test_append_time_is_marked_on_every_entry() -> None:
    builder = MessageSetBuilder(1, codec=Codec.SNAPPY, timestamp_type=TimestampType.LOG_APPEND_TIME)
    builder.append(9, None, b"v")
    wrapper = LegacyEntry(builder.build())
    assert wrapper.attributes == Codec.SNAPPY | 8
    assert [entry.attributes for entry in wrapper.inner_entries()] == [8]


GOOD_INNER = encode_entry(0, 1, 0, 7, None, b"v")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(wrapper_of(0, 5, offset=3).to_bytes(), "lies before", id="wrapper before its entries"),
        pytest.param(encode_entry(0, 1, 1, 0, None, None), "without a value", id="null value"),
        pytest.param(
            encode_entry(0, 1, 1, 0, None, compress(Codec.GZIP, b"")), "without entries", id="no entries"
        ),
        pytest.param(
            encode_entry(0, 1, 1, 0, None, compress(Codec.GZIP, GOOD_INNER[:-1])), "cut short", id="cut inner"
        ),
        pytest.param(
            encode_entry(0, 1, 1, 0, None, compress(Codec.GZIP, GOOD_INNER[:17])),
            "its header",
            id="cut header",
        ),
        pytest.param(
            encode_entry(0, 1, 1, 0, None, compress(Codec.GZIP, wrapper_of(0, offset=0).to_bytes())),
            "wrapper inside a wrapper",
            id="nested",
        ),
        pytest.param(encode_entry(0, 1, 4, 0, None, b"v"), "does not know zstd", id="zstd"),
        pytest.param(encode_entry(0, 0, 6, 0, None, b"v"), "unknown compression", id="codec without a name"),
        pytest.param(encode_entry(0, 1, 1, 0, None, b"junk"), "gzip", id="damaged blob"),
        pytest.param(ONE_ENTRY[:34] + b"\x00" + ONE_ENTRY[35:], "does not end", id="value too short"),
        pytest.param(ONE_ENTRY[:26] + b"\x7f" + ONE_ENTRY[27:], "does not fit", id="key too long"),
        pytest.param(
            ONE_ENTRY[:26] + b"\xff\xff\xff\xfe" + ONE_ENTRY[30:], "does not fit", id="negative key"
        ),
        pytest.param(ONE_ENTRY[:34] + b"\x02" + ONE_ENTRY[35:], "does not fit", id="value too long"),
    ],
)
def test_entries_that_contradict_themselves_are_refused(data: bytes, why: str) -> None:
    (entry,) = iter_batches(data)
    with pytest.raises(CorruptRecord, match=why):
        list(entry.records())


@pytest.mark.parametrize(("magic", "size"), [(0, 13), (1, 21)])
def test_sizes_below_the_smallest_entry_are_refused(magic: int, size: int) -> None:
    data = bytearray(encode_entry(0, magic, 0, 0, None, bytes(20)))
    data[8:12] = size.to_bytes(4, "big")
    with pytest.raises(CorruptRecord, match=f"as short as {12 + size} bytes"):
        list(iter_batches(data))


def test_a_cut_entry_cannot_be_read() -> None:
    entry = LegacyEntry(ONE_ENTRY[:-1])
    assert not entry.is_valid_crc()
    with pytest.raises(CorruptRecord, match="cut short"):
        entry.to_bytes()
    with pytest.raises(CorruptRecord, match="cut short"):
        list(entry.records())
    for end in (17, 20):
        with pytest.raises(CorruptRecord, match="inside its header"):
            LegacyEntry(ONE_ENTRY[:end])


def test_wrappers_are_bounded_by_what_the_caller_takes() -> None:
    builder = MessageSetBuilder(0, codec=Codec.LZ4)
    builder.append(-1, None, bytes(100_000))
    with pytest.raises(CorruptRecord, match="more than 50000 bytes"):
        list(LegacyEntry(builder.build()).records(50_000))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_no_records_make_no_bytes(codec: Codec) -> None:
    assert MessageSetBuilder(1, codec=codec).build() == b""


def test_what_message_sets_cannot_hold_is_refused_when_building() -> None:
    with pytest.raises(ValueError, match="zstd"):
        MessageSetBuilder(1, codec=Codec.ZSTD)
    builder = MessageSetBuilder(1, base_offset=3)
    builder.append(0, None, None)
    with pytest.raises(ValueError, match="offset 3 comes after 3"):
        builder.append(0, None, None, offset=3)
