"""Disk: how what is in a log directory is written and made durable; one can be declared full.

While none is, `pwrite` is the operating system's own. With a full one it is a function that first looks
where a descriptor leads, which costs a look-up per write.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.protocol.record import Buffer

pwrite: Callable[[int, Buffer, int], int] = os.pwrite
"""What writes `data` at a position of a file; raises `OSError` ENOSPC where there is no room."""

_full: set[str] = set()


def set_full(path: str, *, full: bool) -> None:
    """Declare that a directory has no room left, or that it has again."""
    global pwrite
    real = os.path.realpath(path)
    if full:
        _full.add(real)
    else:
        _full.discard(real)
    pwrite = _write_where_there_is_room if _full else os.pwrite


def write_fully(descriptor: int, data: Buffer, position: int = 0) -> None:
    """Write all of `data` at a position of a file. Raises `OSError`."""
    view = memoryview(data)
    while view:
        written = pwrite(descriptor, view, position)
        view = view[written:]
        position += written


def leads_to(path: str | os.PathLike[str], descriptor: int) -> bool:
    """True if a path is still that of an open file. Raises `OSError`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sync_path(path: str) -> None:
    """Make a file durable, or the names of new and renamed files in a directory. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_where_there_is_room(descriptor: int, data: Buffer, position: int) -> int:
    path = os.path.realpath(f"/proc/self/fd/{descriptor}")
    if any(path.startswith(f"{directory}/") for directory in _full):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return os.pwrite(descriptor, data, position)
