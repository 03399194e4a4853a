"""Unpacked: batches decompressed behind each other, whatever their codec, and only as far as is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression import Codec, compress
from kcli.protocol.record import CorruptRecord, TooMuchData
from kcli.spark.columns.unpacked import FIRST_BYTES, Place, Unpacked

LIMIT = 64 * 1024 * 1024
batches = st.lists(st.tuples(st.sampled_from(list(Codec)), st.binary(max_size=300)), max_size=6)


@given(batches, batches)
def test_batches_stand_behind_each_other_until_it_is_cleared(
    first: list[tuple[Codec, bytes]], second: list[tuple[Codec, bytes]]
) -> None:
    unpacked = Unpacked()
    for written in (first, second):
        unpacked.clear()
        places = [unpacked.add(codec, compress(codec, data), LIMIT) for codec, data in written]
        assert [bytes(unpacked.view[begin:end]) for begin, end in places] == [data for _, data in written]
        assert [place.begin for place in places] == [0, *(place.end for place in places)][: len(places)]


@pytest.mark.parametrize("codec", list(Codec))
def test_it_grows_and_keeps_what_is_there(codec: Codec) -> None:
    unpacked, large = Unpacked(), bytes(range(256)) * (FIRST_BYTES // 256 + 1)
    unpacked.add(Codec.NONE, b"before", LIMIT)
    place = unpacked.add(codec, compress(codec, large), LIMIT)
    assert place == Place(6, 6 + len(large))
    assert bytes(unpacked.view[:6]) == b"before"
    assert bytes(unpacked.view[6:]) == large


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_more_than_is_allowed_and_damage_leave_it_as_it_is(codec: Codec) -> None:
    unpacked, data = Unpacked(), compress(codec, b"x" * 5000)
    unpacked.add(Codec.NONE, b"before", LIMIT)
    with pytest.raises(TooMuchData):
        unpacked.add(codec, data, 4999)
    for damaged in (data[:-1], b"no frame at all"):
        with pytest.raises(CorruptRecord):
            unpacked.add(codec, damaged, LIMIT)
    assert bytes(unpacked.view) == b"before"
    assert unpacked.add(codec, data, 5000) == Place(6, 5006)


def test_every_truncated_zstd_frame_is_damage() -> None:
    data = compress(Codec.ZSTD, bytes(range(256)) * 20)
    for size in range(1, len(data)):
        with pytest.raises(CorruptRecord):
            Unpacked().add(Codec.ZSTD, data[:size], LIMIT)
