"""Record batches: known bytes, round trips, cut and damaged sets, patches in place."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import (
    HEADER,
    HEADER_SIZE,
    set_append_time,
    set_base_offset_and_epoch,
    set_max_timestamp,
    set_producer_state,
    update_crc,
)
from kcli.protocol.records.message_set import LegacyEntry
from kcli.protocol.records.record import Record, TimestampType
from kcli.protocol.records.varints import encode_varint
from tests.protocol.records.record_sets import Input, Written, inputs, record_sets, write

ONE_RECORD = bytes.fromhex(
    "0000000000000000 0000003a ffffffff 02 e99b8dd8 0000 00000000 0000018bcfe56800 0000018bcfe56800"
    "ffffffffffffffff ffff ffffffff 00000001 10 00 00 00 02 6b 02 76 00"
)
TWO_RECORDS = bytes.fromhex(
    "0000000000000000 00000049 ffffffff 02 4e18b054 0000 00000001 0000018bcfe56800 0000018bcfe56805"
    "00000000000003e8 0000 00000000 00000002 16000000010a68656c6c6f00 16000a02026b010202680278"
)
TIMESTAMP = 1_700_000_000_000


def build(*records: tuple[int, bytes | None, bytes | None], **options: object) -> bytearray:
    """A batch of (timestamp, key, value)."""
    builder = RecordBatchBuilder(**options)  # type: ignore[arg-type]
    for timestamp, key, value in records:
        builder.append(timestamp, key, value)
    return builder.build()


def test_one_record_makes_the_known_bytes() -> None:
    assert build((TIMESTAMP, b"k", b"v")) == ONE_RECORD


def test_nulls_headers_and_a_producer_make_the_known_bytes() -> None:
    builder = RecordBatchBuilder(producer_id=1000, producer_epoch=0, base_sequence=0)
    assert builder.append(TIMESTAMP, None, b"hello") == 0
    assert builder.append(TIMESTAMP + 5, b"k", None, [("h", b"x")]) == 1
    assert builder.estimated_size == len(TWO_RECORDS)
    assert builder.build() == TWO_RECORDS


def test_a_header_reads_as_it_was_written() -> None:
    batch = RecordBatch(b"before" + TWO_RECORDS, 6)
    assert batch.is_valid_crc()
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (0, 1, 2)
    assert (batch.size_in_bytes, batch.count, batch.magic) == (85, 2, 2)
    assert (batch.base_timestamp, batch.max_timestamp) == (TIMESTAMP, TIMESTAMP + 5)
    assert (batch.producer_id, batch.producer_epoch) == (1000, 0)
    assert (batch.base_sequence, batch.last_sequence) == (0, 1)
    assert (batch.codec, batch.timestamp_type) == (Codec.NONE, TimestampType.CREATE_TIME)
    assert not batch.is_transactional
    assert not batch.is_control
    assert batch.delete_horizon_ms is None
    assert batch.to_bytes() == TWO_RECORDS
    assert list(batch.records()) == [
        Record(0, TIMESTAMP, None, b"hello", sequence=0),
        Record(1, TIMESTAMP + 5, b"k", None, [("h", b"x")], sequence=1),
    ]


@pytest.mark.parametrize("codec", list(Codec))
@given(st.lists(inputs, max_size=20), st.integers(0, 2**60))
def test_records_come_back(codec: Codec, given: list[Input], base_offset: int) -> None:
    (written,) = write(2, codec, base_offset, given)
    batch = RecordBatch(written.data)
    assert list(batch.records()) == written.records
    assert batch.is_valid_crc()
    assert batch.count == len(given)
    assert batch.codec is codec
    assert batch.max_timestamp == max((record.timestamp for record in given), default=-1)
    if given:
        assert batch.last_offset == written.records[-1].offset


@pytest.mark.parametrize(
    "timestamps", [(0, 2**62), (2**62, 0), (-1, -1), (5, -1), (-1, 2**63 - 1), (2**63 - 1, -1)]
)
def test_timestamps_may_lie_far_apart_and_in_any_order(timestamps: tuple[int, int]) -> None:
    batch = RecordBatch(build(*((timestamp, b"k", b"v") for timestamp in timestamps)))
    assert tuple(record.timestamp for record in batch.records()) == timestamps
    assert batch.max_timestamp == max(timestamps)


def test_large_numbers_take_the_slow_path() -> None:
    builder = RecordBatchBuilder()
    builder.append(0, bytes(20_000), bytes(3_000_000))
    builder.append(20_000, b"", b"", offset=2_000_000_000)
    records = list(RecordBatch(builder.build()).records())
    assert [(len(r.key or b""), len(r.value or b""), r.timestamp, r.offset) for r in records] == [
        (20_000, 3_000_000, 0, 0),
        (0, 0, 20_000, 2_000_000_000),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(-1, 2**40)), max_size=3),
    st.lists(st.lists(st.binary(max_size=80) | st.integers(0, 5000).map(bytes), max_size=150), max_size=3),
    st.integers(0, 20_000),
)
def test_values_in_a_row_are_the_records_that_one_by_one_they_would_be(
    before: list[tuple[int, int]], runs: list[list[bytes]], limit: int
) -> None:
    together, single = RecordBatchBuilder(), RecordBatchBuilder()
    for size, timestamp in before:
        for builder in (together, single):
            builder.append(timestamp, None, bytes(size))
    for number, values in enumerate(runs):
        taken = 0
        while count := together.append_values(TIMESTAMP + number, values, taken, limit):
            taken += count
        for value in values[:taken]:
            single.append(TIMESTAMP + number, None, value)
        assert together.estimated_size == single.estimated_size
        assert not taken or together.estimated_size <= limit
        if taken < len(values):
            left = RecordBatchBuilder()
            left.append(TIMESTAMP, None, values[taken])
            assert together.estimated_size + left.estimated_size - HEADER_SIZE + 12 > limit
    assert together.count == single.count
    assert together.build() == single.build()


def test_offsets_must_increase() -> None:
    builder = RecordBatchBuilder(base_offset=10)
    assert builder.append(0, None, None, offset=12) == 12
    assert builder.next_offset == 13
    with pytest.raises(ValueError, match="offset 12 comes after 12"):
        builder.append(0, None, None, offset=12)


def test_timestamps_below_none_are_refused() -> None:
    with pytest.raises(ValueError, match="negative timestamp: -2"):
        RecordBatchBuilder().append(-2, None, None)


def test_a_batch_may_end_in_offsets_without_records_or_hold_none_at_all() -> None:
    builder = RecordBatchBuilder(
        base_offset=10, codec=Codec.GZIP, producer_id=5, producer_epoch=1, base_sequence=3
    )
    batch = RecordBatch(builder.build(last_offset=14))
    assert batch.is_valid_crc()
    assert (batch.size_in_bytes, batch.count, batch.next_offset, batch.last_sequence) == (61, 0, 15, 7)
    assert list(batch.records()) == []


def test_sequences_wrap_to_zero() -> None:
    batch = RecordBatch(build((0, None, b"a"), (0, None, b"b"), producer_id=1, base_sequence=2**31 - 1))
    assert batch.last_sequence == 0
    assert [record.sequence for record in batch.records()] == [2**31 - 1, 0]


def test_append_time_dates_every_record() -> None:
    data = bytearray(b"before") + build((1, b"k", b"v"), (2, b"k", b"v"), codec=Codec.LZ4)
    set_append_time(data, 6, 9_000)
    batch = RecordBatch(data, 6)
    assert batch.is_valid_crc()
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.max_timestamp == 9_000
    assert [record.timestamp for record in batch.records()] == [9_000, 9_000]
    set_max_timestamp(data, 6, TimestampType.CREATE_TIME, 2)
    assert data[6:] == build((1, b"k", b"v"), (2, b"k", b"v"), codec=Codec.LZ4)


def test_offset_and_epoch_are_patched_outside_the_checksum() -> None:
    data = build((0, b"k", b"v"))
    set_base_offset_and_epoch(data, 0, 2**40, 7)
    batch = RecordBatch(data)
    assert batch.is_valid_crc()
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 7)
    assert [record.offset for record in batch.records()] == [2**40]


def test_a_producer_is_stamped_in_place() -> None:
    data = build((TIMESTAMP, None, b"hello"))
    view = memoryview(data)
    set_producer_state(view, 0, 1000, 3, 17)
    batch = RecordBatch(data)
    assert batch.is_valid_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (1000, 3, 17)
    assert batch.has_producer_id


def test_attributes_are_set_by_the_builder() -> None:
    options = {"is_transactional": True, "is_control": True, "leader_epoch": 4}
    batch = RecordBatch(build((0, b"k", b"v"), timestamp_type=TimestampType.LOG_APPEND_TIME, **options))
    assert (batch.attributes, batch.partition_leader_epoch) == (0x38, 4)
    assert batch.is_control
    assert batch.is_transactional


def test_the_delete_horizon_stands_in_for_the_base_timestamp() -> None:
    fields = list(HEADER.unpack_from(ONE_RECORD))
    fields[5] |= 0x40
    fields[7] = 12_345
    assert RecordBatch(HEADER.pack(*fields)).delete_horizon_ms == 12_345


# Walking sets.


@given(record_sets(), st.data())
def test_a_set_cut_anywhere_yields_its_whole_entries(written: list[Written], data: st.DataObject) -> None:
    whole = b"".join(part.data for part in written)
    cut = data.draw(st.integers(0, len(whole)))
    before = data.draw(st.binary(max_size=3))
    expected, size = [], 0
    for part in written:
        size += len(part.data)
        if size <= cut:
            expected += part.records
    for buffer, end in ((before + whole[:cut], None), (before + whole, len(before) + cut)):
        batches = list(iter_batches(buffer, len(before), end))
        assert [record for batch in batches for record in batch.records()] == expected
        assert all(batch.is_valid_crc() for batch in batches)
        assert [batch.last_offset for batch in batches] == [
            part.records[-1].offset for part in written if part.records[-1] in expected
        ]


@given(record_sets().filter(bool), st.data())
def test_a_flipped_bit_never_goes_unnoticed(written: list[Written], data: st.DataObject) -> None:
    whole = bytearray(b"".join(part.data for part in written))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << (bit % 8)
    try:
        batches = list(iter_batches(whole))
        for batch in batches:
            if not batch.is_valid_crc():
                return
            list(batch.records())
    except CorruptRecord:
        return
    read_bytes = sum(batch.size_in_bytes for batch in batches)
    assert read_bytes < len(whole) or _is_unprotected(written, bit // 8)


def _is_unprotected(written: list[Written], position: int) -> bool:
    """Whether `position` is in an offset or leader epoch, which no checksum covers."""
    for part in written:
        if position < len(part.data):
            return position < 8 or (part.data[16] == 2 and 12 <= position < 16)
        position -= len(part.data)
    raise AssertionError(position)


@given(record_sets().filter(bool), st.data())
def test_damage_raises_nothing_but_corrupt_record(written: list[Written], data: st.DataObject) -> None:
    damaged = bytearray(b"".join(part.data for part in written))
    for position in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=5)):
        damaged[position] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecord):
        for batch in iter_batches(damaged):
            list(batch.records(100_000))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(ONE_RECORD[:8] + b"\xff\xff\xff\xff" + ONE_RECORD[12:], "11 bytes", id="negative size"),
        pytest.param(
            ONE_RECORD[:8] + b"\x00\x00\x00\x0d" + ONE_RECORD[12:], "25 bytes", id="below any entry"
        ),
        pytest.param(ONE_RECORD[:8] + b"\x00\x00\x00\x30" + ONE_RECORD[12:], "60 bytes", id="below a batch"),
        pytest.param(ONE_RECORD[:16] + b"\x03" + ONE_RECORD[17:], "unknown magic: 3", id="next magic"),
        pytest.param(ONE_RECORD[:16] + b"\xff" + ONE_RECORD[17:], "unknown magic: 255", id="negative magic"),
    ],
)
def test_impossible_entries_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why):
        list(iter_batches(data))


def test_a_header_alone_can_be_read_but_not_its_records() -> None:
    batch = RecordBatch(ONE_RECORD[:HEADER_SIZE])
    assert batch.size_in_bytes == 70
    assert not batch.is_valid_crc()
    with pytest.raises(CorruptRecord, match="cut short"):
        list(batch.records())
    with pytest.raises(CorruptRecord, match="cut short"):
        batch.to_bytes()
    with pytest.raises(CorruptRecord, match="inside its header"):
        RecordBatch(ONE_RECORD[: HEADER_SIZE - 1])


def test_a_message_set_entry_is_no_batch_and_the_other_way_round() -> None:
    (entry,) = write(1, Codec.NONE, 0, [Input(0, b"key", bytes(50), [], 1)])
    with pytest.raises(CorruptRecord, match="not a record batch: magic 1"):
        RecordBatch(entry.data)
    with pytest.raises(CorruptRecord, match="magic 2"):
        LegacyEntry(ONE_RECORD)


# Records that contradict their batch.


def batch_of(payload: bytes, count: int = 1, codec: Codec = Codec.NONE) -> RecordBatch:
    """A batch with a right checksum around `payload`, whatever that is."""
    fields = [0, 49 + len(payload), -1, 2, 0, codec, max(count - 1, 0), 0, 0, -1, -1, -1, count]
    data = bytearray(HEADER.pack(*fields) + payload)
    update_crc(data, 0)
    return RecordBatch(data)


def record_of(body: str) -> bytes:
    """A record with a right length around hexadecimal `body`, which begins with the attributes."""
    data = bytes.fromhex(body)
    return encode_varint(len(data)) + data


GOOD = record_of("00 00 00 02 6b 02 76 00")


@pytest.mark.parametrize(
    ("payload", "count", "why"),
    [
        pytest.param(GOOD, 2, "fewer records", id="one record too few"),
        pytest.param(GOOD, 2**31 - 1, "fewer records", id="two thousand million records"),
        pytest.param(GOOD + GOOD, 1, "more than the records", id="one record too many"),
        pytest.param(GOOD, -1, "cannot hold -1", id="negative count"),
        pytest.param(GOOD[:-1], 1, "does not fit", id="record cut short"),
        pytest.param(b"\x01", 1, "does not fit", id="negative length"),
        pytest.param(b"\xfe\xff\xff\xff\x0f", 1, "does not fit", id="length of 2 GiB"),
        pytest.param(b"\xff\xff\xff\xff\xff\x01", 1, "longer than its type", id="endless length"),
        pytest.param(b"\x00", 1, "fewer records", id="empty record"),
        pytest.param(record_of("00 00 00 7e 6b"), 1, "fewer records|does not end", id="key past the end"),
        pytest.param(record_of("00 00 00 03 02 76 00"), 1, "key cannot have -2", id="negative key"),
        pytest.param(record_of("00 00 00 01 03 00"), 1, "value cannot have -2", id="negative value"),
        pytest.param(record_of("00 00 00 01 7e 76 00"), 1, "fewer records", id="value past the end"),
        pytest.param(record_of("00 00 00 01 01 00 00"), 1, "does not end", id="byte left in a record"),
        pytest.param(record_of("00 00 00 01 01 01"), 1, "-1 headers", id="negative header count"),
        pytest.param(
            record_of("00 00 00 01 01 fe ff ff ff 0f"), 1, "headers", id="a thousand million headers"
        ),
        pytest.param(record_of("00 00 00 01 01 02 01 01"), 1, "name cannot have -1", id="null header name"),
        pytest.param(
            record_of("00 00 00 01 01 02 08 61"), 1, "name cannot have 4", id="header name past the end"
        ),
        pytest.param(
            record_of("00 00 00 01 01 02 02 61 03"), 1, "value cannot have -2", id="negative header value"
        ),
        pytest.param(
            record_of("00 00 00 01 01 02 02 61 08 62"),
            1,
            "value cannot have 4",
            id="header value past the end",
        ),
    ],
)
def test_records_that_contradict_their_batch_are_refused(payload: bytes, count: int, why: str) -> None:
    with pytest.raises(CorruptRecord, match=why):
        list(batch_of(payload, count).records())


def test_a_header_name_may_be_any_bytes() -> None:
    """Kafka's brokers take them, and its consumers read U+FFFD for what is not UTF-8."""
    (record,) = batch_of(record_of("00 00 00 01 01 02 02 ff 01"), 1).records()
    assert record.headers == (("\ufffd", None),)


def test_the_value_of_one_record_cannot_reach_into_the_next() -> None:
    # The first record's value claims four bytes of which three belong to its neighbour.
    payload = encode_varint(6) + bytes.fromhex("00 00 00 01 08 76") + GOOD
    with pytest.raises(CorruptRecord, match="does not end where"):
        list(batch_of(payload, 2).records())


def test_unknown_codecs_and_damaged_blobs_are_refused() -> None:
    batch = batch_of(GOOD, codec=Codec.GZIP)
    with pytest.raises(CorruptRecord, match="gzip"):
        list(batch.records())
    batch.attributes = 7
    with pytest.raises(CorruptRecord, match="unknown compression codec"):
        list(batch.records())


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_bounded_by_what_the_caller_takes(codec: Codec) -> None:
    batch = RecordBatch(build((0, None, bytes(100_000)), codec=codec))
    with pytest.raises(CorruptRecord, match="more than 50000 bytes"):
        list(batch.records(50_000))
    assert len(batch.record_data(200_000)) > 100_000
