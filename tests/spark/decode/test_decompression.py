"""DecompressedRecords: one batch behind the other, of any codec, up to the limit."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress
from kcli.protocol.corruption import CorruptRecord, TooMuchData
from kcli.spark.decode.decompression import FIRST_BYTES, ByteRange, DecompressedRecords

LIMIT = 64 * 1024 * 1024
batches = st.lists(st.tuples(st.sampled_from(list(Codec)), st.binary(max_size=300)), max_size=6)


@given(batches, batches)
def test_batches_stand_behind_each_other_until_it_is_cleared(
    first: list[tuple[Codec, bytes]], second: list[tuple[Codec, bytes]]
) -> None:
    decompressed = DecompressedRecords()
    for written in (first, second):
        decompressed.clear()
        places = [decompressed.add(codec, compress(codec, data), LIMIT) for codec, data in written]
        assert [bytes(decompressed.view[begin:end]) for begin, end in places] == [data for _, data in written]
        assert [place.begin for place in places] == [0, *(place.end for place in places)][: len(places)]


@pytest.mark.parametrize("codec", list(Codec))
def test_it_grows_and_keeps_what_is_there(codec: Codec) -> None:
    decompressed, large = DecompressedRecords(), bytes(range(256)) * (FIRST_BYTES // 256 + 1)
    decompressed.add(Codec.NONE, b"before", LIMIT)
    place = decompressed.add(codec, compress(codec, large), LIMIT)
    assert place == ByteRange(6, 6 + len(large))
    assert bytes(decompressed.view[:6]) == b"before"
    assert bytes(decompressed.view[6:]) == large


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_more_than_is_allowed_and_damage_leave_it_as_it_is(codec: Codec) -> None:
    decompressed, data = DecompressedRecords(), compress(codec, b"x" * 5000)
    decompressed.add(Codec.NONE, b"before", LIMIT)
    with pytest.raises(TooMuchData):
        decompressed.add(codec, data, 4999)
    for damaged in (data[:-1], b"no frame at all"):
        with pytest.raises(CorruptRecord):
            decompressed.add(codec, damaged, LIMIT)
    assert bytes(decompressed.view) == b"before"
    assert decompressed.add(codec, data, 5000) == ByteRange(6, 5006)


def test_every_truncated_zstd_frame_is_damage() -> None:
    data = compress(Codec.ZSTD, bytes(range(256)) * 20)
    for size in range(1, len(data)):
        with pytest.raises(CorruptRecord):
            DecompressedRecords().add(Codec.ZSTD, data[:size], LIMIT)


def test_zstd_frames_of_every_kind_are_unpacked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 20
    streamed = zstandard.ZstdCompressor().compressobj()
    plain = compress(Codec.ZSTD, content)
    frames = {
        "declares its size": plain,
        "does not": streamed.compress(content) + streamed.flush(),
        "two": plain + plain,
        "with one of no meaning behind it": plain + b"\x50\x2a\x4d\x18\x02\x00\x00\x00no",
        "empty": compress(Codec.ZSTD, b""),
        "with what is none behind it": plain + b"none",
        "of a larger size than it has": plain[:5] + bytes([plain[5] + 1]) + plain[6:],
    }
    fast = {name: decompressed(data) for name, data in frames.items()}
    monkeypatch.setattr("kcli.spark.decode.decompression.zstandard", None)
    assert fast == {name: decompressed(data) for name, data in frames.items()}
    assert [name for name, found in fast.items() if found is None] == list(frames)[-2:]
    assert fast["two"] == content * 2


def decompressed(data: bytes) -> bytes | None:
    """What `DecompressedRecords` makes of compressed data, None if it is damaged."""
    into = DecompressedRecords()
    try:
        begin, end = into.add(Codec.ZSTD, data, LIMIT)
    except CorruptRecord:
        return None
    return bytes(into.view[begin:end])
