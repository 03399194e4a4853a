"""Copies of directories that a broker is writing to."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PASSING = (".lock", ".tmp", "-delete")
"""What the names of files end with that are about to get another one, and of directories that go soon."""


def copy_running(source: Path, target: Path) -> Path:
    """Copy a directory of a running broker without what is on its way in or out; return the copy."""
    paths = list(source.iterdir())
    target.mkdir(parents=True)
    for path in paths:
        if path.name.endswith(PASSING):
            continue
        with suppress(FileNotFoundError):  # It has gone meanwhile.
            if path.is_dir():
                copy_running(path, target / path.name)
            else:
                shutil.copy(path, target)
    return target
