"""A directory declared full refuses writes while it is full; a sync is true if the journal works after it."""

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


class FailingJournal:
    """Syncs succeed, and what takes the journal after them answers with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errno = 0
        self.calls: list[str] = []
        for call in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, call, lambda descriptor: self.calls.append("sync"))
        monkeypatch.setattr(os, "removexattr", self._answer)

    def _answer(self, descriptor: int, name: str) -> None:
        self.calls.append("journal")
        raise OSError(self.errno, os.strerror(self.errno))


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> FailingJournal:
    return FailingJournal(monkeypatch)


@pytest.mark.parametrize("sync", [disk.sync, disk.sync_data])
@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_a_sync_without_a_journal_fails(
    tmp_path: Path, sync: Callable[[int], None], number: int, journal: FailingJournal
) -> None:
    journal.errno = number
    failing = pytest.raises(OSError, match=os.strerror(number))
    with (tmp_path / "records").open("wb") as file, failing as caught:
        sync(file.fileno())
    assert caught.value.errno == number
    assert journal.calls == ["sync", "journal"]


@pytest.mark.parametrize("sync", [disk.sync, disk.sync_data])
@pytest.mark.parametrize("number", [errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.ENOSPC])
def test_a_sync_succeeds_where_the_journal_works_or_there_is_none(
    tmp_path: Path, sync: Callable[[int], None], number: int, journal: FailingJournal
) -> None:
    journal.errno = number
    with (tmp_path / "records").open("wb") as file:
        sync(file.fileno())
    assert journal.calls == ["sync", "journal"]


def test_a_sync_leaves_a_file_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with path.open("wb") as file:
        file.write(b"records")
        file.flush()
        before = os.fstat(file.fileno())
        disk.sync(file.fileno())
        disk.sync_data(file.fileno())
        after = os.fstat(file.fileno())
    assert (after.st_size, after.st_ctime_ns, os.listxattr(path)) == (before.st_size, before.st_ctime_ns, [])
