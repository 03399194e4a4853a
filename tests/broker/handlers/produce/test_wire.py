"""Produce's own reader and writer against the codec that is generated from the declaration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.handlers.produce.wire import decoder, encode_rows, one_row_frame
from kcli.protocol.frames import encode_response
from kcli.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kcli.protocol.schema.declaration import DecodeError, codec
from kcli.protocol.uuids import ZERO_UUID

VERSIONS = range(14)
ids = st.binary(min_size=16, max_size=16)
names = st.text(max_size=140)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
partitions = st.lists(
    st.tuples(
        ints, st.one_of(st.none(), st.binary(max_size=300), st.binary(min_size=16_380, max_size=16_390))
    ),
    max_size=3,
)


@st.composite
def requests(draw: st.DrawFn, version: int) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=draw(st.one_of(st.none(), names)) if version >= 3 else None,
        acks=draw(st.integers(-(2**15), 2**15 - 1)),
        timeout_ms=draw(ints),
        topic_data=[
            TopicProduceData(
                name=draw(names) if version < 13 else "",
                topic_id=draw(ids) if version >= 13 else ZERO_UUID,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in draw(partitions)
                ],
            )
            for _ in range(draw(st.integers(0, 3)))
        ],
    )


def by_codec(data: bytes, version: int) -> Any:
    """Return what the generated decoder reads, in the shape of our own."""
    try:
        request, _ = codec(ProduceRequest, version).decode(data)
    except DecodeError:
        return "malformed"
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (
                topic.name,
                topic.topic_id,
                [(p.index, None if p.records is None else bytes(p.records)) for p in topic.partition_data],
            )
            for topic in request.topic_data
        ],
    )


def by_hand(data: bytes, version: int) -> Any:
    # Inside a larger buffer, as it comes: what lies around must not be read.
    buffer = memoryview(bytearray(b"\x00" * 7 + data + b"\x00" * 50))
    try:
        request, end = decoder(version)(buffer, 7, 7 + len(data))
    except DecodeError:
        return "malformed"
    assert end == 7 + len(data)
    return (
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (name, topic_id, [(i, None if r is None else bytes(r)) for i, r in rows])
            for name, topic_id, rows in request.topics
        ],
    )


@given(version=st.sampled_from(VERSIONS), data=st.data())
def test_requests_are_read_as_the_codec_does(version: int, data: st.DataObject) -> None:
    encoded = codec(ProduceRequest, version).encode(data.draw(requests(version)))
    expected = by_codec(encoded, version)
    assert expected != "malformed"
    assert by_hand(encoded, version) == expected


@given(
    version=st.sampled_from(VERSIONS),
    data=st.data(),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 30),
)
def test_damaged_requests_are_read_as_the_codec_does(
    version: int, data: st.DataObject, changes: list[tuple[int, int]], cut: int
) -> None:
    encoded = bytearray(codec(ProduceRequest, version).encode(data.draw(requests(version))))
    for position, value in changes:
        encoded[position % len(encoded)] = value
    damaged = bytes(encoded[: max(0, len(encoded) - cut)])
    assert by_hand(damaged, version) == by_codec(damaged, version)


rows = st.tuples(ints, st.integers(-(2**15), 2**15 - 1), longs, longs, longs)
topics = st.lists(st.tuples(names, ids, st.lists(rows, max_size=3)), max_size=3)


def response(version: int, contents: list[tuple[str, bytes, list[tuple[int, int, int, int, int]]]]) -> Any:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=error_code,
                        base_offset=base_offset,
                        log_append_time_ms=append_time,
                        log_start_offset=log_start,
                    )
                    for index, error_code, base_offset, append_time, log_start in partition_rows
                ],
            )
            for name, topic_id, partition_rows in contents
        ]
    )


@given(version=st.sampled_from(VERSIONS), contents=topics)
def test_rows_are_written_as_the_codec_does(version: int, contents: Any) -> None:
    expected = codec(ProduceResponse, version).encode(response(version, contents))
    assert encode_rows(contents, version) == expected


@pytest.mark.parametrize("version", range(5, 13))
@given(name=st.text("abc._-", min_size=1, max_size=249), row=rows)
def test_one_row_is_answered_as_the_codec_does(version: int, name: str, row: Any) -> None:
    body = response(version, [(name, ZERO_UUID, [row])])
    pack, size, head, tail = one_row_frame(name.encode(), version)
    assert pack(size, 77, head, *row, tail) == encode_response(0, version, 77, body)
