"""Segment files of all formats as bytes, entry by entry, and what can happen to them."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.message_set import MessageSetBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_TIMESTAMP = 1_760_000_000_000
LEGACY_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


class Shape(NamedTuple):
    """One entry to be made: of so many `records`; without a codec, older formats take an entry for each."""

    magic: int = 2
    codec: Codec = Codec.NONE
    records: int = 3
    value_bytes: int = 20
    gap: int = 0


def make_entry(shape: Shape, base_offset: int, seed: int = 0) -> bytes:
    """The bytes of an entry; values are random where the codec would make too little of them."""
    noise = random.Random(seed)
    builder: RecordBatchBuilder | MessageSetBuilder
    if shape.magic == 2:
        builder = RecordBatchBuilder(codec=shape.codec, base_offset=base_offset, leader_epoch=4)
    else:
        builder = MessageSetBuilder(shape.magic, codec=shape.codec, base_offset=base_offset)
    for number in range(shape.records):
        builder.append(FIRST_TIMESTAMP + number, b"key-%d" % number, noise.randbytes(shape.value_bytes))
    return bytes(builder.build())


def make_entries(shapes: Sequence[Shape], base_offset: int = 0) -> list[bytes]:
    """The entries of a segment, offsets one after the other but for the gaps."""
    entries = []
    for number, shape in enumerate(shapes):
        base_offset += shape.gap
        made = shape if shape.magic == 2 or shape.codec else shape._replace(records=1)
        entries.append(make_entry(made, base_offset, number))
        base_offset += made.records
    return entries


def starts_of(entries: Sequence[bytes]) -> list[int]:
    """Where each entry begins, and the end."""
    return list(accumulate(map(len, entries), initial=0))


def shapes(min_size: int = 1, max_size: int = 8) -> st.SearchStrategy[list[Shape]]:
    """Segments of all formats mixed."""
    batch = st.builds(
        Shape, st.just(2), st.sampled_from(Codec), st.integers(1, 4), st.integers(0, 80), st.integers(0, 2)
    )
    older = st.builds(
        Shape,
        st.integers(0, 1),
        st.sampled_from(LEGACY_CODECS),
        st.integers(1, 4),
        st.integers(0, 80),
        st.integers(0, 2),
    )
    return st.lists(st.one_of(batch, older), min_size=min_size, max_size=max_size)


class Harm(NamedTuple):
    """One thing done to the bytes: `at` and `size` are fractions of what is there."""

    verb: str
    at: float
    size: float
    seed: int


VERBS = ("flip", "cut", "remove", "zero", "duplicate", "swap", "insert", "append")


def harms() -> st.SearchStrategy[Harm]:
    """Random damage."""
    return st.builds(
        Harm,
        st.sampled_from(VERBS),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 2**16),
    )


def harm(data: bytes, done: Harm) -> tuple[bytes, int]:
    """The bytes after damage, and the first that may be another one."""
    at = int(done.at * len(data))
    size = 1 + int(done.size**3 * (len(data) - at))
    noise = random.Random(done.seed).randbytes(min(size, 300))
    match done.verb:
        case "flip":
            flipped = bytes((data[at] ^ (1 << done.seed % 8),)) if at < len(data) else b""
            return data[:at] + flipped + data[at + 1 :], at
        case "cut":
            return data[:at], at
        case "remove":
            return data[:at] + data[at + size :], at
        case "zero":
            return data[:at] + bytes(len(data[at : at + size])) + data[at + size :], at
        case "duplicate":
            return data[: at + size] + data[at : at + size] + data[at + size :], at + size
        case "swap":
            return data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[
                at + 2 * size :
            ], at
        case "insert":
            return data[:at] + noise + data[at:], at
    return data + noise, len(data)
