"""Standard output, written from a thread, with an account of how much of it is out.

A reader that does not read holds up neither the connection nor Ctrl-C. Pieces are no longer than a pipe takes
whole or not at all, so that whoever is interrupted knows which records have left.
"""

from __future__ import annotations

import os
import sys

import trio

PIECE_BYTES = 4096
"""PIPE_BUF of Linux."""

GRACE_SECONDS = 0.2
"""How long an interrupted write may take to end its piece; after that its reader does not read."""


class Progress:
    """How far a write has come; `should_stop` ends it behind the piece at hand."""

    __slots__ = ("is_done", "should_stop", "written")

    def __init__(self) -> None:
        self.written = 0
        self.is_done = False
        self.should_stop = False


async def write_out(data: bytes, progress: Progress) -> None:
    """Write bytes to standard output; raise `BrokenPipeError` when nobody reads it any more.

    `progress` is final when this returns or raises, but for a reader that has stopped to read.
    """
    if not data:
        return
    sys.stdout.flush()
    descriptor = sys.stdout.fileno()
    try:
        await trio.to_thread.run_sync(
            write_all, descriptor, data, progress, PIECE_BYTES, abandon_on_cancel=True
        )
    finally:
        progress.should_stop = True
        with trio.CancelScope(shield=True), trio.move_on_after(GRACE_SECONDS):
            while not progress.is_done:  # noqa: ASYNC110 - a thread says so
                await trio.sleep(0.005)


def write_all(descriptor: int, data: bytes, progress: Progress, piece_bytes: int) -> None:
    """Write pieces of `data`, however often the kernel takes a part of one."""
    view = memoryview(data)
    try:
        while progress.written < len(view) and not progress.should_stop:
            piece = view[progress.written : progress.written + piece_bytes]
            progress.written += os.write(descriptor, piece)
    finally:
        progress.is_done = True


def whole_items(items: list[bytes], written: int) -> int:
    """Return how many items, one behind the other, lie within the first `written` bytes."""
    end = 0
    for count, item in enumerate(items):
        end += len(item)
        if end > written:
            return count
    return len(items)
