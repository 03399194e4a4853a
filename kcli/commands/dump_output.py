"""DumpOutput: standard output in large pieces."""

from __future__ import annotations

import sys
from typing import BinaryIO

FLUSH_BYTES = 64 * 1024


class DumpOutput:
    """Collects what is printed and writes it out when it has become much, or when `flush` says so."""

    __slots__ = ("_parts", "_size", "_stream")

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._parts: list[bytes] = []
        self._size = 0

    def line(self, text: str) -> None:
        """Print a line; parts of a path that are no text come out as the bytes they were."""
        self.write(f"{text}\n".encode(errors="surrogateescape"))

    def write(self, data: bytes) -> None:
        """Print bytes."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write out what was collected. Raises `BrokenPipeError` when nobody reads it any more."""
        if self._parts:
            self._stream.write(b"".join(self._parts))
            self._parts.clear()
            self._size = 0
        self._stream.flush()
