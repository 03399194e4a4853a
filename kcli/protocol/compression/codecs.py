"""The codecs of record batches and message sets: gzip, snappy, lz4 and zstd.

- gzip: members of RFC 1952; several in a row are read as one, as Java does.
- snappy: written in the framing of the xerial library, read framed or as one raw block:

      0   8  82 'SNAPPY' 00
      8   4  version, 1
     12   4  lowest compatible version, 1
     16   …  blocks: int32 length, raw snappy block of at most 32 KiB uncompressed

- lz4: one frame of independent 64 KiB blocks without sizes or checksums; magic 0 differs (`lz4_frames`).
- zstd: frames, with or without their content size (`zstd_frames`). Only record batches of magic 2 use it.

Decompressing never produces, nor reserves memory for, more than `max_size` bytes.
Libraries are imported on first use: most commands need none.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.corruption import MAX_DECOMPRESSED_BYTES, CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer


class Codec(IntEnum):
    """Attribute bits 0 to 2 of an entry or batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_attributes(cls, attributes: int) -> Codec:
        """Return the codec in `attributes`; raise `CorruptRecord` for an unknown number."""
        number = attributes & 7
        if number >= len(_CODECS):
            raise CorruptRecord(f"unknown compression codec: {number}")
        return _CODECS[number]


# Indexing a tuple takes a tenth of the time of calling the enum.
_CODECS = tuple(Codec)

GZIP_WINDOW_BITS = 31
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE = 32 * 1024
_BLOCK_LENGTH = Struct(">i")
# The densest snappy element copies 64 bytes with 3: no valid block expands more than that.
_SNAPPY_MAX_EXPANSION = 22


def compress(codec: Codec, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Return `data` compressed by `codec`, at the default level unless one is given (KIP-390).

    `magic` is that of the entry that will hold the bytes: lz4 differs in magic 0. Snappy has no levels.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)
            return compressor.compress(data) + compressor.flush()
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            from kcli.protocol.compression.lz4_frames import compress_lz4

            return compress_lz4(data, level, magic=magic)
        case Codec.ZSTD:
            from kcli.protocol.compression.zstd_frames import compress_zstd

            return compress_zstd(data, level)


def decompress(
    codec: Codec, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES, *, magic: int = 2
) -> bytes:
    """Return `data` decompressed; raise `CorruptRecord`, and `TooMuchData` above `max_size` bytes."""
    match codec:
        case Codec.NONE:
            if len(data) > max_size:
                raise TooMuchData.above(max_size)
            return bytes(data)
        case Codec.GZIP:
            return _decompress_gzip(data, max_size)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), max_size)
        case Codec.LZ4:
            from kcli.protocol.compression.lz4_frames import decompress_lz4

            return decompress_lz4(data, max_size, magic=magic)
        case Codec.ZSTD:
            from kcli.protocol.compression.zstd_frames import decompress_zstd

            return decompress_zstd(data, max_size)


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    parts = []
    room = max_size
    rest = bytes(data)
    while True:
        member = zlib.decompressobj(GZIP_WINDOW_BITS)
        try:
            # Ask for one byte more than fits, to tell a full buffer from an overflow.
            part = member.decompress(rest, room + 1)
        except zlib.error as error:
            raise CorruptRecord(f"damaged gzip data: {error}") from error
        if len(part) > room:
            raise TooMuchData.above(max_size)
        if not member.eof:
            raise CorruptRecord("damaged gzip data: it ends too early")
        parts.append(part)
        room -= len(part)
        rest = member.unused_data
        if not rest.startswith(b"\x1f\x8b"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _compress_snappy(data: Buffer) -> bytes:
    from snappy import compress as compress_block  # type: ignore[import-untyped]  # ships no types

    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = compress_block(view[start : start + _XERIAL_BLOCK_SIZE])
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_size: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, max_size, max_size)
    parts = []
    room = max_size
    position = len(XERIAL_HEADER)
    end = len(data)
    while position < end:
        if end - position < _BLOCK_LENGTH.size:
            raise CorruptRecord("damaged snappy data: it ends inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or length > end - position:
            raise CorruptRecord(f"damaged snappy data: a block of {length} bytes is cut short")
        part = _decompress_snappy_block(data[position : position + length], room, max_size)
        parts.append(part)
        room -= len(part)
        position += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, max_size: int) -> bytes:
    from snappy import UncompressError, uncompress

    size = _snappy_block_size(block)
    if size > room:
        raise TooMuchData.above(max_size)
    if size > _SNAPPY_MAX_EXPANSION * len(block):
        raise CorruptRecord(f"damaged snappy data: {len(block)} bytes cannot hold {size}")
    try:
        uncompressed: bytes = uncompress(block)
    except UncompressError as error:
        raise CorruptRecord(f"damaged snappy data: {error.__cause__ or error}") from error
    return uncompressed


def _snappy_block_size(block: memoryview) -> int:
    """Return the uncompressed size at the start of a raw block: an unsigned varint of 32 bits."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise CorruptRecord("damaged snappy data: it has no size")
