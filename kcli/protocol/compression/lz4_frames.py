"""LZ4 frames as records hold them, including the wrong header checksum of magic 0.

    0   4  magic 04 22 4D 18
    4   1  flags: version 01 in bits 7-6, bit 5 independent blocks, bit 4 block checksums,
           bit 3 content size present, bit 2 content checksum
    5   1  block size class: 4 = 64 KiB … 7 = 4 MiB, in bits 6-4
    6   8  content size, if its flag is set
    …   1  header checksum: second byte of the XXH32 of the descriptor (bytes 4 up to here)
    …   …  blocks

Early clients hashed from byte 0, including the frame's magic. Messages of magic 0 therefore get that
checksum, and any checksum is accepted from them (KAFKA-3160, Kafka's `Lz4BlockOutputStream`). Java refuses
dependent blocks, so independent ones are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lz4.frame  # type: ignore[import-untyped]  # ships no types

from kcli.protocol.corruption import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kcli.protocol.corruption import Buffer

_MAGIC_SIZE = 4
_FLAGS_POSITION = 4
_CONTENT_SIZE_FLAG = 0x08
# Kafka's default level 9 is the fast compressor, not level 9 of the strong one.
_DEFAULT_LEVEL = 9
_FIRST_CHUNK = 64 * 1024


def compress_lz4(data: Buffer, level: int | None, *, magic: int) -> bytes:
    """Return one frame of independent 64 KiB blocks with the header checksum of `magic`."""
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None or level == _DEFAULT_LEVEL else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return _with_header_checksum(frame, hashed_from=0) if magic == 0 else frame


def decompress_lz4(data: Buffer, max_size: int, *, magic: int) -> bytes:
    """Return the content of the frame at the start of `data`; raise `CorruptRecord`."""
    frame = bytes(data)
    if magic == 0:
        frame = _with_header_checksum(frame, hashed_from=_MAGIC_SIZE)
    decompressor = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    room = max_size
    chunk = max(_FIRST_CHUNK, 4 * len(frame))
    while not decompressor.eof:
        try:
            # The library reserves as much as it may return, so the limit grows with the real content.
            part = decompressor.decompress(frame, min(chunk, room + 1))
        except RuntimeError as error:
            raise CorruptRecord(f"damaged lz4 data: {error}") from error
        if len(part) > room:
            raise TooMuchData.above(max_size)
        if not decompressor.eof and decompressor.needs_input:
            raise CorruptRecord("damaged lz4 data: it ends too early")
        parts.append(part)
        room -= len(part)
        frame = b""
        chunk *= 2
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompressed_lz4(pieces: Iterator[Buffer], piece_bytes: int, *, magic: int) -> Iterator[bytes]:
    """Yield the content of the frame in `pieces`, in pieces of at most `piece_bytes`.

    The first piece must hold the whole header. Raises `CorruptRecord`.
    """
    decompressor = lz4.frame.LZ4FrameDecompressor()
    is_first = True
    for piece in pieces:
        if is_first and magic == 0:
            piece = _with_header_checksum(bytes(piece), hashed_from=_MAGIC_SIZE)
        is_first = False
        while not decompressor.eof:
            try:
                data = decompressor.decompress(piece, piece_bytes)
            except RuntimeError as error:
                raise CorruptRecord(f"damaged lz4 data: {error}") from error
            if data:
                yield data
            if decompressor.needs_input:
                break
            piece = b""
    if not decompressor.eof:
        raise CorruptRecord("damaged lz4 data: it ends too early")


def _with_header_checksum(frame: bytes, *, hashed_from: int) -> bytes:
    """Return `frame` with a header checksum over the bytes from `hashed_from` on."""
    if len(frame) <= _FLAGS_POSITION:
        raise CorruptRecord("damaged lz4 data: it ends inside its header")
    position = 14 if frame[_FLAGS_POSITION] & _CONTENT_SIZE_FLAG else 6
    if len(frame) <= position:
        raise CorruptRecord("damaged lz4 data: it ends inside its header")
    checksum = (xxh32_short(frame[hashed_from:position]) >> 8) & 0xFF
    return frame[:position] + bytes((checksum,)) + frame[position + 1 :]


def xxh32_short(data: bytes) -> int:
    """Return XXH32 with seed 0 of fewer than 16 bytes; a frame header needs no more."""
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        lane = int.from_bytes(data[start : start + 4], "little")
        value = (value + lane * 3266489917) & mask
        value = (((value << 17) | (value >> 15)) & mask) * 668265263 & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = (((value << 11) | (value >> 21)) & mask) * 2654435761 & mask
    value = ((value ^ (value >> 15)) * 2246822519) & mask
    value = ((value ^ (value >> 13)) * 3266489917) & mask
    return value ^ (value >> 16)
