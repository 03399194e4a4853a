"""Disk: how files of log directories are written and made durable, and directories made; one can be full.

While none is, `pwrite` is the operating system's own. With a full one it is a function that first looks
where a descriptor leads, which costs a look-up per write.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.protocol.corruption import Buffer

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


def make_directory(path: str, made: list[str]) -> None:
    """Make a directory and those above it; add to `made` what was not there. Raises `OSError`."""
    above, _ = os.path.split(path)
    if above and not os.path.isdir(above):
        make_directory(above, made)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        made.append(path)


def remove_empty(made: Iterable[str]) -> None:
    """Remove directories that are empty, the last one first: what has something in it by now stays."""
    for path in reversed([*made]):
        with suppress(OSError):
            os.rmdir(path)
