"""DumpOutput: standard output in large pieces."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from kcli.commands.worker_pool import Piece
    from kcli.protocol.record import Buffer

FLUSH_BYTES = 64 * 1024


class OutputLost(Exception):
    """Standard output takes no more: `error` says why. Not an `OSError`, which tells of the files read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class DumpOutput:
    """Collects what is printed and writes it out when it has become much, or when `flush` says so."""

    __slots__ = ("_parts", "_size", "_stream")

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = sys.stdout.buffer if stream is None else stream
        self._parts: list[Buffer] = []
        self._size = 0

    def line(self, text: str) -> None:
        """Print a line; parts of a path that are no text come out as the bytes they were."""
        self.write(f"{text}\n".encode(errors="surrogateescape"))

    def write(self, data: Buffer) -> None:
        """Print bytes."""
        self._parts.append(data)
        self._size += len(data)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def forward(self, piece: Piece) -> None:
        """Print what stands in a pipe, uncopied where the system can do that. Raises `OutputLost`."""
        self.flush()
        left = piece.length
        try:
            while left and (moved := os.splice(piece.descriptor, self._stream.fileno(), left)):
                left -= moved
        except (AttributeError, OSError):
            pass  # what cannot be spliced is copied, and fails there if it must
        if left:
            self.write(piece._replace(length=left).read())

    def flush(self) -> None:
        """Write out what was collected. Raises `OutputLost`."""
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise OutputLost(error) from error
