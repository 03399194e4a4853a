"""Decompressing in pieces gives what decompressing at once does, wherever the pieces are cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress, decompress
from kcli.protocol.compression.pieces import PIECE_BYTES, decompressed_pieces
from kcli.protocol.corruption import CorruptRecord, TooMuchData

PIECED = (Codec.GZIP, Codec.LZ4, Codec.SNAPPY)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@given(st.sampled_from(Codec), st.binary(max_size=500), st.integers(1, 400), st.integers(20, 100_000))
@settings(deadline=None)
def test_pieces_make_up_the_whole(codec: Codec, unit: bytes, times: int, size: int) -> None:
    data = unit * times
    parts = list(decompressed_pieces(codec, pieces(compress(codec, data), size), 2**20))
    assert b"".join(parts) == data
    assert all(parts)


@pytest.mark.parametrize("codec", PIECED)
def test_no_piece_is_large_whatever_the_bytes_become(codec: Codec) -> None:
    data = compress(codec, bytes(20 * 1024 * 1024))
    sizes = [len(part) for part in decompressed_pieces(codec, iter([data]), 2**20)]
    assert sum(sizes) == 20 * 1024 * 1024
    assert max(sizes) <= PIECE_BYTES


def test_zstd_that_may_not_fit_is_refused_before_it_is_decompressed() -> None:
    data = compress(Codec.ZSTD, bytes(2**20 + 1))
    with pytest.raises(TooMuchData):
        list(decompressed_pieces(Codec.ZSTD, iter([data]), 2**20))


def test_the_header_of_lz4_frames_in_magic_0_is_read_as_it_was_written() -> None:
    data = compress(Codec.LZ4, b"0123456789" * 10, magic=0)
    assert b"".join(decompressed_pieces(Codec.LZ4, iter([data]), 2**20, magic=0)) == b"0123456789" * 10


def test_a_raw_block_of_snappy_is_read_too() -> None:
    import snappy  # type: ignore[import-untyped]  # ships no types

    data = snappy.compress(b"0123456789" * 10)
    assert b"".join(decompressed_pieces(Codec.SNAPPY, pieces(data, 7), 2**20)) == b"0123456789" * 10


def test_several_members_of_gzip_are_one() -> None:
    data = compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two")
    assert b"".join(decompressed_pieces(Codec.GZIP, iter([data]), 2**20)) == b"onetwo"


@given(st.sampled_from([codec for codec in Codec if codec]), st.data())
@settings(deadline=None)
def test_damaged_data_is_refused_or_is_what_it_is_at_once(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, b"the quick brown fox" * 50))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    del damaged[data.draw(st.integers(1, len(damaged))) :]
    try:
        whole = decompress(codec, bytes(damaged), 2**20)
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            list(decompressed_pieces(codec, pieces(bytes(damaged), 64), 2**20))
        return
    assert b"".join(decompressed_pieces(codec, pieces(bytes(damaged), 64), 2**20)) == whole
