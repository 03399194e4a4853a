"""A directory that is declared full takes no records, others do, and it takes them again afterwards."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kcli.storage import disk

if TYPE_CHECKING:
    from pathlib import Path


def test_only_the_full_directory_refuses_and_only_while_it_is_full(tmp_path: Path) -> None:
    full, other = tmp_path / "node-1", tmp_path / "node-10"
    descriptors = []
    for directory in (full, other):
        directory.mkdir()
        descriptors.append(os.open(directory / "records", os.O_RDWR | os.O_CREAT))
    try:
        disk.set_full(str(full), full=True)
        with pytest.raises(OSError, match="No space left") as caught:
            disk.pwrite(descriptors[0], b"x", 0)
        assert caught.value.errno == errno.ENOSPC
        assert disk.pwrite(descriptors[1], b"x", 0) == 1
    finally:
        disk.set_full(str(full), full=False)
    assert disk.pwrite is os.pwrite
    assert disk.pwrite(descriptors[0], b"x", 0) == 1
    for descriptor in descriptors:
        os.close(descriptor)
