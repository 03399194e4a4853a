"""Conversion up for old producers and down for old consumers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import set_append_time
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.records.conversion import down_convert, up_convert
from kcli.protocol.records.message_set import MessageSetBuilder, encode_entry
from kcli.protocol.records.record import Record, TimestampType
from tests.protocol.records.record_sets import LEGACY_CODECS, Input, Written, inputs, record_sets, write

TIMESTAMP = 1_700_000_000_000


def records_of(data: bytes | bytearray) -> list[Record]:
    """All records in a set, whose checksums must be right."""
    batches = list(iter_batches(data))
    assert all(batch.is_valid_crc() for batch in batches)
    return [record for batch in batches for record in batch.records()]


# Up


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@given(st.lists(inputs, min_size=1, max_size=8))
def test_a_message_set_becomes_one_batch_from_offset_0(magic: int, codec: Codec, given: list[Input]) -> None:
    written = write(magic, codec, 0, given)
    batch = RecordBatch(up_convert(b"".join(part.data for part in written)))
    assert batch.is_valid_crc()
    assert batch.codec is codec
    assert (batch.base_offset, batch.last_offset) == (0, len(given) - 1)
    assert (batch.producer_id, batch.partition_leader_epoch) == (-1, -1)
    expected = [record for part in written for record in part.records]
    assert list(batch.records()) == [
        Record(offset, record.timestamp, record.key, record.value) for offset, record in enumerate(expected)
    ]
    assert batch.max_timestamp == max(record.timestamp for record in expected)


def test_the_broker_may_choose_the_codec() -> None:
    data = b"".join(part.data for part in write(1, Codec.GZIP, 0, [Input(0, None, b"v", [], 1)]))
    assert RecordBatch(up_convert(data, codec=Codec.ZSTD)).codec is Codec.ZSTD
    assert RecordBatch(up_convert(data, codec=Codec.NONE)).codec is Codec.NONE


def test_a_wrapper_of_offset_0_from_old_librdkafka_is_taken() -> None:
    entries = b"".join(encode_entry(i, 1, 0, TIMESTAMP + i, None, b"%d" % i) for i in range(3))
    wrapper = encode_entry(0, 1, Codec.GZIP, TIMESTAMP + 2, None, compress(Codec.GZIP, entries))
    assert records_of(up_convert(wrapper)) == [Record(i, TIMESTAMP + i, None, b"%d" % i) for i in range(3)]


def test_append_time_set_by_a_client_stays_visible() -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        builder = MessageSetBuilder(1, codec=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
        builder.append(TIMESTAMP, None, b"v")
        batch = RecordBatch(up_convert(builder.build()))
        assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert batch.max_timestamp == TIMESTAMP


def test_an_incomplete_tail_is_dropped() -> None:
    whole = encode_entry(0, 1, 0, 5, b"k", b"v")
    assert records_of(up_convert(whole + whole[:-1])) == [Record(0, 5, b"k", b"v")]
    assert up_convert(whole[:-1]) == up_convert(b"") == b""


def flipped(data: bytes, position: int) -> bytes:
    """`data` with one bit changed."""
    return data[:position] + bytes((data[position] ^ 1,)) + data[position + 1 :]


def test_wrong_checksums_are_refused_inside_and_out() -> None:
    entry = encode_entry(0, 1, 0, 5, b"k", b"v")
    with pytest.raises(CorruptRecord, match="wrong checksum"):
        up_convert(flipped(entry, len(entry) - 1))
    wrapper = encode_entry(0, 1, 1, 5, None, compress(Codec.GZIP, flipped(entry, len(entry) - 1)))
    with pytest.raises(CorruptRecord, match="wrong checksum"):
        up_convert(wrapper)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encode_entry(0, 0, 0, 0, None, b"") + encode_entry(1, 1, 0, 0, None, b""), id="0 and 1"),
        pytest.param(
            encode_entry(0, 1, 0, 0, None, bytes(50)) + bytes(RecordBatchBuilder().build()), id="1 and 2"
        ),
        pytest.param(bytes(RecordBatchBuilder().build()), id="2"),
        pytest.param(
            encode_entry(0, 1, 1, 0, None, compress(Codec.GZIP, encode_entry(0, 0, 0, 0, None, b""))),
            id="0 inside 1",
        ),
    ],
)
def test_sets_of_mixed_magic_are_refused(data: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        up_convert(data)
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_timestamps_below_none_are_refused() -> None:
    with pytest.raises(KafkaError) as caught:
        up_convert(encode_entry(0, 1, 0, -2, None, b"v"))
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP


def test_all_wrappers_of_a_set_share_one_limit() -> None:
    builder = MessageSetBuilder(1, codec=Codec.GZIP)
    builder.append(0, None, bytes(1000))
    wrapper = builder.build()
    assert len(records_of(up_convert(wrapper * 3, max_bytes=5000))) == 3
    with pytest.raises(CorruptRecord, match="more than"):
        up_convert(wrapper * 6, max_bytes=5000)


@given(record_sets(), st.data())
def test_damage_raises_nothing_but_the_two_errors(written: list[Written], data: st.DataObject) -> None:
    damaged = bytearray(b"".join(part.data for part in written))
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for convert in (up_convert, lambda data: down_convert(data, 0), lambda data: down_convert(data, 1)):
        try:
            convert(damaged)
        except (CorruptRecord, KafkaError):
            continue


# Down


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@given(st.lists(inputs, min_size=1, max_size=8), st.integers(0, 2**60))
def test_a_batch_becomes_a_message_set_at_the_same_offsets(
    magic: int, codec: Codec, given: list[Input], base_offset: int
) -> None:
    (written,) = write(2, codec, base_offset, given)
    converted = down_convert(written.data, magic)
    entries = list(iter_batches(converted))
    assert {(entry.magic, entry.codec) for entry in entries} == {(magic, codec)}
    assert records_of(converted) == [
        Record(record.offset, record.timestamp if magic else -1, record.key, record.value)
        for record in written.records
    ]


@given(record_sets(), st.integers(0, 1))
def test_sets_of_any_formats_become_one(written: list[Written], magic: int) -> None:
    data = b"".join(part.data for part in written)
    if any(batch.codec is Codec.ZSTD for batch in iter_batches(data)):
        with pytest.raises(KafkaError) as caught:
            down_convert(data, magic)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return
    converted = down_convert(data, magic)
    assert {batch.magic for batch in iter_batches(converted)} <= set(range(magic + 1))
    offsets = [record.offset for part in written for record in part.records]
    assert [record.offset for record in records_of(converted)] == offsets


def test_what_is_old_enough_passes_untouched() -> None:
    data = encode_entry(4, 0, 0, 0, b"k", b"v") + encode_entry(5, 1, 0, 7, b"k", b"v")
    assert down_convert(data, 1) == data
    assert down_convert(data, 0) == encode_entry(4, 0, 0, 0, b"k", b"v") + encode_entry(
        5, 0, 0, 0, b"k", b"v"
    )


def test_append_time_survives() -> None:
    builder = RecordBatchBuilder(codec=Codec.GZIP)
    builder.append(1, None, b"v")
    data = builder.build()
    set_append_time(data, 0, TIMESTAMP)
    (entry,) = iter_batches(down_convert(data, 1))
    assert entry.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in entry.records()] == [TIMESTAMP]


def test_control_batches_are_dropped() -> None:
    marker = end_txn_batch(
        EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=0, producer_id=1, producer_epoch=0, base_offset=3
    )
    builder = RecordBatchBuilder(base_offset=4, producer_id=1, producer_epoch=0, base_sequence=0)
    builder.append(5, b"k", b"v", [("dropped", b"too")])
    assert records_of(down_convert(marker + builder.build(), 1)) == [Record(4, 5, b"k", b"v")]
    assert down_convert(marker, 1) == b""


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_records_before_the_one_asked_for_are_left_out_of_plain_batches(codec: Codec) -> None:
    (written,) = write(2, codec, 10, [Input(0, None, b"v", [], 1)] * 4)
    offsets = [record.offset for record in records_of(down_convert(written.data, 1, first_offset=12))]
    assert offsets == ([12, 13] if codec is Codec.NONE else [10, 11, 12, 13])


def test_offsets_that_cannot_be_are_refused() -> None:
    builder = RecordBatchBuilder(base_offset=2**62)
    builder.append(0, None, b"v")
    builder.append(0, None, b"v")
    data = builder.build()
    assert len(down_convert(data, 1)) == 2 * (34 + 1)
    data[0:8] = b"\x7f" + b"\xff" * 7
    with pytest.raises(CorruptRecord, match="invalid records in a batch"):
        down_convert(data, 1)
    # The wrapper's last inner offset is 7, so the first one, 8, would be beyond it.
    entries = encode_entry(8, 1, 0, 0, None, b"") + encode_entry(7, 1, 0, 0, None, b"")
    wrapper = encode_entry(7, 1, Codec.GZIP, 0, None, compress(Codec.GZIP, entries))
    with pytest.raises(CorruptRecord, match="offset 7 comes after 8"):
        down_convert(wrapper, 0)


def test_an_incomplete_tail_is_not_converted() -> None:
    (written,) = write(2, Codec.NONE, 10, [Input(0, None, b"v", [], 1)])
    assert len(records_of(down_convert(written.data + written.data[:-1], 0))) == 1
    assert down_convert(written.data[:-1], 0) == b""


def test_up_and_down_again_is_the_same_set() -> None:
    for magic in (0, 1):
        for codec in LEGACY_CODECS:
            given = [Input(TIMESTAMP + i, b"key", b"value %d" % i, [], 1) for i in range(5)]
            data = b"".join(part.data for part in write(magic, codec, 0, given))
            assert down_convert(up_convert(data), magic) == data
