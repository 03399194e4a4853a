"""Decompresses the records of a batch with the fastest library that is installed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.compression.codecs import GZIP_WINDOW_BITS, Codec
from kcli.protocol.compression.codecs import decompress as decompress_plainly
from kcli.protocol.compression.zstd_frames import decompress_zstd_into
from kcli.protocol.corruption import CorruptRecord, TooMuchData

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

try:
    from isal import isal_zlib as fast_zlib
except ImportError:
    import zlib as fast_zlib

try:
    import zstandard
except ImportError:
    zstandard = None

_ERRORS = (zlib.error, fast_zlib.error)
_MEMBER = b"\x1f\x8b"


def decompress(codec: Codec, data: Buffer, max_bytes: int) -> Buffer:
    """Return decompressed data, at most `max_bytes`; raises `CorruptRecord`."""
    if codec is Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    return decompress_plainly(codec, data, max_bytes)


class PlainFrames:
    """One decompressor for zstd frames that stand alone and declare their content size.

    A decompressor per frame, with output in pieces, costs a tenth more. Use it in one thread only.
    """

    __slots__ = ("_decompressor",)

    def __init__(self) -> None:
        self._decompressor = zstandard and zstandard.ZstdDecompressor()

    def content(self, data: Buffer, max_bytes: int) -> bytes | None:
        """Return the content of a frame, None if it is of another kind or damaged."""
        if self._decompressor is None:
            return None
        try:
            if not 0 < zstandard.frame_content_size(data) <= max_bytes:
                return None
            content: bytes = self._decompressor.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            # `decompress_zstd_into` handles frames of every kind, and says what is wrong.
            return None
        return content


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    """Concatenated members are joined, as Java reads them; what follows the last is ignored."""
    parts: list[bytes] = []
    room = max_bytes
    rest: Buffer = data
    while True:
        member = fast_zlib.decompressobj(GZIP_WINDOW_BITS)
        try:
            part = member.decompress(rest, room + 1)
        except _ERRORS as error:
            raise CorruptRecord(f"damaged gzip data: {error}") from error
        if len(part) > room:
            raise TooMuchData.above(max_bytes)
        if not member.eof:
            raise CorruptRecord("damaged gzip data: it ends too early")
        parts.append(part)
        room -= len(part)
        rest = member.unused_data
        if bytes(rest[:2]) != _MEMBER:
            return parts[0] if len(parts) == 1 else b"".join(parts)


FIRST_BYTES = 8 * 1024 * 1024
"""Twice what is decoded in one step: nearly always there is room for another batch."""


class ByteRange(NamedTuple):
    """Begin and end of a batch's records."""

    begin: int
    end: int


class DecompressedRecords:
    """The records of compressed batches, one batch behind the other, in one buffer for all chunks.

    The buffer is used again and again: it costs no new pages, and nothing is joined afterwards. Its content,
    and views of it, last until `clear`.
    """

    __slots__ = ("_end", "_plain_frames", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray())
        self._end = 0
        self._plain_frames = PlainFrames()

    @property
    def view(self) -> memoryview:
        """The records added since `clear`."""
        return self._view[: self._end]

    def clear(self) -> None:
        self._end = 0

    def add(self, codec: Codec, data: Buffer, max_bytes: int) -> ByteRange:
        """Decompress data behind the content; raises `CorruptRecord` and leaves the content as it is."""
        if codec is Codec.NONE:
            return self._copy(data)
        if codec is Codec.ZSTD:
            content = self._plain_frames.content(data, max_bytes)
            if content is not None:
                return self._copy(content)
            if self._end >= len(self._view):
                self._make_room(1)
            begin = self._end
            size = decompress_zstd_into(data, self._view[begin : begin + max_bytes])
            if size is not None:
                self._end = begin + size
                return ByteRange(begin, self._end)
        return self._copy(decompress(codec, data, max_bytes))

    def _copy(self, data: Buffer) -> ByteRange:
        size = len(data)
        self._make_room(size)
        self._view[self._end : self._end + size] = data
        return self._advance(size)

    def _advance(self, size: int) -> ByteRange:
        place = ByteRange(self._end, self._end + size)
        self._end = place.end
        return place

    def _make_room(self, size: int) -> None:
        needed = self._end + size
        if needed > len(self._view):
            larger = memoryview(bytearray(max(FIRST_BYTES, needed)))
            larger[: self._end] = self.view
            self._view = larger
