"""Random chunks of batches, written byte by byte, so that they can also be what no producer writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from kcli.protocol.records.varints import encode_varint
from kcli.spark.decode.chunk import Chunk, CorruptRecords, Fields
from kcli.spark.decode.decoders import Decoder

ALL = ("key", "value", "headers")
FILLING = b"between batches: " + bytes(range(200, 244))

payloads = st.none() | st.binary(max_size=70) | st.sampled_from([63, 64, 8191, 8192, 20_000]).map(bytes)
names = st.text(max_size=8).map(str.encode) | st.binary(max_size=4)
headers = st.lists(st.tuples(names, st.none() | st.binary(max_size=8)), max_size=50) | st.just([])
time_deltas = st.integers(-200, 200) | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**31, -(2**40)])


class Given(NamedTuple):
    """What a record is made of; `step` is how far its offset lies beyond the one before."""

    timestamp_delta: int
    step: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


class GivenBatch(NamedTuple):
    """What a batch is made of."""

    base_timestamp: int
    is_append_time: bool
    records: list[Given]


records = st.builds(
    Given, time_deltas, st.sampled_from([1, 1, 1, 2, 500, 2**20]), payloads, payloads, headers | st.just([])
)
batches = st.builds(
    GivenBatch, st.integers(-1, 2**42) | st.just(2**63 - 1), st.booleans(), st.lists(records, max_size=5)
)


@st.composite
def many_batches(draw: st.DrawFn) -> list[GivenBatch]:
    """A few different batches, in some examples so often that they are walked together."""
    given = draw(st.lists(batches, min_size=1, max_size=5))
    return given * draw(st.sampled_from([1, 1, 70]))


def encode_record(record: Given, offset_delta: int) -> bytes:
    """Return a record with its length in front of it."""
    fields = [b"\x00", encode_varint(record.timestamp_delta), encode_varint(offset_delta)]
    for data in (record.key, record.value):
        fields += [encode_varint(-1 if data is None else len(data)), data or b""]
    fields.append(encode_varint(len(record.headers)))
    for name, value in record.headers:
        fields += [encode_varint(len(name)), name]
        fields += [encode_varint(-1 if value is None else len(value)), value or b""]
    body = b"".join(fields)
    return encode_varint(len(body)) + body


def encode(given: list[GivenBatch], first_offset: int = 1000) -> Chunk:
    """Return a chunk of the batches, bytes of no meaning around each."""
    data = bytearray(FILLING)
    rows = []
    base = first_offset
    for batch in given:
        begin, delta = len(data), -1
        for record in batch.records:
            delta += record.step
            data += encode_record(record, delta)
        attributes = 8 if batch.is_append_time else 0
        times = (batch.base_timestamp, batch.base_timestamp // 2)
        rows.append((begin, len(data), len(batch.records), base, max(delta, 0), *times, attributes))
        base += max(delta, 0) + 1
        data += FILLING
    return Chunk(bytes(data), np.array(rows, np.int64).reshape(-1, 8), 0, 2**63 - 1)


def columns(fields: Fields) -> dict[str, object]:
    """Return what can be compared; every array has been checked."""
    for array in (fields.key, fields.value, fields.headers):
        if array is not None:
            array.validate(full=True)
    types = fields.timestamp_types
    return {
        "offsets": fields.offsets.tolist(),
        "timestamps": fields.timestamps.tolist(),
        "types": types if isinstance(types, int) else types.tolist(),
        "key": as_list(fields.key),
        "value": as_list(fields.value),
        "headers": as_list(fields.headers),
    }


def as_list(array: pa.Array | None) -> list[object] | None:
    """Return the values of a column, None for one that there is not."""
    return None if array is None else array.to_pylist()


def outcome(decoder: Decoder, chunk: Chunk) -> dict[str, object] | CorruptRecords:
    """Return what a decoder makes of a chunk, or how it refuses it; nothing else may come out."""
    try:
        return columns(decoder(chunk, ALL))
    except CorruptRecords as damage:
        return damage
