"""Random records and record sets for the tests of the record formats."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.protocol.records.record import Record

LEGACY_CODECS = [codec for codec in Codec if codec is not Codec.ZSTD]

payloads = st.none() | st.binary(max_size=100) | st.integers(0, 3000).map(bytes)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
timestamps = st.integers(-1, 2**42) | st.just(-1) | st.integers(1_700_000_000_000, 1_700_000_000_200)


class Input(NamedTuple):
    """What a record is made of, and how far its offset lies beyond the one before."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    step: int


inputs = st.builds(Input, timestamps, payloads, payloads, headers, st.sampled_from([1, 1, 1, 2, 500]))


class Written(NamedTuple):
    """The bytes of an entry or batch, and the records that a reader must find in them."""

    data: bytes
    records: list[Record]


def write(magic: int, codec: Codec, base_offset: int, given: list[Input]) -> list[Written]:
    """The records from `base_offset` on as one batch (magic 2), one wrapper, or plain entries."""
    offsets = []
    offset = base_offset - 1
    for record in given:
        offset += record.step
        offsets.append(offset)
    if magic == 2:
        builder = RecordBatchBuilder(codec=codec, base_offset=base_offset)
        for offset, record in zip(offsets, given, strict=True):
            builder.append(record.timestamp, record.key, record.value, record.headers, offset=offset)
        return [
            Written(bytes(builder.build()), [_read(2, o, r) for o, r in zip(offsets, given, strict=True)])
        ]
    groups = [list(zip(offsets, given, strict=True))]
    if codec is Codec.NONE:
        groups = [[pair] for pair in groups[0]]
    written = []
    for group in groups:
        legacy = MessageSetBuilder(magic, codec=codec, base_offset=group[0][0])
        for offset, record in group:
            legacy.append(record.timestamp, record.key, record.value, offset=offset)
        written.append(Written(legacy.build(), [_read(magic, o, r) for o, r in group]))
    return written


def _read(magic: int, offset: int, record: Input) -> Record:
    timestamp = record.timestamp if magic else -1
    return Record(offset, timestamp, record.key, record.value, record.headers if magic == 2 else ())


@st.composite
def record_sets(draw: st.DrawFn) -> list[Written]:
    """Entries and batches of any magic and codec, one after the other, offsets increasing."""
    written: list[Written] = []
    base_offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 4))):
        magic = draw(st.integers(0, 2))
        codec = draw(st.sampled_from(list(Codec) if magic == 2 else LEGACY_CODECS))
        written += write(magic, codec, base_offset, draw(st.lists(inputs, min_size=1, max_size=6)))
        base_offset = written[-1].records[-1].offset + 1
    return written
