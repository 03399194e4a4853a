"""The one place where a broker's files are opened, created, written and synced, and where disks can be full.

Files are created with mode 0640 and directories with 0750, as by Kafka's packages; the umask may take more.

A shortage of the process or the machine (descriptors, memory) is no failure of a disk: `is_shortage` says
which errors are, and what then fails can be tried again. A few spare descriptors are kept for these files, so
that a broker whose descriptors are used up still writes its checkpoints.

Without a full directory, `pwrite` is the operating system's own. With one it is a function that first looks
up the path of the descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kcli.protocol.corruption import Buffer

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750

SPARE_DESCRIPTORS = 8
"""More than any single operation on a log has open for itself."""

_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_SHORTAGES = _NO_DESCRIPTORS | {errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN}

_NO_COPYING = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""The kernel or the file system does not copy between these files."""
_COPY_BYTES = 1024 * 1024

_NO_ATTRIBUTE = "user.kcli.none"
_LOST_JOURNAL = frozenset({errno.EROFS, errno.EIO})

_spare: list[int] = []

pwrite: Callable[[int, Buffer, int], int] = os.pwrite
"""Writes `data` at a position of a file; raises `OSError` ENOSPC in a full directory."""

_full: set[str] = set()


class StorageShortage(KafkaError):
    """What a log lacks for a moment: KAFKA_STORAGE_ERROR, which clients retry. The disk is sound."""

    def __init__(self, message: str, error: OSError) -> None:
        hint = "raise the limit of open files: `ulimit -n`" if error.errno in _NO_DESCRIPTORS else None
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message, hint=hint)


def is_shortage(error: BaseException | None) -> bool:
    """Whether the process or the machine lacks something, or a call was interrupted: no failure of a disk."""
    return isinstance(error, StorageShortage) or (isinstance(error, OSError) and error.errno in _SHORTAGES)


def keep_spare_descriptors() -> None:
    """Hold spare descriptors for `open_file`, again after some were used; fewer if there are no more."""
    with suppress(OSError):
        while len(_spare) < SPARE_DESCRIPTORS:
            _spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def open_file(path: str | os.PathLike[str], flags: int) -> int:
    """Open or create a file, with a spare descriptor if there is no other. Raises `OSError`."""
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS or not _give_up_spare():
                raise


def _give_up_spare() -> bool:
    try:
        os.close(_spare.pop())
    except IndexError:
        return False
    return True


def read_file(path: str | os.PathLike[str], max_bytes: int = -1) -> bytes:
    """Return the content of a file, at most `max_bytes`. Raises `OSError`."""
    with open(path, "rb", opener=open_file) as file:
        return file.read(max_bytes)


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


def copy_range(source: int, target: int, count: int, source_position: int, target_position: int) -> None:
    """Copy `count` bytes from one open file to another, in the kernel where it can. Raises `OSError`."""
    while count:
        copied = _copy_some(source, target, count, source_position, target_position)
        count -= copied
        source_position += copied
        target_position += copied


def _copy_some(source: int, target: int, count: int, source_position: int, target_position: int) -> int:
    # A full directory is noticed by `pwrite`.
    if pwrite is os.pwrite and hasattr(os, "copy_file_range"):
        try:
            copied = os.copy_file_range(source, target, count, source_position, target_position)
        except OSError as error:
            if error.errno not in _NO_COPYING:
                raise
        else:
            if copied:
                return copied
            raise OSError(errno.EIO, "a file ends too early")
    data = os.pread(source, min(count, _COPY_BYTES), source_position)
    if not data:
        raise OSError(errno.EIO, "a file ends too early")
    write_fully(target, data, target_position)
    return len(data)


def leads_to(path: str | os.PathLike[str], descriptor: int) -> bool:
    """Whether a path still leads to an open file. Raises `OSError`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def is_missing(directory: str) -> bool:
    """Whether a directory cannot be found."""
    try:
        return not stat.S_ISDIR(os.stat(directory).st_mode)
    except OSError as error:
        return not is_shortage(error)


def sync_path(path: str) -> None:
    """Sync a file, or the names of new and renamed files in a directory. Raises `OSError`."""
    descriptor = open_file(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Sync what an open file holds, without its times. Raises `OSError`, as `sync`."""
    # Not on every system.
    _sync(getattr(os, "fdatasync", os.fsync), descriptor)


def sync(descriptor: int) -> None:
    """Sync an open file. Raises `OSError`, which is never a shortage.

    After a failed fsync the kernel may count as written what it has dropped.
    """
    _sync(os.fsync, descriptor)


def _sync(call: Callable[[int], None], descriptor: int) -> None:
    try:
        call(descriptor)
        _check_journal(descriptor)
    except OSError as error:
        if is_shortage(error):
            raise OSError(errno.EIO, f"fsync failed: {error.strerror}") from error
        raise


def _check_journal(descriptor: int) -> None:
    """Raise `OSError` EROFS or EIO if the file system of an open file has given up its journal.

    On Linux. While an error makes ext4 read-only, a sync may return success although what the file has grown
    by is gone after the repair; statvfs does not tell. To remove an attribute that is not there changes
    nothing and takes the journal all the same, so the answer after a sync tells whether it was true.
    """
    if sys.platform == "linux":
        try:
            os.removexattr(descriptor, _NO_ATTRIBUTE)
        except OSError as error:
            # Any other is an answer of a sound file system: mostly ENODATA, or ENOTSUP.
            if error.errno in _LOST_JOURNAL:
                raise


def _write_if_not_full(descriptor: int, data: Buffer, position: int) -> int:
    path = os.path.realpath(f"/proc/self/fd/{descriptor}")
    if any(path.startswith(f"{directory}/") for directory in _full):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return os.pwrite(descriptor, data, position)


def make_directory(path: str, made: list[str] | None = None) -> None:
    """Create a directory and its parents if it does not exist; add new ones to `made`. Raises `OSError`."""
    above, _ = os.path.split(path)
    if above and not os.path.isdir(above):
        make_directory(above, made)
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        if made is not None:
            made.append(path)


def remove_empty(made: Iterable[str]) -> None:
    """Remove directories, the last one first; those that are not empty stay."""
    for path in reversed([*made]):
        with suppress(OSError):
            os.rmdir(path)
