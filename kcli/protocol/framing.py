"""Frames out of a stream of bytes: an int32 size, then that many bytes.

For clients and tests; the broker's connections read frames straight into buffers of their own.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = Struct(">i")


class FrameError(KcliError):
    """A frame size that is negative or beyond the limit: the stream cannot be read any further."""


class FrameReader:
    """Collects bytes and gives whole frames, without their size, in order.

    `feed` raises `FrameError` as soon as a refused size is seen, before anything is kept for it; frames that
    were whole before it can still be taken. A frame is a `bytearray` that nobody else refers to.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._partial = bytearray()
        self._need = _SIZE.size
        self._has_size = False
        self._frames: deque[bytearray] = deque()

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of an incomplete frame have arrived, its size included."""
        return len(self._partial) + (_SIZE.size if self._has_size else 0)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream."""
        view = memoryview(data)
        while True:
            part = view[: self._need - len(self._partial)]
            self._partial += part
            view = view[len(part) :]
            if len(self._partial) < self._need:
                return
            self._complete()

    def _complete(self) -> None:
        if self._has_size:
            self._frames.append(self._partial)
            self._need = _SIZE.size
        else:
            (self._need,) = _SIZE.unpack(self._partial)
            if not 0 <= self._need <= self._max_size:
                raise FrameError(f"a frame of {self._need} bytes, where the limit is {self._max_size}")
        self._has_size = not self._has_size
        self._partial = bytearray()

    def __iter__(self) -> Iterator[bytearray]:
        """Take the frames that are whole."""
        while self._frames:
            yield self._frames.popleft()
