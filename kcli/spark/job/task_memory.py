"""Memory that a task lets go of stays with its process, which puts the next row group into it.

The C library gives large blocks back to the system as soon as they are free, and what it asks for then comes
page by page, each filled with zeros: a thirtieth of the CPU time of an export of large records. A worker soon
needs as much again, for the next row group or the next task, so it keeps what it had at its highest.
"""

from __future__ import annotations

import ctypes
from functools import cache

KEPT_BYTES = 512 * 1024 * 1024
"""More than a task has: what is free at the end of the heap up to this size is not given back."""

HEAP_BLOCK_BYTES = 32 * 1024 * 1024
"""Blocks up to this size come from the heap, the most that glibc takes for an answer."""

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


@cache
def keep_freed_memory() -> bool:
    """Let this process keep its heap; return whether the C library can be told so, which is glibc's only."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    kept = mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES), mallopt(_M_MMAP_THRESHOLD, HEAP_BLOCK_BYTES)
    return all(kept)
