"""Unpacked: the records of compressed batches, one batch behind the other, in one buffer for all chunks.

A buffer that is used again and again costs no new pages, and nothing needs to be put together afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.compression.zstd_frames import decompress_zstd_into
from kcli.spark.columns.decompress import PlainFrames, decompress

if TYPE_CHECKING:
    from kcli.protocol.record import Buffer

FIRST_BYTES = 8 * 1024 * 1024
"""Twice what is decoded in one go: a batch finds room behind the others nearly always."""


class Place(NamedTuple):
    """Where the records of a batch begin and end."""

    begin: int
    end: int


class Unpacked:
    """What is in it stays until `clear`; views of it hold as long."""

    __slots__ = ("_end", "_plain_frames", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray())
        self._end = 0
        self._plain_frames = PlainFrames()

    @property
    def view(self) -> memoryview:
        """What was added since it was cleared."""
        return self._view[: self._end]

    def clear(self) -> None:
        """Begin again."""
        self._end = 0

    def add(self, codec: Codec, data: Buffer, max_bytes: int) -> Place:
        """Put what was compressed behind what is there; raises `CorruptRecord` and leaves that as it is."""
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
                return Place(begin, self._end)
        return self._copy(decompress(codec, data, max_bytes))

    def _copy(self, data: Buffer) -> Place:
        size = len(data)
        self._make_room(size)
        self._view[self._end : self._end + size] = data
        return self._advance(size)

    def _advance(self, size: int) -> Place:
        place = Place(self._end, self._end + size)
        self._end = place.end
        return place

    def _make_room(self, size: int) -> None:
        needed = self._end + size
        if needed > len(self._view):
            larger = memoryview(bytearray(max(FIRST_BYTES, needed)))
            larger[: self._end] = self.view
            self._view = larger
