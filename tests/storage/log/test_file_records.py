"""The log file: appending, finding, and slices that survive all but truncation."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.storage import disk
from kcli.storage.log.file_records import FileRecords
from tests.storage.log_harness import batch_of


def batches(*counts: int, size: int = 10) -> bytes:
    """Return batches with these numbers of records, with offsets from 0 on."""
    data, offset = bytearray(), 0
    for count in counts:
        batch = batch_of(*[b"x" * size] * count)
        set_base_offset_and_epoch(batch, 0, offset, 0)
        data += batch
        offset += count
    return bytes(data)


def records(path: Path, data: bytes) -> FileRecords:
    made = FileRecords.create(str(path))
    made.append(data)
    return made


def test_what_is_appended_is_there(tmp_path: Path) -> None:
    log = records(tmp_path / "log", batches(1, 2))
    log.append(b"more")
    assert (tmp_path / "log").read_bytes() == batches(1, 2) + b"more"
    assert log.size == len(batches(1, 2)) + 4


def test_entries_are_walked_by_their_heads(tmp_path: Path) -> None:
    data = batches(1, 3, 2)
    entries = list(records(tmp_path / "log", data).entries())
    assert [(entry.base_offset, entry.last_offset) for entry in entries] == [(0, 0), (1, 3), (4, 5)]
    assert entries[0].position == 0
    assert entries[2].position + entries[2].size == len(data)


@pytest.mark.parametrize("size", [10, 9000])
@pytest.mark.parametrize(("target", "found"), [(0, 0), (1, 1), (3, 1), (4, 4), (5, 4), (6, None)])
def test_the_batch_of_an_offset_is_found(tmp_path: Path, size: int, target: int, found: int | None) -> None:
    entry = records(tmp_path / "log", batches(1, 3, 2, size=size)).search(target, 0)
    assert (entry.base_offset if entry else None) == found


def test_a_torn_tail_is_no_entry(tmp_path: Path) -> None:
    data = batches(1, 1)
    for cut in range(1, len(data) // 2):
        log = records(tmp_path / f"log{cut}", data[:-cut])
        assert len(list(log.entries())) == 1
        assert log.search(1, 0) is None


def test_older_entries_are_walked_and_found(tmp_path: Path) -> None:
    builder = MessageSetBuilder(1, base_offset=5)
    for number in range(3):
        builder.append(number, None, None)
    log = records(tmp_path / "log", builder.build())
    assert [entry.last_offset for entry in log.entries()] == [5, 6, 7]
    found = log.search(7, 0)
    assert found is not None
    assert found.last_offset == 7


@pytest.mark.parametrize(
    ("position", "value"), [(16, 5), (11, 3), (8, 0x80)], ids=["magic", "small size", "negative size"]
)
def test_heads_that_cannot_be_are_corruption(tmp_path: Path, position: int, value: int) -> None:
    data = bytearray(batches(1))
    if position == 11:
        data[8:12] = bytes(4)
    data[position] = value
    log = records(tmp_path / "log", bytes(data))
    with pytest.raises(CorruptRecord):
        list(log.entries())
    with pytest.raises(CorruptRecord):
        log.search(0, 0)


def test_a_scan_yields_runs_of_whole_entries(tmp_path: Path) -> None:
    data = batches(*[1] * 40, size=100_000) + batches(1, size=3_000_000)
    runs = list(records(tmp_path / "log", data).scan())
    assert len(runs) > 3
    assert b"".join(run for _, run in runs) == data
    assert all(len(run) <= 1 << 20 or len(run) > 3_000_000 for _, run in runs)
    position = 0
    for at, run in runs:
        assert at == position
        position += len(run)


def test_a_scan_yields_what_is_good_before_what_is_not(tmp_path: Path) -> None:
    good = batches(1, 1)
    log = records(tmp_path / "zeros", good + bytes(100))
    runs: list[tuple[int, bytes]] = []
    with pytest.raises(CorruptRecord):
        runs.extend(log.scan())
    assert runs == [(0, good)]
    torn = records(tmp_path / "torn", good + batches(1)[:-1])
    assert [run for _, run in torn.scan()] == [good]
    huge = records(tmp_path / "huge", good + bytes(8) + b"\x7f\xff\xff\xff" + bytes(4) + b"\x02" + bytes(50))
    assert [run for _, run in huge.scan()] == [good]


def test_a_slice_outlives_rename_and_deletion(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123456789")
    part = log.slice(2, 5)
    os.rename(tmp_path / "log", tmp_path / "log.deleted")
    log.renamed(str(tmp_path / "log.deleted"))
    log.close()
    os.unlink(tmp_path / "log.deleted")
    assert part.read() == b"23456"
    assert os.fstat(part.fileno()).st_size == 10


def test_truncation_cuts_a_slice_short(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123456789")
    part = log.slice(2, 5)
    assert log.truncate_to(4) == 6
    assert part.read() == b"23"
    assert log.truncate_to(0) == 4
    assert part.read() == b""


def test_a_file_is_not_truncated_to_more_than_it_has(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123456789")
    for size in (-1, 11):
        with pytest.raises(ValueError, match="cannot truncate"):
            log.truncate_to(size)


def test_a_descriptor_closes_with_its_last_user(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123456789")
    part = log.slice(0, 1)
    descriptor = part.fileno()
    log.close()
    os.fstat(descriptor)
    del part
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_closed_file_opens_again_by_itself(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123")
    log.close()
    assert log.read(1, 100) == b"123"
    log.append(b"4")
    assert (tmp_path / "log").read_bytes() == b"01234"


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    log = records(tmp_path / "log", b"0123")
    log.close()
    (tmp_path / "log").unlink()
    with pytest.raises(FileNotFoundError):
        log.read(0, 1)
    assert not (tmp_path / "log").exists()


def test_a_partial_write_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = records(tmp_path / "log", b"0123")
    write, calls = os.pwrite, []

    def pwrite(descriptor: int, data: bytes, position: int) -> int:
        calls.append(position)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:2], position)

    monkeypatch.setattr(disk, "pwrite", pwrite)
    with pytest.raises(OSError, match="No space"):
        log.append(b"456789")
    assert calls == [4, 6, 8]
    assert (tmp_path / "log").read_bytes() == b"0123"
    assert log.size == 4


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = records(tmp_path / "log", b"")
    write = os.pwrite
    monkeypatch.setattr(disk, "pwrite", lambda fd, data, at: write(fd, bytes(data[:3]), at))
    log.append(bytearray(b"0123456789"))
    assert (tmp_path / "log").read_bytes() == b"0123456789"


def test_a_preallocated_file_is_trimmed(tmp_path: Path) -> None:
    log = FileRecords.create(str(tmp_path / "log"), preallocate_bytes=1000)
    log.append(b"0123")
    assert (tmp_path / "log").stat().st_size == 1000
    log.trim()
    assert (tmp_path / "log").read_bytes() == b"0123"
