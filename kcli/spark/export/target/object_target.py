"""ObjectTarget: a prefix in a store that pyarrow supports, which neither renames nor locks.

Files are written under their final names, which contain the id of the attempt. Creation is not exclusive.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from kcli.errors import KcliError, UsageError
from kcli.spark.export.target.layout import STATE, state_name
from kcli.spark.export.target.local_target import LocalTarget
from kcli.spark.export.target.target import StatePlaces, TargetFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from kcli.spark.export.target.target import Target


class ObjectTarget:
    """A prefix of a `pyarrow.fs.FileSystem`."""

    renames = False

    def __init__(self, filesystem: Any, root: str, *, uri: str) -> None:  # noqa: ANN401  # a pyarrow.fs.FileSystem
        self.filesystem = filesystem
        self.root = root.rstrip("/")
        self.uri = uri.rstrip("/")

    def _entries(self, place: str, *, recursive: bool = False) -> list[Any]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(place, allow_not_found=True, recursive=recursive)
        return list(self.filesystem.get_file_info(selector))

    @cached_property
    def state_places(self) -> StatePlaces:
        above, _, name = self.uri.rpartition("/")
        beside = f"{above}/{state_name(name)}" if self._beside else None
        has_inside = bool(self._entries(f"{self.root}/{STATE}"))
        are_both = has_inside and self._beside is not None and bool(self._entries(self._beside))
        return StatePlaces(beside, f"{self.uri}/{STATE}", has_inside or beside is None, are_both)

    @property
    def _beside(self) -> str | None:
        above, _, name = self.root.rpartition("/")
        return f"{above}/{state_name(name)}" if above else None

    @property
    def state_uri(self) -> str:
        places = self.state_places
        return places.inside if places.beside is None or places.is_inside else places.beside

    @cached_property
    def _state(self) -> str:
        beside = self._beside
        return f"{self.root}/{STATE}" if beside is None or self.state_places.is_inside else beside

    def exists(self) -> bool:
        return bool(self._entries(self.root))

    def full_path(self, path: str) -> str:
        first, _, rest = path.partition("/")
        if first != STATE:
            return f"{self.root}/{path}" if path else self.root
        return f"{self._state}/{rest}" if rest else self._state

    def read(self, path: str) -> bytes | None:
        try:
            with self.filesystem.open_input_stream(self.full_path(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write_atomically(self, path: str, data: bytes) -> None:
        """Write or replace a small file; a store shows an object when it is complete."""
        with self.open_output(path) as stream:
            stream.write(data)

    def create_exclusively(self, path: str, data: bytes) -> bool:
        """Write a small file unless it exists; two writers at the same moment both succeed."""
        if self.size(path) is not None:
            return False
        self.write_atomically(path, data)
        return True

    def open_output(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        full = self.full_path(path)
        try:
            return self.filesystem.open_output_stream(full)
        except FileNotFoundError:  # a store with real directories
            self.filesystem.create_dir(full.rpartition("/")[0], recursive=True)
            return self.filesystem.open_output_stream(full)

    def make_directory(self, path: str) -> None:
        """Do nothing: a prefix exists with its first object."""

    def sync(self, path: str) -> None:
        """Do nothing: a closed object is durable."""

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Do nothing: a closed object is durable."""

    def rename(self, path: str, to: str) -> bool:
        """Move a file by copying it; return whether it existed."""
        if self.size(path) is None:
            return False
        place = self.full_path(to)
        self.filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        self.filesystem.move(self.full_path(path), place)
        return True

    def remove(self, path: str) -> None:
        if self.size(path) is not None:
            self.filesystem.delete_file(self.full_path(path))

    def remove_empty_directories(self, path: str) -> None:
        """Do nothing: a prefix disappears with its last object."""

    def size(self, path: str) -> int | None:
        info = self.filesystem.get_file_info(self.full_path(path))
        return info.size if info.is_file else None

    def list(self, directory: str, *, recursive: bool = False) -> list[TargetFile]:
        place = self.full_path(directory)
        infos = self._entries(place, recursive=recursive)
        prefix, skipped = (f"{directory}/" if directory else ""), len(place) + 1
        return sorted(TargetFile(prefix + info.path[skipped:], info.size) for info in infos if info.is_file)

    def open_input(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        return self.filesystem.open_input_file(self.full_path(path))

    def while_writing(self, directory: str) -> AbstractContextManager[None]:
        """Block nothing: receipts name the attempt, and only one of them counts."""
        return nullcontext()

    def when_no_task_writes(self, directory: str) -> AbstractContextManager[None]:
        """Do not wait."""
        return nullcontext()


def open_target(uri: str) -> Target:
    """Return the target of a path, a `file:` URI, or another URI that pyarrow supports."""
    if not uri:
        raise UsageError("the target is empty")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", uri)
    if scheme is None:
        return LocalTarget(uri)
    try:
        parts = urlsplit(uri)
    except ValueError:
        # The URI is not shown: a password may be anywhere in it.
        raise UsageError(f"not a target that can be written to: no `{scheme[1]}` address") from None
    if scheme[1].lower() == "file":
        if parts.netloc not in ("", "localhost"):
            raise UsageError(f"a file on another host: `{uri}`", hint="write file:///path")
        return LocalTarget(unquote(parts.path))
    from pyarrow.fs import FileSystem

    # User, password and options may hold keys.
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    try:
        filesystem, root = FileSystem.from_uri(uri)
    except ValueError as error:
        # Arrow's message may repeat the URI, and the password in it.
        raise UsageError(f"not a target that can be written to: `{shown}`") from error
    except OSError as error:
        # It does not if all of the URI may be shown.
        reason = str(error).partition("\n")[0] if shown == uri else type(error).__name__
        raise KcliError(f"cannot open `{shown}`: {reason}") from error
    return ObjectTarget(filesystem, root, uri=shown)
