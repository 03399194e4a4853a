"""LocalTarget: a directory of a file system that renames, links and locks.

A temporary name begins with a dot and ends in the attempt's id, so that no reader takes the file for data.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.export.target.layout import STATE, state_name
from kcli.spark.export.target.target import StatePlaces, TargetFile
from kcli.storage import disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_PAUSE_SECONDS = 0.05


def temporary_name(path: str, attempt: str) -> str:
    """Return the path of a file while it is written: hidden, beside its final place."""
    directory, slash, name = path.rpartition("/")
    return f"{directory}{slash}.{name}.{attempt}"


class LocalTarget:
    """A directory, which is made with the first file."""

    renames = True

    def __init__(self, root: str, *, patience_seconds: float = 60.0) -> None:
        self.root = os.path.abspath(root)
        # A link and its directory are one target.
        real = os.path.realpath(self.root)
        inside, (parent, name) = os.path.join(real, STATE), os.path.split(real)
        beside = os.path.join(parent, state_name(name)) if name and not os.path.ismount(real) else None
        has_inside = os.path.isdir(inside)
        are_both = has_inside and beside is not None and os.path.isdir(beside)
        self.state_places = StatePlaces(beside, inside, has_inside or beside is None, are_both)
        self._state = inside if has_inside or beside is None else beside
        self._patience_seconds = patience_seconds

    @property
    def uri(self) -> str:
        return self.root

    @property
    def state_uri(self) -> str:
        return self._state

    def exists(self) -> bool:
        return os.path.isdir(self.root)

    def local_path(self, path: str) -> str:
        first, _, rest = path.partition("/")
        if first != STATE:
            return os.path.join(self.root, path)
        return os.path.join(self._state, rest) if rest else self._state

    def read(self, path: str) -> bytes | None:
        try:
            with open(self.local_path(path), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_atomically(self, path: str, data: bytes) -> None:
        """Write or replace a small file by way of a temporary name."""
        self._replace(self._write_temporary(path, data), path)
        disk.sync_path(os.path.dirname(self.local_path(path)))

    def create_exclusively(self, path: str, data: bytes) -> bool:
        """Write a small file unless it exists; return whether it was written, by the first to link it."""
        temporary = self._write_temporary(path, data)
        try:
            os.link(self.local_path(temporary), self.local_path(path))
        except FileExistsError:
            return False
        else:
            return True
        finally:
            self.remove(temporary)

    def open_output(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        import pyarrow as pa

        full = self.local_path(path)
        try:
            return pa.OSFile(full, "wb")
        except FileNotFoundError:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            return pa.OSFile(full, "wb")

    def make_directory(self, path: str) -> None:
        os.makedirs(self.local_path(path), exist_ok=True)

    def sync(self, path: str) -> None:
        disk.sync_path(self.local_path(path))

    def sync_directories(self, paths: Iterable[str]) -> None:
        wanted = {""}
        for path in paths:
            while path:
                wanted.add(path)
                path = os.path.dirname(path)
        for path in sorted(wanted):
            disk.sync_path(self.local_path(path).rstrip("/"))
        with suppress(PermissionError):  # it may allow writing and not reading
            disk.sync_path(os.path.dirname(self._state))

    def rename(self, path: str, to: str) -> bool:
        try:
            self._replace(path, to)
        except FileNotFoundError:
            if self.size(path) is None:
                return False
            self.make_directory(os.path.dirname(to))
            self._replace(path, to)
        return True

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.local_path(path))

    def remove_empty_directories(self, path: str) -> None:
        for folder, _, _ in os.walk(self.local_path(path), topdown=False):
            with suppress(OSError):  # not empty, or not permitted
                os.rmdir(folder)
        while path := os.path.dirname(path):
            try:
                os.rmdir(self.local_path(path))
            except OSError:
                return

    def size(self, path: str) -> int | None:
        try:
            return os.stat(self.local_path(path)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, directory: str, *, recursive: bool = False) -> list[TargetFile]:
        found = []
        pending = [directory]
        while pending:
            folder = pending.pop()
            try:
                with os.scandir(self.local_path(folder)) as scan:
                    entries = list(scan)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir():
                    pending += [path] if recursive else []
                else:
                    with suppress(FileNotFoundError):
                        found.append(TargetFile(path, entry.stat().st_size))
        return sorted(found)

    def open_input(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        import pyarrow as pa

        return pa.OSFile(self.local_path(path), "rb")

    @contextmanager
    def while_writing(self, directory: str) -> Iterator[None]:
        with self._locked(directory, fcntl.LOCK_SH):
            yield

    @contextmanager
    def when_no_task_writes(self, directory: str) -> Iterator[None]:
        with self._locked(directory, fcntl.LOCK_EX):
            yield

    @contextmanager
    def _locked(self, directory: str, mode: int) -> Iterator[None]:
        """Lock a directory, if the file system has locks; raise `KcliError` after the time limit."""
        descriptor = os.open(self.local_path(directory), os.O_RDONLY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + self._patience_seconds
            while not _try_lock(descriptor, mode):
                if time.monotonic() >= deadline:
                    raise KcliError(
                        f"another run's tasks still write to `{self.uri}`",
                        hint="wait until they have ended, or end them",
                    )
                time.sleep(_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _write_temporary(self, path: str, data: bytes) -> str:
        temporary = temporary_name(path, os.urandom(4).hex())
        full = self.local_path(temporary)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "xb") as file:
            file.write(data)
            file.flush()
            disk.sync(file.fileno())
        return temporary

    def _replace(self, path: str, to: str) -> None:
        os.replace(self.local_path(path), self.local_path(to))


def _try_lock(descriptor: int, mode: int) -> bool:
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
