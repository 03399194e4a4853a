"""Leader epochs: which are kept, and where an epoch ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.storage.log.leader_epochs import LeaderEpochs

Entries = list[tuple[int, int]]


def epochs(directory: Path, entries: Entries) -> LeaderEpochs:
    cache = LeaderEpochs(str(directory))
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ([(0, 0), (1, 10)], [(0, 0), (1, 10)]),
        ([(0, 0), (0, 10)], [(0, 0)]),
        ([(0, 0), (1, 0)], [(1, 0)]),
        ([(1, 5), (2, 10), (3, 10)], [(1, 5), (3, 10)]),
        ([(1, 5), (2, 10), (3, 7)], [(1, 5), (3, 7)]),
        ([(1, 5), (2, 10), (1, 20)], [(1, 20)]),
        ([(1, 5), (2, 10), (2, 8)], [(1, 5), (2, 8)]),
        ([(5, 5), (3, 2)], [(3, 2)]),
    ],
)
def test_entries_in_the_way_of_a_new_one_go(tmp_path: Path, entries: Entries, kept: Entries) -> None:
    cache = epochs(tmp_path, entries)
    assert cache.entries() == kept
    again = LeaderEpochs(str(tmp_path))
    again.load(lambda message: pytest.fail(message))
    assert again.entries() == kept
    assert again.latest_epoch == kept[-1][0]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (5, (5, 99)), (6, (-1, -1))],
)
def test_an_epoch_ends_where_the_next_begins(tmp_path: Path, epoch: int, end: tuple[int, int]) -> None:
    cache = epochs(tmp_path, [(1, 4), (2, 10), (5, 20)])
    expected = (0, 4) if epoch == 0 else end
    assert cache.end_offset_for(epoch, 99) == expected


@pytest.mark.parametrize(("offset", "epoch"), [(3, -1), (4, 1), (9, 1), (10, 2), (1000, 5)])
def test_an_offset_has_the_epoch_it_was_written_in(tmp_path: Path, offset: int, epoch: int) -> None:
    assert epochs(tmp_path, [(1, 4), (2, 10), (5, 20)]).epoch_for(offset) == epoch


@pytest.mark.parametrize(("end", "kept"), [(21, 3), (20, 2), (11, 2), (10, 1), (4, 0), (0, 0), (99, 3)])
def test_truncating_the_end_drops_epochs_that_begin_there(tmp_path: Path, end: int, kept: int) -> None:
    entries = [(1, 4), (2, 10), (5, 20)]
    cache = epochs(tmp_path, entries)
    cache.truncate_from_end(end)
    assert cache.entries() == entries[:kept]
    assert cache.latest_epoch == (entries[kept - 1][0] if kept else -1)


@pytest.mark.parametrize(
    ("start", "kept"),
    [
        (3, [(1, 4), (2, 10), (5, 20)]),
        (4, [(1, 4), (2, 10), (5, 20)]),
        (7, [(1, 7), (2, 10), (5, 20)]),
        (10, [(2, 10), (5, 20)]),
        (19, [(2, 19), (5, 20)]),
        (50, [(5, 50)]),
    ],
)
def test_the_epoch_that_spans_the_log_start_begins_there(tmp_path: Path, start: int, kept: Entries) -> None:
    cache = epochs(tmp_path, [(1, 4), (2, 10), (5, 20)])
    cache.truncate_from_start(start)
    assert cache.entries() == kept


def test_a_checkpoint_that_makes_no_sense_is_reported_and_empty(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n5\n1 2\n")
    reports: list[str] = []
    cache = LeaderEpochs(str(tmp_path))
    cache.load(reports.append)
    assert cache.entries() == []
    assert len(reports) == 1
    assert "leader epochs are lost" in reports[0]


def test_clearing_leaves_an_empty_checkpoint(tmp_path: Path) -> None:
    cache = epochs(tmp_path, [(1, 4)])
    cache.clear()
    assert cache.latest_epoch == -1
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n0\n"
