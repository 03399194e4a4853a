"""Writing and syncing the files of log directories, creating directories, and simulating full disks.

Without a full directory, `pwrite` is the operating system's own. With one it is a function that first looks
up the path of the descriptor.
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
"""Writes `data` at a position of a file; raises `OSError` ENOSPC in a full directory."""

_full: set[str] = set()


def set_full(path: str, *, full: bool) -> None:
    """Make writes below a directory fail with ENOSPC, or succeed again."""
    global pwrite
    real = os.path.realpath(path)
    if full:
        _full.add(real)
    else:
        _full.discard(real)
    pwrite = _write_if_not_full if _full else os.pwrite


def write_fully(descriptor: int, data: Buffer, position: int = 0) -> None:
    """Write all of `data` at a position of a file. Raises `OSError`."""
    view = memoryview(data)
    while view:
        written = pwrite(descriptor, view, position)
        view = view[written:]
        position += written


def leads_to(path: str | os.PathLike[str], descriptor: int) -> bool:
    """Whether a path still leads to an open file. Raises `OSError`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def sync_path(path: str) -> None:
    """Sync a file, or the names of new and renamed files in a directory. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_if_not_full(descriptor: int, data: Buffer, position: int) -> int:
    path = os.path.realpath(f"/proc/self/fd/{descriptor}")
    if any(path.startswith(f"{directory}/") for directory in _full):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return os.pwrite(descriptor, data, position)


def make_directory(path: str, made: list[str]) -> None:
    """Create a directory and its parents; add the new ones to `made`. Raises `OSError`."""
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
    """Remove directories, the last one first; those that are not empty stay."""
    for path in reversed([*made]):
        with suppress(OSError):
            os.rmdir(path)
