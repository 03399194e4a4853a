"""A directory declared full refuses writes, others do not, and it accepts writes again afterwards."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kcli.storage import disk
from kcli.storage.checkpoints import write_atomically
from kcli.storage.dirs.log_directory import LogDirectory
from kcli.storage.index.index_file import IndexFile
from kcli.storage.producers.producer_snapshot import ProducerSnapshots

if TYPE_CHECKING:
    from collections.abc import Callable
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


@pytest.mark.parametrize(
    "write",
    [
        lambda path: IndexFile(f"{path}/0.index", 8).append(bytes(8)),
        lambda path: write_atomically(f"{path}/checkpoint", b"0\n0\n"),
        lambda path: ProducerSnapshots(str(path)).write(1, []),
        lambda path: LogDirectory(str(path)).write_clean_marker(7),
    ],
    ids=["index", "checkpoint", "snapshot", "marker"],
)
def test_no_file_of_a_full_directory_is_written(tmp_path: Path, write: Callable[[Path], None]) -> None:
    disk.set_full(str(tmp_path), full=True)
    try:
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path)
    finally:
        disk.set_full(str(tmp_path), full=False)
    write(tmp_path)
