"""Target: the directory or object-store prefix that an export writes to.

Paths are relative to the target, with forward slashes. Tasks carry a target, so it can be pickled.
`LocalTarget` has exclusive creation, renaming and locks; `ObjectTarget` has none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class TargetFile(NamedTuple):
    path: str
    size_bytes: int


class StatePlaces(NamedTuple):
    """Where the state of a target can be, for users: beside it, or inside, where earlier versions put it."""

    beside: str | None
    """None if nothing can be beside it: the root of a file system or a bucket, or a mount point."""
    inside: str
    is_inside: bool
    are_both: bool
    """Whether there is something in both."""


class Target(Protocol):
    """Where an export writes."""

    @property
    def uri(self) -> str:
        """Return the target's name for users, without credentials."""

    @property
    def state_uri(self) -> str:
        """Return the place of all paths that begin with `_kcli/`, for users."""

    @property
    def state_places(self) -> StatePlaces:
        """Return where state can be."""

    @property
    def renames(self) -> bool:
        """Return whether files are written under a temporary name and renamed."""

    def exists(self) -> bool:
        """Return whether the directory exists, or the prefix has an object."""

    def read(self, path: str) -> bytes | None:
        """Return a small file's content, None if it does not exist."""

    def write_atomically(self, path: str, data: bytes) -> None:
        """Write or replace a small file, whole or not at all; it survives a power failure."""

    def create_exclusively(self, path: str, data: bytes) -> bool:
        """Write a small file unless it exists; return whether it was written."""

    def open_output(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        """Open a new file for writing, making its directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, if the target has directories."""

    def sync(self, path: str) -> None:
        """Sync a written file to disk."""

    def sync_directories(self, paths: list[str]) -> None:
        """Sync directories and all above them, up to the target."""

    def rename(self, path: str, to: str) -> bool:
        """Rename a file over any other; return whether it existed."""

    def remove(self, path: str) -> None:
        """Remove a file if there is one."""

    def remove_empty_directories(self, path: str) -> None:
        """Remove the empty directories in and below a directory, and above it up to the target."""

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes, None if it does not exist."""

    def list(self, directory: str, *, recursive: bool = False) -> list[TargetFile]:
        """Return the files in a directory, hidden ones too, in the order of their paths."""

    def open_input(self, path: str) -> Any:  # noqa: ANN401  # a pyarrow.NativeFile
        """Open a file for reading."""

    def while_writing(self, directory: str) -> AbstractContextManager[None]:
        """Block `when_no_task_writes` of the same directory; tasks write in this block."""

    def when_no_task_writes(self, directory: str) -> AbstractContextManager[None]:
        """Wait until no task of an earlier run writes, and block new ones."""
