"""Zstandard frames (RFC 8878), whose size is known before they are decompressed.

The library decompresses whole buffers only, so the limit is checked against the frames first: the header of a
block says how many bytes it becomes (128 KiB at most for a compressed block, an exact number for a stored or
run-length one). Java does not write the content size into frames. Reading the headers costs a few operations
per 128 KiB.

    frame:  28 B5 2F FD, descriptor (1), window (0-1), dictionary id (0-4), content size (0-8), blocks,
            checksum (0-4)
    block:  3 bytes little-endian: bit 0 last, bits 1-2 type (0 stored, 1 run, 2 compressed), bits 3-23 size
    skip:   5x 2A 4D 18, size (4, little-endian), that many bytes

Every call makes its own decompressor: one shared by two threads corrupts memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cramjam

from kcli.protocol.corruption import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

_FRAME_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_MAX_BLOCK_SIZE = 128 * 1024
_STORED, _RUN, _COMPRESSED = range(3)
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)
# The library's message if the output is larger than the given buffer.
_NO_ROOM = "failed to write whole buffer"


def compress_zstd(data: Buffer, level: int | None) -> bytes:
    """Return one frame with its content size."""
    return bytes(cramjam.zstd.compress(data, level))


def decompress_zstd(data: Buffer, max_size: int) -> bytes:
    """Return the content of all frames in `data`; raise `CorruptRecord`."""
    least, most = content_bounds(data)
    if least > max_size:
        raise TooMuchData.above(max_size)
    if most > max_size:
        return _decompress_within(data, max_size)
    try:
        return bytes(cramjam.zstd.decompress(data))
    except cramjam.DecompressionError as error:
        raise _damaged(error) from error


def decompress_zstd_once(data: Buffer, max_size: int) -> memoryview:
    """Return the content of all frames in `data` without the copy that `decompress_zstd` makes.

    Raises `CorruptRecord`, and `TooMuchData` if the frames may hold more than `max_size`.
    """
    _, most = content_bounds(data)
    if most > max_size:
        raise TooMuchData.above(max_size)
    room = bytearray(most)
    try:
        return memoryview(room)[: cramjam.zstd.decompress_into(data, room)]
    except cramjam.DecompressionError as error:
        raise _damaged(error) from error


def decompress_zstd_into(data: Buffer, room: memoryview) -> int | None:
    """Decompress all frames in `data` into `room`; return how many bytes, None if they do not fit.

    Raises `CorruptRecord`.
    """
    try:
        return int(cramjam.zstd.decompress_into(data, room))
    except cramjam.DecompressionError as error:
        if str(error) == _NO_ROOM:
            return None
        raise _damaged(error) from error


def _decompress_within(data: Buffer, max_size: int) -> bytes:
    """Decompress content that may exceed `max_size`, into buffers that grow step by step."""
    size = min(max_size, max(_MAX_BLOCK_SIZE, 8 * len(data)))
    while True:
        room = bytearray(size)
        try:
            return bytes(memoryview(room)[: cramjam.zstd.decompress_into(data, room)])
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise _damaged(error) from error
            if size == max_size:
                raise TooMuchData.above(max_size) from error
        size = min(max_size, 4 * size)


def _damaged(error: cramjam.DecompressionError) -> CorruptRecord:
    return CorruptRecord(f"damaged zstd data: {error}")


def content_bounds(data: Buffer) -> tuple[int, int]:
    """Return the least and the most bytes that the frames in `data` can hold; raise `CorruptRecord`."""
    view = memoryview(data)
    position = 0
    least = most = 0
    while position < len(view):
        magic = _little_endian(view, position, 4)
        position += 4
        if magic & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
            position += 4 + _little_endian(view, position, 4)
            continue
        if magic != _FRAME_MAGIC:
            raise CorruptRecord("damaged zstd data: no frame where one should start")
        frame_least, frame_most, position = _walk_frame(view, position)
        least += frame_least
        most += frame_most
    return least, most


def _walk_frame(view: memoryview, position: int) -> tuple[int, int, int]:
    """Return the bounds of the frame whose descriptor is at `position`, and where it ends."""
    descriptor = _little_endian(view, position, 1)
    single_segment = bool(descriptor & 0x20)
    content_size_size = _CONTENT_SIZE_SIZES[descriptor >> 6] or (1 if single_segment else 0)
    position += 1 + (0 if single_segment else 1) + _DICTIONARY_ID_SIZES[descriptor & 3]
    declared = None
    if content_size_size:
        declared = _little_endian(view, position, content_size_size)
        declared += 256 if content_size_size == 2 else 0
        position += content_size_size
    least = most = 0
    while True:
        header = _little_endian(view, position, 3)
        kind = (header >> 1) & 3
        size = header >> 3
        position += 3 + (1 if kind == _RUN else size)
        if kind > _COMPRESSED:
            raise CorruptRecord("damaged zstd data: unknown block type")
        least += 0 if kind == _COMPRESSED else size
        most += _MAX_BLOCK_SIZE if kind == _COMPRESSED else size
        if header & 1:
            break
    position += 4 if descriptor & 4 else 0
    if position > len(view):
        raise CorruptRecord("damaged zstd data: it ends too early")
    if declared is not None:
        if not least <= declared <= most:
            raise CorruptRecord("damaged zstd data: its content size is not what its blocks hold")
        least = most = declared
    return least, most, position


def _little_endian(view: memoryview, position: int, size: int) -> int:
    if position + size > len(view):
        raise CorruptRecord("damaged zstd data: it ends too early")
    return int.from_bytes(view[position : position + size], "little")
