"""What a leader accepts from producers, and what it stores."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.corruption import BYTES_PER_RECORD
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch, iter_batches
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER_SIZE, update_crc
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.records.record import TimestampType
from kcli.protocol.records.record_walk import WALKED_BYTES_PER_RECORD, walk_records_in_python
from kcli.storage.log import log_validator
from kcli.storage.log.log_config import COMPACT, DELETE, LOG_APPEND_TIME, LogConfig
from kcli.storage.log.log_validator import (
    InvalidRecords,
    LogValidator,
    TooMuchToRead,
    ValidatedRecords,
)
from kcli.storage.producers.producer_state import AppendOrigin
from tests.storage.log_harness import NOW_MS, batch_of, with_a_long_value, with_fields, with_more

DEFAULT = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({COMPACT, DELETE}))
APPEND_TIME = LogConfig(message_timestamp_type=LOG_APPEND_TIME)
ALL_CODECS = list(Codec)


def validate(
    records: bytes | bytearray | memoryview,
    config: LogConfig = DEFAULT,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidatedRecords:
    return LogValidator(config).validate(records, now_ms=NOW_MS, origin=origin)


def refusal(
    records: bytes | bytearray, config: LogConfig = DEFAULT, origin: AppendOrigin = AppendOrigin.CLIENT
) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        validate(records, config, origin)
    return refused.value


def only_batch(validated: ValidatedRecords) -> RecordBatch:
    """Return the only batch as it will be stored."""
    (batch,) = iter_batches(validated.data)
    assert isinstance(batch, RecordBatch)
    assert batch.is_valid_crc()
    (known,) = validated.batches
    assert (known.base_offset, known.max_timestamp, known.attributes, known.size_in_bytes) == (
        batch.base_offset,
        batch.max_timestamp,
        batch.attributes,
        batch.size_in_bytes,
    )
    return batch


def big(codec: Codec = Codec.NONE) -> bytearray:
    """Return a batch of twenty kilobytes."""
    values = [random.Random(number).randbytes(1000) for number in range(20)]
    return batch_of(*values, codec=codec)


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_good_batch_is_stored_as_it_came(codec: Codec) -> None:
    batch = batch_of(b"a", b"b", b"c", codec=codec)
    original = bytes(batch)
    validated = validate(batch)
    assert validated.data is batch
    assert bytes(batch) == original
    assert validated.log_append_time == -1


def test_read_only_bytes_are_copied() -> None:
    original = bytes(batch_of(b"a"))
    validated = validate(original)
    validated.data[0] = 1
    assert original == bytes(batch_of(b"a"))
    assert isinstance(validate(memoryview(original)).data, bytearray)


def test_nothing_and_less_than_a_batch_come_to_nothing() -> None:
    for size in (0, 5, 60, 70):
        assert validate(batch_of(b"a" * 100)[:size]).batches == []


def test_a_cut_batch_behind_a_whole_one_is_dropped() -> None:
    batch = batch_of(b"a")
    validated = validate(batch + batch_of(b"b" * 50)[:80])
    assert bytes(validated.data) == bytes(batch)
    assert len(validated.batches) == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"count": 0}, ErrorCode.INVALID_RECORD),
        ({"count": -1}, ErrorCode.INVALID_RECORD),
        ({"count": 2}, ErrorCode.INVALID_RECORD),
        ({"count": 4}, ErrorCode.INVALID_RECORD),
        ({"count": 2, "last_offset_delta": 1}, ErrorCode.INVALID_RECORD),
        ({"count": 4, "last_offset_delta": 3}, ErrorCode.INVALID_RECORD),
        ({"count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x08, "max_timestamp": -1}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": 0x08, "max_timestamp": NOW_MS + 3_600_001}, ErrorCode.INVALID_TIMESTAMP),
        *(({"attributes": codec}, ErrorCode.UNKNOWN_SERVER_ERROR) for codec in range(1, 8)),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
    ],
)
def test_headers_that_clients_must_not_send(fields: dict[str, int], code: ErrorCode) -> None:
    assert refusal(with_fields(batch_of(b"a", b"b", b"c"), **fields)).code is code


def test_a_wrong_checksum_is_corruption() -> None:
    for batch in (batch_of(b"a"), big()):
        for position in (21, 60, len(batch) - 1):
            damaged = bytearray(batch)
            damaged[position] ^= 1
            assert refusal(damaged).code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("position", "value"), [(16, 3), (16, 0xFF), (8, 0xFF), (11, 10)])
def test_entries_that_are_none_are_corruption(position: int, value: int) -> None:
    batch = batch_of(b"a")
    batch[position] = value
    if (position, value) == (11, 10):
        batch[8:12] = bytes([0, 0, 0, 10])
    assert refusal(batch).code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_above_the_largest_size_is_refused() -> None:
    batch = batch_of(b"a" * 100)
    assert len(validate(batch, LogConfig(max_message_bytes=len(batch))).batches) == 1
    assert refusal(batch, LogConfig(max_message_bytes=len(batch) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_clients_send_one_batch_others_several() -> None:
    two = batch_of(b"a") + batch_of(b"b", b"c")
    assert refusal(two).code is ErrorCode.INVALID_RECORD
    assert [batch.count for batch in validate(two, origin=AppendOrigin.COORDINATOR).batches] == [1, 2]


def test_coordinators_write_control_batches() -> None:
    marker = end_txn_batch(
        EndTxnMarker(ControlRecordType.ABORT, 0), timestamp=NOW_MS, producer_id=7, producer_epoch=0
    )
    assert refusal(bytearray(marker)).code is ErrorCode.INVALID_RECORD
    assert validate(marker, COMPACTED, AppendOrigin.COORDINATOR).batches[0].is_control


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_compacted_topic_wants_keys(codec: Codec) -> None:
    keys = (b"k", None, b"k", None)
    batch = batch_of(b"a", b"b", None, b"d", keys=keys, codec=codec)
    validate(bytearray(batch))
    error = refusal(batch, COMPACTED)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]


def test_a_large_batch_of_a_compacted_topic_is_read_too() -> None:
    batch = batch_of(*[b"x" * 5000] * 4, keys=(b"k", b"k", b"k", None))
    error = refusal(batch, COMPACTED)
    assert isinstance(error, InvalidRecords)
    assert [index for index, _ in error.record_errors] == [3]


@pytest.mark.parametrize(
    ("timestamp", "config", "is_good"),
    [
        (NOW_MS + 3_600_000, DEFAULT, True),
        (NOW_MS + 3_600_001, DEFAULT, False),
        (0, DEFAULT, True),
        (-1, DEFAULT, True),
        (NOW_MS - 1000, LogConfig(message_timestamp_before_max_ms=1000), True),
        (NOW_MS - 1001, LogConfig(message_timestamp_before_max_ms=1000), False),
        (-1, LogConfig(message_timestamp_before_max_ms=1000), True),
        (NOW_MS + 3_600_001, APPEND_TIME, True),
    ],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("size", [10, 20_000])
def test_create_times_stay_within_bounds(
    timestamp: int, config: LogConfig, is_good: bool, codec: Codec, size: int
) -> None:
    builder = RecordBatchBuilder(codec=codec)
    for made in (NOW_MS, timestamp, NOW_MS):
        builder.append(made, b"k", random.randbytes(size))
    if is_good:
        validate(builder.build(), config)
    else:
        error = refusal(builder.build(), config)
        assert isinstance(error, InvalidRecords)
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in error.record_errors] == [1]


@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("large", [False, True])
def test_append_time_replaces_what_the_client_set(codec: Codec, large: bool) -> None:
    batch = big(codec) if large else batch_of(b"a", b"b", codec=codec, timestamp=5)
    validated = validate(batch, APPEND_TIME)
    stored = only_batch(validated)
    assert validated.log_append_time == NOW_MS
    assert stored.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in stored.records()} == {NOW_MS}


@pytest.mark.parametrize("claimed", [0, NOW_MS - 5, NOW_MS + 60_000])
def test_a_wrong_largest_timestamp_is_put_right(claimed: int) -> None:
    batch = with_fields(batch_of(b"a", b"b", timestamp=NOW_MS, step_ms=3), max_timestamp=claimed)
    assert only_batch(validate(batch)).max_timestamp == NOW_MS + 3


@pytest.mark.parametrize("source", ALL_CODECS)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topics_codec_replaces_the_producers(source: Codec, target: str) -> None:
    values = (b"a" * 200, b"b" * 200)
    batch = batch_of(*values, codec=source, producer=(7, 1, 40), timestamp=NOW_MS - 9, step_ms=2)
    before = list(RecordBatch(bytearray(batch)).records())
    stored = only_batch(validate(batch, LogConfig(compression_type=target)))
    assert stored.codec.name.lower() == target.replace("uncompressed", "none")
    assert list(stored.records()) == before
    assert (stored.producer_id, stored.producer_epoch, stored.base_sequence) == (7, 1, 40)
    assert (stored.base_timestamp, stored.max_timestamp) == (NOW_MS - 9, NOW_MS - 7)


def test_a_rebuilt_batch_may_be_too_large() -> None:
    batch = batch_of(b"a" * 5000, codec=Codec.ZSTD)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=1000)
    assert refusal(batch, config).code is ErrorCode.MESSAGE_TOO_LARGE


def test_append_time_holds_for_rebuilt_batches_too() -> None:
    config = LogConfig(compression_type="gzip", message_timestamp_type=LOG_APPEND_TIME)
    stored = only_batch(validate(batch_of(b"a", b"b", timestamp=3), config))
    assert stored.codec is Codec.GZIP
    assert {record.timestamp for record in stored.records()} == {NOW_MS}


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_offsets_with_holes_are_counted_anew(codec: Codec) -> None:
    builder = RecordBatchBuilder(codec=codec)
    for offset in (0, 1, 7):
        builder.append(NOW_MS, b"k", b"v", offset=offset)
    batch = with_fields(builder.build(), last_offset_delta=2)
    assert [record.offset for record in only_batch(validate(batch)).records()] == [0, 1, 2]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_older_formats_are_converted_up(magic: int, codec: Codec) -> None:
    builder = MessageSetBuilder(magic, codec=codec)
    for number in range(3):
        builder.append(NOW_MS + number, b"k%d" % number, b"v")
    stored = only_batch(validate(builder.build()))
    assert stored.codec is codec
    assert [(record.offset, record.key) for record in stored.records()] == [
        (0, b"k0"),
        (1, b"k1"),
        (2, b"k2"),
    ]
    expected = -1 if magic == 0 else NOW_MS + 2
    assert stored.max_timestamp == expected


def test_older_formats_keep_the_rules() -> None:
    keyless = MessageSetBuilder(1)
    keyless.append(NOW_MS, None, b"v")
    assert refusal(bytearray(keyless.build()), COMPACTED).code is ErrorCode.INVALID_RECORD
    late = MessageSetBuilder(1)
    late.append(NOW_MS + 10**9, b"k", b"v")
    assert refusal(bytearray(late.build())).code is ErrorCode.INVALID_TIMESTAMP
    damaged = bytearray(keyless.build())
    damaged[-1] ^= 1
    assert refusal(damaged).code is ErrorCode.CORRUPT_MESSAGE
    assert only_batch(validate(late.build(), APPEND_TIME)).max_timestamp == NOW_MS
    large = LogConfig(max_message_bytes=20)
    assert refusal(bytearray(keyless.build()), large).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_a_batch_that_does_not_decompress_is_refused(codec: Codec) -> None:
    batch = batch_of(b"a" * 100, b"b" * 100, codec=codec)
    batch[HEADER_SIZE + 10 :] = bytes(len(batch) - HEADER_SIZE - 10)
    update_crc(batch, 0)
    assert refusal(batch).code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_decompression_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(3_000_000))
    batch = batch_of(b"a", codec=codec)
    batch[HEADER_SIZE:] = bomb
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    update_crc(batch, 0)
    with pytest.raises(TooMuchToRead) as refused:
        LogValidator(DEFAULT).validate(batch, now_ms=NOW_MS, max_decompressed=1_000_000)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_too_many_records_are_refused_unread(codec: Codec) -> None:
    """Records of seven bytes each would take hours to read."""
    batch = batch_of(*[None] * 1000, keys=(None,) * 1000, codec=codec)
    limit = 1000 * WALKED_BYTES_PER_RECORD
    with pytest.raises(TooMuchToRead):
        LogValidator(DEFAULT).validate(batch, now_ms=NOW_MS, max_decompressed=limit - 1)
    assert len(LogValidator(DEFAULT).validate(batch, now_ms=NOW_MS, max_decompressed=limit).batches) == 1


@pytest.mark.parametrize(
    ("config", "keys"), [(COMPACTED, (None,) * 1000), (LogConfig(compression_type="zstd"), None)]
)
def test_too_many_records_are_refused_undecoded(
    config: LogConfig, keys: tuple[bytes | None, ...] | None
) -> None:
    batch = batch_of(*[b""] * 1000, keys=keys)
    with pytest.raises(TooMuchToRead):
        LogValidator(config).validate(batch, now_ms=NOW_MS, max_decompressed=1000 * BYTES_PER_RECORD - 1)


def test_a_batch_with_a_negative_timestamp_is_not_built_anew() -> None:
    config = LogConfig(compression_type="lz4")
    batch = with_fields(batch_of(b"a", b"b"), base_timestamp=-5, max_timestamp=-5)
    assert refusal(batch, config).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_only_the_first_thousand_bad_records_are_named() -> None:
    builder = RecordBatchBuilder()
    for _ in range(1500):
        builder.append(NOW_MS, None, b"")
    with pytest.raises(InvalidRecords) as refused:
        LogValidator(COMPACTED).validate(builder.build(), now_ms=NOW_MS)
    assert [index for index, _ in refused.value.record_errors] == list(range(1000))


# --- one verdict at every size, plain or compressed

SIZES = (3, 148, 149, 1000, 20_000)


@pytest.fixture(params=["chosen walk", "walk in Python"])
def _each_walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "walk in Python":
        monkeypatch.setattr(log_validator, "walk_records", walk_records_in_python)


@pytest.mark.usefixtures("_each_walk")
@pytest.mark.parametrize("codec", ALL_CODECS)
@pytest.mark.parametrize("count", SIZES)
def test_a_value_that_reaches_into_the_next_record_is_refused(count: int, codec: Codec) -> None:
    config = LogConfig(max_message_bytes=10_000_000)
    error = refusal(with_a_long_value(count, codec), config)
    assert error.code is ErrorCode.INVALID_RECORD
    assert f"record {count // 2}:" in error.message


@pytest.mark.usefixtures("_each_walk")
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"attributes": Codec.LZ4}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"attributes": 7}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"base_timestamp": NOW_MS + 2**40}, ErrorCode.INVALID_TIMESTAMP),
        # Far behind any time that there was: the difference to now does not fit in 64 bits.
        ({"base_timestamp": -(2**63)}, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_header_that_does_not_fit_the_records_is_refused(
    count: int, fields: dict[str, int], code: ErrorCode
) -> None:
    batch = with_fields(batch_of(*[b"x" * 100] * count), **fields)
    assert refusal(batch, LogConfig(max_message_bytes=10_000_000)).code is code


@pytest.mark.parametrize("count", SIZES)
def test_bytes_behind_the_last_record_are_refused(count: int) -> None:
    batch = with_more(batch_of(*[b"x" * 100] * count), b"\0")
    assert refusal(batch, LogConfig(max_message_bytes=10_000_000)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("codec", ALL_CODECS)
def test_a_clients_append_time_becomes_a_create_time(count: int, codec: Codec) -> None:
    """As in Kafka, where only a topic with append time of its own refuses the bit."""
    batch = batch_of(*[b"x" * 100] * count, codec=codec)
    marked = with_fields(batch, attributes=codec | 0x08, max_timestamp=NOW_MS + 5)
    large = LogConfig(max_message_bytes=10_000_000)
    stored = only_batch(validate(bytearray(marked), large))
    assert (stored.timestamp_type, stored.max_timestamp) == (TimestampType.CREATE_TIME, NOW_MS + 5)
    error = refusal(marked, replace(large, message_timestamp_type=LOG_APPEND_TIME))
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert len(error.record_errors) == min(count, 1000)


@pytest.mark.parametrize("count", SIZES)
def test_a_wrong_largest_timestamp_is_put_right_at_every_size(count: int) -> None:
    batch = with_fields(batch_of(*[b"x" * 100] * count), max_timestamp=NOW_MS - 1)
    assert only_batch(validate(batch, LogConfig(max_message_bytes=10_000_000))).max_timestamp == NOW_MS
