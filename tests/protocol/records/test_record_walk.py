"""Walking records agrees with parsing them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER_SIZE
from kcli.protocol.records.record_walk import is_one_record, walk_records

OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(
        st.integers(-1, 2**62) | st.integers(0, 200),
        OPTIONAL_BYTES,
        OPTIONAL_BYTES,
        st.lists(st.tuples(st.text(max_size=5), OPTIONAL_BYTES), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def build(records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> bytearray:
    builder = RecordBatchBuilder()
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()


@given(RECORDS)
def test_a_walk_sees_what_parsing_sees(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    batch = RecordBatch(build(records))
    low, high, dense, keyed = walk_records(batch.buffer, HEADER_SIZE, batch.count)
    timestamps = [record.timestamp for record in batch.records()]
    assert batch.base_timestamp + low == min(timestamps)
    assert batch.base_timestamp + high == max(timestamps)
    assert dense
    assert keyed == all(record.key is not None for record in batch.records())


@given(RECORDS, st.data())
def test_damage_is_seen_by_both_or_neither(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], data: st.DataObject
) -> None:
    raw = build(records)
    position = data.draw(st.integers(HEADER_SIZE, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    batch = RecordBatch(raw)
    try:
        list(batch.records())
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            walk_records(raw, HEADER_SIZE, batch.count)
    else:
        walk_records(raw, HEADER_SIZE, batch.count)


@given(RECORDS.map(lambda records: records[:1]), st.data())
def test_what_looks_like_one_record_is_one(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], data: st.DataObject
) -> None:
    raw = build(records)
    for position in data.draw(st.lists(st.integers(HEADER_SIZE, len(raw) - 1), max_size=2)):
        raw[position] = data.draw(st.integers(0, 255))
    if is_one_record(raw, HEADER_SIZE):
        low, high, dense, _ = walk_records(raw, HEADER_SIZE, 1)
        assert (low, high, dense) == (0, 0, True)


@pytest.mark.parametrize("key", [None, b"", b"k" * 63])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 8000])
def test_most_single_records_look_like_one(key: bytes | None, size: int) -> None:
    assert is_one_record(build([(5, key, b"v" * size, [])]), HEADER_SIZE)


@pytest.mark.parametrize("count", [0, 2, 4, 2**31 - 1])
def test_a_wrong_count_is_noticed(count: int) -> None:
    raw = build([(1, b"k", b"v", [])] * 3)
    with pytest.raises(CorruptRecord):
        walk_records(raw, HEADER_SIZE, count)


def test_holes_between_offsets_are_noticed() -> None:
    builder = RecordBatchBuilder()
    builder.append(1, b"k", b"v")
    builder.append(1, b"k", b"v", offset=2)
    assert walk_records(builder.build(), HEADER_SIZE, 2)[2] is False
