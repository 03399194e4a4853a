"""Decompressing the records of one batch, by the fastest library that is installed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kcli.protocol.compression.codecs import GZIP_WINDOW_BITS, Codec, too_large
from kcli.protocol.compression.codecs import decompress as decompress_plainly
from kcli.protocol.record import CorruptRecord

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer

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
    """Return what was compressed, `max_bytes` at most; raises `CorruptRecord`."""
    if codec is Codec.GZIP:
        return _decompress_gzip(data, max_bytes)
    return decompress_plainly(codec, data, max_bytes)


class PlainFrames:
    """zstd frames that stand alone and declare how large their content is: one decompressor for all of them.

    Setting up another for each, and taking its output in pieces, costs a tenth more. Of one thread only.
    """

    __slots__ = ("_decompressor",)

    def __init__(self) -> None:
        self._decompressor = zstandard and zstandard.ZstdDecompressor()

    def content(self, data: Buffer, max_bytes: int) -> bytes | None:
        """Return what is in a frame, None where it is not as plain as that, or something is wrong with it."""
        if self._decompressor is None:
            return None
        try:
            if not 0 < zstandard.frame_content_size(data) <= max_bytes:
                return None
            content: bytes = self._decompressor.decompress(data, allow_extra_data=False)
        except zstandard.ZstdError:
            # What it is, is told by the library that takes frames of every kind.
            return None
        return content


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    """Members in a row are one, as Java reads them; what follows the last is passed over."""
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
            raise too_large(max_bytes)
        if not member.eof:
            raise CorruptRecord("damaged gzip data: it ends too early")
        parts.append(part)
        room -= len(part)
        rest = member.unused_data
        if bytes(rest[:2]) != _MEMBER:
            return parts[0] if len(parts) == 1 else b"".join(parts)
