"""Files that only their owner reads, written whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600


def make_private_directory(path: Path) -> None:
    """Make a directory, or take an existing one from everybody else. Raises `OSError`."""
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    path.chmod(DIRECTORY_MODE)


def write_private_file(path: Path, data: bytes) -> None:
    """Write a file or replace it; a crash leaves the old or the new one. Raises `OSError`."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
