"""A directory that a broker is writing: segments are rolled, deleted and compacted while a split is read."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.records.batch import iter_batches
from kcli.spark.source.data_loss import DataLoss
from kcli.spark.source.log_dirs.log_dirs_reader import SegmentReading, SplitRun
from kcli.spark.split import COLUMNS, OffsetInterval, OnCorrupt, ReadCounters, Reading
from tests.spark.source.log_dirs.log_dir import LogDir, Row, between, read_all, rows_of, stored_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kcli.spark.split import Split


@pytest.fixture
def log(tmp_path: Path) -> LogDir:
    """A running broker's log of several segments."""
    made = LogDir(tmp_path / "node")
    made.fill(60)
    made.write_mark(60)
    return made


def whole(log: LogDir) -> Split:
    (split,) = log.splits(0, 60, split_bytes=2**40)
    return split


def read_with(split: Split, disturb: Callable[[int], None]) -> tuple[list[Row], ReadCounters]:
    """Read a split; `disturb` is told how many rows have been read, at first that it is none."""
    counters, rows = ReadCounters(), list[Row]()
    disturb(0)
    for batch in SplitRun(split, Reading(columns=COLUMNS), counters).rows():
        rows += rows_of([batch])
        disturb(len(rows))
    return rows, counters


def once(what: Callable[[], object], at: int = 1) -> Callable[[int], None]:
    """Do something when so many rows have been read."""
    done: list[object] = []

    def disturb(count: int) -> None:
        if count >= at and not done:
            done.append(what())

    return disturb


def test_records_that_are_appended_meanwhile_are_not_read(log: LogDir) -> None:
    stored = stored_rows(log.directory)
    rows, _ = read_with(whole(log), lambda count: log.fill(5))
    assert rows == stored
    assert log.log.log_end_offset > 60
    assert len(log.bases) > 5


def test_the_last_segment_may_be_rolled_before_it_is_read(log: LogDir) -> None:
    split, stored = whole(log), stored_rows(log.directory)
    log.fill(100)
    assert read_all([split]) == stored


def test_a_batch_that_is_being_written_does_not_matter(log: LogDir) -> None:
    split, stored = whole(log), stored_rows(log.directory)
    with log.path(log.bases[-1]).open("ab") as file:
        file.write(b"\0\0\0\0\0\0\0\x3c\0\0\x10\0half of it")
    assert log.ends()[1] == 60
    assert read_all([split]) == stored


def test_segments_that_are_deleted_while_they_are_open_are_read_to_their_end(log: LogDir) -> None:
    stored, first = stored_rows(log.directory), log.bases[0]
    rows, _ = read_with(whole(log), once(lambda: os.unlink(log.path(first))))
    assert rows == stored


def delete_up_to(log: LogDir, offset: int) -> None:
    """Rename the files of old segments, as retention does."""
    for base, following in pairwise(log.bases):
        if following <= offset and log.path(base).exists():
            log.path(base).rename(log.path(base, ".log.deleted"))


def keep_batches(path: Path, count: int) -> None:
    """Cut a segment behind some batches."""
    batches = list(iter_batches(path.read_bytes()))
    os.truncate(path, batches[count].position)


def test_segments_that_are_gone_before_the_split_is_read_are_a_data_loss(log: LogDir) -> None:
    split, third = whole(log), log.bases[2]
    delete_up_to(log, third)
    with pytest.raises(DataLoss) as caught:
        read_all([split])
    assert f"offsets 0 to {third - 1} of orders-0 are gone: the log starts at {third}" in caught.value.message
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


def test_a_data_loss_that_is_allowed_is_counted(log: LogDir) -> None:
    split, third, stored = whole(log), log.bases[2], stored_rows(log.directory)
    delete_up_to(log, third)
    counters = ReadCounters()
    assert read_all([split], counters, fail_on_data_loss=False) == between(stored, third, 60)
    assert counters.missing == [OffsetInterval(0, third)]


def test_segments_that_go_in_the_middle_of_a_split_are_a_data_loss(log: LogDir) -> None:
    stored, (_, second, _, fourth, *_) = stored_rows(log.directory), log.bases
    counters, rows = ReadCounters(), list[Row]()
    batches = SplitRun(whole(log), Reading(columns=COLUMNS), counters).rows()
    rows += rows_of([next(batches)])
    delete_up_to(log, fourth)
    with pytest.raises(DataLoss, match=f"offsets {second} to {fourth - 1} of orders-0 are gone"):
        next(batches)
    assert rows == between(stored, 0, second)


def test_a_split_whose_offsets_are_all_gone_has_no_rows(log: LogDir) -> None:
    (split,) = log.splits(0, log.bases[1] - 3)
    delete_up_to(log, log.bases[2])
    counters = ReadCounters()
    assert read_all([split], counters, fail_on_data_loss=False) == []
    assert counters.missing == [OffsetInterval(0, split.end)]


def test_a_log_that_was_truncated_is_a_data_loss(log: LogDir) -> None:
    split, stored = whole(log), stored_rows(log.directory)
    last = log.bases[-1]
    keep_batches(log.path(last), 50 - last)
    with pytest.raises(DataLoss, match="offsets 50 to 59 of orders-0 are gone: the log ends at 50"):
        read_all([split])
    counters = ReadCounters()
    assert read_all([split], counters, fail_on_data_loss=False) == between(stored, 0, 50)
    assert counters.missing == [OffsetInterval(50, 60)]


def compact(log: LogDir, first: int, second: int) -> Callable[[], None]:
    """Put two segments into one, as the cleaner does, that keeps every batch."""

    def swap() -> None:
        merged = log.path(first).read_bytes() + log.path(second).read_bytes()
        log.path(first, ".log.cleaned").write_bytes(merged)
        log.path(first, ".log.cleaned").rename(log.path(first, ".log.swap"))
        for base in (first, second):
            log.path(base).rename(log.path(base, ".log.deleted"))
            log.path(base, ".index").unlink(missing_ok=True)
        log.path(first, ".log.swap").rename(log.path(first))

    return swap


@pytest.mark.parametrize("pair", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 1, 25, 45])
def test_segments_may_be_compacted_into_one_at_any_time(log: LogDir, pair: int, at: int) -> None:
    stored, bases = stored_rows(log.directory), log.bases
    rows, counters = read_with(whole(log), once(compact(log, bases[pair], bases[pair + 1]), at))
    assert rows == stored
    assert counters.corrupt_batches == 0


def test_segments_may_be_compacted_between_being_listed_and_being_opened(
    log: LogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, bases = stored_rows(log.directory), log.bases
    swaps = [compact(log, bases[0], bases[1]), compact(log, bases[0], bases[2])]
    original = SplitRun._next_segment

    def disturbed(self: SplitRun) -> object:
        segment = original(self)
        if swaps:
            swaps.pop(0)()
        return segment

    monkeypatch.setattr(SplitRun, "_next_segment", disturbed)
    assert read_all([whole(log)]) == stored


def test_a_compacted_log_has_holes_between_and_at_the_ends_of_segments(log: LogDir) -> None:
    first, second, third = log.bases[:3]
    keep_batches(log.path(first), 2)
    log.path(second).write_bytes(b"")
    for base in (first, second):
        log.path(base, ".index").unlink(missing_ok=True)
    stored = stored_rows(log.directory)
    assert [row[0] for row in stored][:3] == [0, 1, third]
    counters = ReadCounters()
    assert read_all([whole(log)], counters) == stored
    assert counters.missing == []
    for start, end in ((1, third), (2, third), (2, third + 1), (second, second + 1)):
        assert log.rows(start, end) == between(stored, start, end)


def test_a_reader_that_is_left_alone_closes_its_file(log: LogDir) -> None:
    before = open_files(log.directory)
    batches = SplitRun(whole(log), Reading(columns=COLUMNS), ReadCounters()).rows()
    assert next(batches).num_rows
    assert open_files(log.directory) != before
    del batches
    assert open_files(log.directory) == before


def open_files(directory: Path) -> list[str]:
    """The files of a directory that this process has open; threads of other tests have others."""
    found = []
    for descriptor in os.listdir("/dev/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/dev/fd/{descriptor}"))
    return sorted(path for path in found if path.startswith(str(directory)))


def test_damage_in_a_file_that_was_deleted_is_passed_over_all_the_same(
    log: LogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, path, split = stored_rows(log.directory), log.path(0), whole(log)
    log.corrupt(0, 300)
    original = SegmentReading.rows

    def without_file(self: SegmentReading, position: int) -> Iterator[object]:
        path.unlink(missing_ok=True)
        return original(self, position)

    monkeypatch.setattr(SegmentReading, "rows", without_file)
    counters = ReadCounters()
    rows = read_all([split], counters, on_corrupt=OnCorrupt.SKIP)
    ((start, end),) = counters.missing
    assert end - start == 1
    assert rows == [row for row in stored if row[0] != start]
