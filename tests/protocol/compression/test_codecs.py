"""The codecs: round trips, what others write, limits that hold before memory is spent, damage."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import lz4.frame
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec, compress, decompress
from kcli.protocol.compression.lz4_frames import xxh32_short
from kcli.protocol.compression.zstd_frames import content_bounds
from kcli.protocol.corruption import CorruptRecord

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=300), repeat=st.integers(0, 700))
def test_data_comes_back(codec: Codec, magic: int, data: bytes, repeat: int) -> None:
    data *= repeat
    compressed = compress(codec, data, magic=magic)
    assert decompress(codec, compressed, len(data), magic=magic) == data
    assert decompress(codec, memoryview(bytearray(compressed)), magic=magic) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, -5), (Codec.ZSTD, 19)],
)
def test_levels_are_taken(codec: Codec, level: int) -> None:
    data = b"some text, some more text, " * 4000
    assert decompress(codec, compress(codec, data, level)) == data


def test_snappy_is_written_in_blocks_of_32_kib() -> None:
    data = bytes(range(256)) * 200
    compressed = compress(Codec.SNAPPY, data)
    assert compressed.startswith(XERIAL_HEADER)
    position, sizes = len(XERIAL_HEADER), []
    while position < len(compressed):
        (length,) = struct.unpack_from(">i", compressed, position)
        sizes.append(len(snappy.uncompress(compressed[position + 4 : position + 4 + length])))
        position += 4 + length
    assert sizes == [32 * 1024, len(data) - 32 * 1024]


def test_raw_snappy_is_read() -> None:
    assert decompress(Codec.SNAPPY, snappy.compress(b"raw " * 1000)) == b"raw " * 1000


def test_several_gzip_members_are_one() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    compressed = compress(Codec.LZ4, b"x" * 200_000)
    assert compressed[:4] == bytes.fromhex("04224d18")
    assert compressed[4:6] == bytes.fromhex("6040")


@pytest.mark.parametrize("linked", [False, True])
def test_lz4_frames_with_everything_in_them_are_read(linked: bool) -> None:
    data = b"a frame " * 50_000
    frame = lz4.frame.compress(
        data, block_linked=linked, content_checksum=True, block_checksum=True, store_size=True
    )
    for magic in (0, 2):
        assert decompress(Codec.LZ4, frame, magic=magic) == data


def test_magic_0_has_its_own_lz4_header_checksum() -> None:
    right, wrong = (compress(Codec.LZ4, b"hello", magic=magic) for magic in (1, 0))
    # 82 is the checksum of flags 60 and block size 40 in every frame that Java writes.
    assert right[6] == (xxh32_short(right[4:6]) >> 8) & 0xFF == 0x82
    assert wrong[6] == (xxh32_short(right[:6]) >> 8) & 0xFF != 0x82
    assert right[7:] == wrong[7:]
    assert decompress(Codec.LZ4, right, magic=0) == decompress(Codec.LZ4, wrong, magic=0) == b"hello"
    with pytest.raises(CorruptRecord, match="lz4"):
        decompress(Codec.LZ4, wrong, magic=1)


@pytest.mark.parametrize(("data", "digest"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_short_xxh32(data: bytes, digest: int) -> None:
    assert xxh32_short(data) == digest


def test_zstd_frames_without_their_size_are_read() -> None:
    compressor = cramjam.zstd.Compressor()
    compressor.compress(b"streamed " * 100_000)
    frame = bytes(compressor.finish())
    assert frame[4] & 0xE0 == 0, "the frame declares a size after all"
    assert decompress(Codec.ZSTD, frame) == b"streamed " * 100_000
    assert decompress(Codec.ZSTD, frame, 900_000) == b"streamed " * 100_000


@pytest.mark.parametrize("size", [0, 130_000, 131_072, 600_000, 3_000_000])
def test_zstd_frames_that_might_exceed_the_limit_are_tried(size: int) -> None:
    # Flushing makes small blocks, each of which might hold 128 KiB for all that its header says.
    compressor = cramjam.zstd.Compressor()
    pieces = []
    for start in range(0, size, 3000):
        compressor.compress(b"y" * min(3000, size - start))
        pieces.append(bytes(compressor.flush()))
    frame = b"".join([*pieces, bytes(compressor.finish())])
    if size:
        assert content_bounds(frame)[1] > size
    assert decompress(Codec.ZSTD, frame, size) == b"y" * size
    if size:
        with pytest.raises(CorruptRecord, match="more than"):
            decompress(Codec.ZSTD, frame, size - 1)


def test_zstd_frames_follow_each_other_and_skippable_ones_are_skipped() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 4) + b"note"
    frames = compress(Codec.ZSTD, b"one ") + skippable + compress(Codec.ZSTD, b"two")
    assert decompress(Codec.ZSTD, frames) == b"one two"
    assert content_bounds(frames) == (7, 7)


def _bomb(codec: Codec) -> bytes:
    """128 MiB of zeros, or 512 MiB where making them costs nothing, never held here."""
    chunk = bytes(1024 * 1024)
    match codec:
        case Codec.GZIP:
            compressor = zlib.compressobj(1, zlib.DEFLATED, 31)
            return b"".join(compressor.compress(chunk) for _ in range(128)) + compressor.flush()
        case Codec.SNAPPY:
            block = snappy.compress(chunk)
            return XERIAL_HEADER + (struct.pack(">i", len(block)) + block) * 128
        case Codec.LZ4:
            frame = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX4MB)
            return frame.begin() + b"".join(frame.compress(chunk) for _ in range(128)) + frame.flush()
        case Codec.ZSTD:
            # Run-length blocks of 128 KiB, the last one marked; a descriptor of a window and no size.
            run = (1 << 1) | (128 * 1024) << 3
            block = struct.pack("<I", run)[:3] + b"\x00"
            last = struct.pack("<I", run | 1)[:3] + b"\x00"
            return bytes.fromhex("28b52ffd0058") + block * 4095 + last
        case _:
            raise AssertionError(codec)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_without_being_unpacked(codec: Codec) -> None:
    bomb = _bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord, match="more than 1000000 bytes"):
            decompress(codec, bomb, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(bomb) + 16 * 1024 * 1024


@pytest.mark.parametrize("codec", list(Codec))
def test_the_limit_is_exact(codec: Codec) -> None:
    data = b"0123456789" * 20_000
    compressed = compress(codec, data)
    assert decompress(codec, compressed, len(data)) == data
    with pytest.raises(CorruptRecord, match="more than 199999 bytes"):
        decompress(codec, compressed, len(data) - 1)


def test_a_snappy_block_that_claims_gigabytes_is_refused_by_its_claim() -> None:
    with pytest.raises(CorruptRecord, match="cannot hold"):
        decompress(Codec.SNAPPY, bytes.fromhex("80808004") + b"abc", 2**31)
    with pytest.raises(CorruptRecord, match="no size"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\xff\xff")


@pytest.mark.parametrize("codec", CODECS)
@given(st.data())
def test_damage_raises_nothing_but_corrupt_record(codec: Codec, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, data.draw(st.binary(max_size=200)) * 5))
    for position in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    with suppress(CorruptRecord):
        decompress(codec, damaged[:cut], 5000)


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=100))
def test_noise_raises_nothing_but_corrupt_record(codec: Codec, noise: bytes) -> None:
    with suppress(CorruptRecord):
        decompress(codec, noise, 5000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_data_that_ends_too_early_is_refused_wherever_it_is_cut(codec: Codec) -> None:
    compressed = compress(codec, b"the quick brown fox " * 20)
    for end in range(len(compressed)):
        with pytest.raises(CorruptRecord):
            decompress(codec, compressed[:end], 5000)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_codec_numbers_not_given_out_are_refused(number: int) -> None:
    with pytest.raises(CorruptRecord, match="unknown compression codec"):
        Codec.of_attributes(number)
