"""Reading of splits against the plain codecs: every range, every cut, hints right and wrong."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch import iter_batches
from kcli.spark.decode.arrow_columns import arrow_schema
from kcli.spark.source.log_dirs.log_dirs_reader import SplitRun
from kcli.spark.split import COLUMNS, ReadCounters, Reading
from tests.spark.source.log_dirs.log_dir import LogDir, between, read_all, stored_rows
from tests.storage.log_harness import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> LogDir:
    """Several segments of batches of every codec and of different sizes."""
    log = LogDir(tmp_path_factory.mktemp("logs") / "node")
    for number in range(40):
        values = [b"%d/%d " % (number, each) * (each % 4) for each in range(number % 5 + 1)]
        log.append(*values, None, codec=Codec(number % 5), timestamp=NOW_MS + number * 10, step_ms=3)
    return log.close()


def test_every_range_gives_the_rows_between_its_offsets(mixed: LogDir) -> None:
    start, end, _ = mixed.ends()
    rows = stored_rows(mixed.directory)
    assert (start, end) == (0, len(rows))
    assert len(mixed.names(".log")) == 3
    for first in range(0, end, 7):
        for last in range(first + 1, end + 1, 5):
            assert mixed.rows(first, last) == between(rows, first, last)


def test_a_split_at_every_offset_gives_the_same_rows_as_none(mixed: LogDir) -> None:
    end = mixed.ends()[1]
    rows = stored_rows(mixed.directory)
    (whole,) = mixed.splits(0, end, split_bytes=2**40)
    for cut in range(1, end):
        halves = replace(whole, end=cut), replace(whole, start=cut)
        assert read_all(halves) == rows
        assert read_all([*mixed.splits(0, cut), *mixed.splits(cut, end)]) == rows


def test_exactly_the_columns_asked_for_are_there(mixed: LogDir) -> None:
    (split,) = mixed.splits(0, 3)
    for columns in (COLUMNS, COLUMNS[:-1], ("offset", "topic", "partition"), ("value",)):
        batches = list(mixed.source().reader().read(split, Reading(columns=columns), ReadCounters()))
        assert [batch.schema for batch in batches] == [arrow_schema(columns)] * len(batches)
        assert sum(batch.num_rows for batch in batches) == 3
    (batch,) = mixed.source().reader().read(split, Reading(columns=("topic", "partition")), ReadCounters())
    assert batch.to_pylist() == [{"topic": "orders", "partition": 0}] * 3


@pytest.mark.parametrize("size", [1, 100, 333, 1000, 2500, 10**6])
def test_planned_splits_cover_the_range_once_and_are_cut_between_batches(mixed: LogDir, size: int) -> None:
    end = mixed.ends()[1]
    rows = stored_rows(mixed.directory)
    starts = {
        batch.base_offset
        for path in mixed.directory.glob("*.log")
        for batch in iter_batches(path.read_bytes())
    }
    for first, last in ((0, end), (3, end - 4), (17, 60)):
        splits = mixed.splits(first, last, split_bytes=size)
        assert (splits[0].start, splits[-1].end) == (first, last)
        assert all(one.end == other.start for one, other in pairwise(splits))
        assert all(split.start in starts for split in splits[1:])
        assert read_all(splits) == between(rows, first, last)
        total = sum(split.size_bytes for split in splits)
        assert len(splits) == 1 if size >= total else len(splits) > 1
        if size == 1:
            assert len(splits) == len([one for one in starts if first < one < last]) + 1


@pytest.mark.parametrize(
    "hint",
    [
        {"segment": None, "position": 0},
        {"segment": 0, "position": 0},
        {"segment": 0, "position": 10**9},
        {"position": 7},
        {"segment": 12345, "position": 61},
    ],
)
def test_a_hint_that_is_wrong_costs_time_only(mixed: LogDir, hint: dict[str, int | None]) -> None:
    rows = stored_rows(mixed.directory)
    for split in mixed.splits(0, mixed.ends()[1], split_bytes=1000):
        wrong = replace(split, **hint)  # type: ignore[arg-type]
        assert read_all([wrong]) == between(rows, split.start, split.end)


def test_a_hint_behind_the_offset_is_not_believed(mixed: LogDir) -> None:
    rows, splits = stored_rows(mixed.directory), mixed.splits(0, mixed.ends()[1], split_bytes=500)
    for one, other in pairwise(splits):
        wrong = replace(one, segment=other.segment, position=other.position)
        assert read_all([wrong]) == between(rows, one.start, one.end)


def test_an_entry_larger_than_the_window_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.spark.source.log_dirs.log_dirs_reader.WINDOW_BYTES", 64)
    log = LogDir(tmp_path / "node")
    for size in (10, 1800, 50, 61, 900, 1):
        log.append(b"x" * size)
    log.close()
    assert log.rows(0, 6) == stored_rows(log.directory)


@pytest.mark.parametrize("window", [61, 100, 171, 500])
def test_windows_of_any_size_give_the_same_rows(
    mixed: LogDir, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.spark.source.log_dirs.log_dirs_reader.WINDOW_BYTES", window)
    counters = ReadCounters()
    splits = mixed.splits(0, mixed.ends()[1], split_bytes=2**40)
    assert read_all(splits, counters) == stored_rows(mixed.directory)
    assert counters.rows == len(stored_rows(mixed.directory))
    assert counters.bytes_read == sum(path.stat().st_size for path in mixed.directory.glob("*.log"))


def test_what_was_read_through_is_let_go_of_at_once(tmp_path: Path) -> None:
    log = LogDir(tmp_path)
    log.fill(5)
    log.close()
    (split,) = log.splits(0, 5, split_bytes=2**40)
    run = SplitRun(split, Reading(), ReadCounters())
    gatherer = weakref.ref(run.gatherer)
    gc.disable()
    try:
        assert sum(batch.num_rows for batch in run.rows()) == 5
        del run
        assert gatherer() is None
    finally:
        gc.enable()
