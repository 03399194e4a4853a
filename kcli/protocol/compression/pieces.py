"""Decompresses in pieces, for records that may be larger than the available memory.

gzip and lz4 come in pieces of at most `PIECE_BYTES`, snappy block by block. The library for zstd cannot
decompress in pieces, so a zstd batch must fit the limit as a whole, like a snappy block.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import GZIP_WINDOW_BITS, XERIAL_HEADER, XERIAL_MAGIC, Codec, decompress
from kcli.protocol.corruption import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer

PIECE_BYTES = 256 * 1024

_BLOCK_LENGTH = Struct(">i")


def decompressed_pieces(
    codec: Codec, pieces: Iterator[Buffer], max_bytes: int, *, magic: int = 2
) -> Iterator[Buffer]:
    """Yield the concatenated `pieces` decompressed, in pieces that are not empty.

    Holds at most `max_bytes` in memory. Raises `CorruptRecord`, and `TooMuchData` if that is not enough.
    """
    match codec:
        case Codec.NONE:
            return pieces
        case Codec.GZIP:
            return _gzip(pieces)
        case Codec.SNAPPY:
            return _snappy(pieces, max_bytes)
        case Codec.LZ4:
            from kcli.protocol.compression.lz4_frames import decompressed_lz4

            return decompressed_lz4(pieces, PIECE_BYTES, magic=magic)
        case Codec.ZSTD:
            from kcli.protocol.compression.zstd_frames import decompress_zstd_once

            return _cut(decompress_zstd_once(_joined(pieces, max_bytes), max_bytes))


def _cut(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]


def _joined(pieces: Iterator[Buffer], max_bytes: int) -> Buffer:
    """Return the pieces concatenated; raise `TooMuchData` above `max_bytes`."""
    parts: list[Buffer] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise TooMuchData.above(max_bytes)
        parts.append(piece)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _gzip(pieces: Iterator[Buffer]) -> Iterator[bytes]:
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    for piece in pieces:
        rest = piece
        while rest:
            if member.eof:
                # As in Java, only another member continues the data.
                if bytes(rest[:2]) != b"\x1f\x8b":
                    return
                member = zlib.decompressobj(GZIP_WINDOW_BITS)
            try:
                data = member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise CorruptRecord(f"damaged gzip data: {error}") from error
            if data:
                yield data
            rest = member.unused_data if member.eof else member.unconsumed_tail
    if not member.eof:
        raise CorruptRecord("damaged gzip data: it ends too early")


def _snappy(pieces: Iterator[Buffer], max_bytes: int) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= len(XERIAL_HEADER):
            break
    if not held.startswith(XERIAL_MAGIC):
        yield decompress(Codec.SNAPPY, bytes(held) + bytes(_joined(pieces, max_bytes)), max_bytes)
        return
    del held[: len(XERIAL_HEADER)]
    while True:
        for block in _whole_blocks(held, max_bytes):
            yield decompress(Codec.SNAPPY, block, max_bytes)
        more = next(pieces, b"")
        if not more:
            break
        held += more
    if held:
        raise CorruptRecord("damaged snappy data: it ends inside a block")


def _whole_blocks(held: bytearray, max_bytes: int) -> Iterator[bytes]:
    """Remove and yield the complete blocks at the start of `held`."""
    position = 0
    while position + _BLOCK_LENGTH.size <= len(held):
        (length,) = _BLOCK_LENGTH.unpack_from(held, position)
        if length < 0:
            raise CorruptRecord(f"damaged snappy data: a block of {length} bytes")
        if length > max_bytes:
            raise TooMuchData.above(max_bytes)
        end = position + _BLOCK_LENGTH.size + length
        if end > len(held):
            break
        yield bytes(held[end - length : end])
        position = end
    del held[:position]
