"""Reading the input of `produce`: files or standard input, in large chunks, without blocking other tasks."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import trio

from kcli.errors import UsageError

CHUNK_BYTES = 1 << 20
STDIN = 0


class Input:
    """One source of bytes: an open file descriptor, closed at the end unless it is standard input."""

    def __init__(self, path: Path | None) -> None:
        """Open a file; None and `-` are standard input."""
        is_stdin = path is None or str(path) == "-"
        try:
            self.descriptor = STDIN if is_stdin else os.open(path or "-", os.O_RDONLY)
            status = os.fstat(self.descriptor)
        except OSError as error:
            raise UsageError(f"cannot read `{path or 'standard input'}`: {error.strerror}") from error
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"cannot read `{path}`: it is a directory")
        self.is_regular = stat.S_ISREG(status.st_mode)
        self.size = status.st_size if self.is_regular else None
        self.is_terminal = is_stdin and os.isatty(STDIN)
        self._may_wait = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or self.is_terminal

    async def read(self) -> bytes:
        """Return what there is to read, up to 1 MiB; nothing at the end."""
        if self._may_wait:
            await trio.lowlevel.wait_readable(self.descriptor)
        else:
            await trio.lowlevel.checkpoint()
        return os.read(self.descriptor, CHUNK_BYTES)

    def close(self) -> None:
        """Close a file that was opened."""
        if self.descriptor != STDIN:
            os.close(self.descriptor)


def open_inputs(files: Sequence[Path]) -> list[Input]:
    """Open all files before the first is read, so that a missing one is told at once."""
    return [Input(path) for path in files] or [Input(None)]


def total_size(inputs: Sequence[Input]) -> int | None:
    """Return the bytes of all inputs, None if one of them does not know its size."""
    sizes = [source.size for source in inputs]
    return None if None in sizes else sum(size or 0 for size in sizes)
