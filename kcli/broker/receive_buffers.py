"""ReceiveBuffers: the memory that requests are received into.

Small requests go through one scratch buffer that all connections of the process share: it belongs to
whoever received last, until the next await. A request too large for that gets a buffer of its own from a
small pool of power-of-two sizes. These are anonymous private mappings: the kernel gives them memory page by
page as bytes arrive, so a client that announces 100 MB and sends nothing costs address space only, and a
pooled one spares the zeroing and the page faults of a new one.

What all unfinished requests hold together is bounded by `held_limit`: a connection that would exceed it is
closed. So receiving never takes more than that, the pool and the scratch buffer, however many connections
there are.
"""

from __future__ import annotations

import mmap

SCRATCH_BYTES = 256 * 1024
MIN_CLASS_BYTES = 16 * 1024
MAX_POOLED_CLASS_BYTES = 16 * 1024 * 1024
POOLED_BYTES = 32 * 1024 * 1024
POOLED_PER_CLASS = 4
HELD_LIMIT_BYTES = 1024 * 1024 * 1024


class ReceiveBuffers:
    """The scratch buffer and the pool of larger ones."""

    __slots__ = ("_free", "held_bytes", "held_limit", "pooled_bytes", "scratch")

    def __init__(self, held_limit: int = HELD_LIMIT_BYTES) -> None:
        self.held_limit = held_limit
        self.held_bytes = 0
        """How many bytes unfinished requests have brought."""
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._free: dict[int, list[memoryview]] = {}
        self.pooled_bytes = 0
        """How many bytes lie in the pool."""

    def take(self, size: int) -> memoryview:
        """Return a buffer of at least `size` bytes, with anything in it."""
        class_bytes = MIN_CLASS_BYTES
        while class_bytes < size:
            class_bytes *= 2
        free = self._free.get(class_bytes)
        if free:
            self.pooled_bytes -= class_bytes
            return free.pop()
        if class_bytes > MAX_POOLED_CLASS_BYTES:
            class_bytes = size
        return memoryview(mmap.mmap(-1, class_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def give_back(self, buffer: memoryview) -> None:
        """Take a buffer that nobody reads any more; slices of it must not be used again."""
        class_bytes = len(buffer)
        if class_bytes > MAX_POOLED_CLASS_BYTES or self.pooled_bytes + class_bytes > POOLED_BYTES:
            return
        free = self._free.setdefault(class_bytes, [])
        if len(free) < POOLED_PER_CLASS:
            free.append(buffer)
            self.pooled_bytes += class_bytes
