"""Loading after a clean stop, after a crash, and with leftover files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.records.batch import iter_batches
from kcli.storage.log.file_records import FileRecords
from kcli.storage.log.log_config import LogConfig
from kcli.storage.log.log_segment import LogSegment
from kcli.storage.log.segment_indexes import SegmentIndexes
from tests.storage.log.filled_log import VALUES, index_entries
from tests.storage.log_harness import NOW_MS, LogHarness, batch_of

# --- clean


def test_a_clean_start_finds_everything_and_scans_nothing(
    filled: LogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.append(b"p", producer=(7, 0, 0), leader_epoch=5)
    filled.stop()
    monkeypatch.setattr(LogSegment, "recover", lambda *_: pytest.fail("recovered"))
    monkeypatch.setattr(SegmentIndexes, "rebuild", lambda *_: pytest.fail("rebuilt"))
    monkeypatch.setattr(FileRecords, "scan", lambda *_: pytest.fail("scanned"))
    filled.start()
    assert filled.log.log_end_offset == filled.log.recovery_point == 41
    assert filled.log.leader_epochs.entries() == [(0, 0), (5, 40)]
    assert [entry.producer_id for entry in filled.log.active_producers()] == [7]
    assert filled.reports == []


def test_an_empty_log_is_reopened(log: LogHarness) -> None:
    log.reopen()
    log.crash()
    assert log.log.log_end_offset == 0
    log.fill(1)
    assert log.values() == VALUES[:1]


def test_closing_leaves_finished_files(filled: LogHarness) -> None:
    filled.stop()
    entries = index_entries(filled)
    for base in filled.bases:
        assert filled.path(base, ".index").stat().st_size == 8 * len(entries.pop(0))
        assert filled.path(base, ".timeindex").stat().st_size == 12 * len(entries.pop(0))
    assert filled.path(40, ".snapshot").exists()


def test_a_closed_log_opens_many_times(filled: LogHarness) -> None:
    for _ in range(3):
        filled.reopen()
        assert filled.values() == VALUES[:40]
    assert filled.reports == []


@pytest.mark.parametrize("sizes", [(9000,), (2000, 10, 9000), (10,) * 20 + (9000,)])
def test_an_index_is_empty_where_less_than_its_interval_lies_before_the_last_batch(
    tmp_path: Path, sizes: tuple[int, ...]
) -> None:
    log = LogHarness(tmp_path, LogConfig())
    for size in sizes:
        log.append(bytes(size))
    log.stop()
    assert log.path(0, ".index").read_bytes() == b""
    log.start()
    assert log.values() == [bytes(size) for size in sizes]
    assert log.reports == []


@given(st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=6), min_size=2, max_size=12))
def test_an_index_does_not_depend_on_restarts(rounds: list[list[int]]) -> None:
    """Produce, stop, start, and so on: the entries are those of a log that never stopped."""
    with tempfile.TemporaryDirectory() as root:
        logs = []
        for name in ("restarted", "running"):
            (Path(root) / name).mkdir()
            logs.append(LogHarness(Path(root) / name, LogConfig()))
        restarted = logs[0]
        for sizes in rounds:
            for size in sizes:
                for log in logs:
                    log.append(bytes(size))
            restarted.stop()
            restarted.start()
        entries = [log.log.segments.active.indexes.offsets.entries() for log in logs]
        assert entries[0] == entries[1]
        assert restarted.reports == []
        for log in logs:
            log.stop()


def test_entries_that_kafka_did_not_write_are_added_without_a_word(tmp_path: Path) -> None:
    """Kafka forgets at a stop how much it has appended since the last entry."""
    log = LogHarness(tmp_path, LogConfig())
    for _ in range(6):
        log.append(bytes(4000))
    log.stop()
    entries = log.path(0, ".index").read_bytes()
    log.path(0, ".index").write_bytes(b"")
    log.start()
    assert log.values() == [bytes(4000)] * 6
    assert log.reports == []
    log.stop()
    assert log.path(0, ".index").read_bytes() == entries


@pytest.mark.parametrize("sizes", [(2000, 2000, 2000) * 16, (10, *(9000,) * 17)])
def test_an_index_that_has_lost_its_entries_is_made_again(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    log = LogHarness(tmp_path, LogConfig())
    for size in sizes:
        log.append(bytes(size))
    log.stop()
    whole = log.path(0, ".index").read_bytes()
    assert len(whole) >= 16 * 8
    log.path(0, ".index").write_bytes(b"")
    log.start()
    assert len(log.reports) == 1
    assert "no entries for" in log.reports[0]
    log.stop()
    assert log.path(0, ".index").read_bytes() == whole


# --- unclean


def test_a_crash_loses_nothing_that_was_written(filled: LogHarness) -> None:
    filled.crash()
    assert filled.values() == VALUES[:40]
    filled.fill(10)
    assert filled.values() == VALUES[:50]
    assert filled.log.recovery_point == 0


def test_recovery_rebuilds_the_indexes_that_were_lost(filled: LogHarness) -> None:
    before = index_entries(filled)
    filled.log.segments.active.indexes.times.maybe_append(NOW_MS, 39)
    for name in filled.names("index"):
        os.unlink(filled.directory / name)
    filled.crash()
    after = index_entries(filled)
    assert after[:-1] == before[:-1]
    assert after[-1] == [(NOW_MS, filled.bases[-1])]


def test_a_torn_batch_is_dropped_and_told(filled: LogHarness) -> None:
    filled.log.close_handlers()
    filled.cut(filled.bases[-1], 10)
    filled.start(is_clean=False)
    assert filled.values() == VALUES[:39]
    (report,) = [report for report in filled.reports if "dropped" in report]
    assert filled.path(filled.bases[-1]).name in report
    filled.fill(1)
    assert filled.values() == VALUES[:40]


def test_zeros_behind_the_last_batch_are_dropped(filled: LogHarness) -> None:
    filled.log.close_handlers()
    with filled.path(filled.bases[-1]).open("ab") as file:
        file.write(bytes(5000))
    filled.start(is_clean=False)
    assert filled.values() == VALUES[:40]
    assert any("dropped 5000 bytes" in report for report in filled.reports)


def test_damage_drops_what_follows_in_the_segment_and_all_later_ones(filled: LogHarness) -> None:
    first, second, third = filled.bases
    segment = filled.log.segments.floor(second)
    assert segment is not None
    entry = segment.find(second + 3)
    assert entry is not None
    filled.log.close_handlers()
    filled.corrupt(second, entry.position + 70)
    filled.start(is_clean=False)
    assert filled.values() == VALUES[: second + 3]
    assert filled.bases == [first, second]
    assert not filled.path(third).exists()
    assert not filled.path(third, ".snapshot").exists()
    (report,) = [report for report in filled.reports if "dropped" in report]
    assert "1 later segments" in report
    filled.fill(10)
    assert filled.values() == VALUES[: second + 13]


def test_only_what_was_not_flushed_is_checked(filled: LogHarness) -> None:
    plan = filled.log.plan_due_flush(NOW_MS)
    assert plan is not None
    plan.run()
    filled.log.commit_flush(plan, now_ms=NOW_MS)
    filled.checkpoint()
    filled.log.close_handlers()
    assert filled.recovery_point == filled.bases[-1]
    filled.corrupt(0, 70)
    filled.corrupt(filled.bases[-1], -1)
    filled.start(is_clean=False)
    assert filled.log.log_end_offset == 39
    assert filled.log.recovery_point == filled.recovery_point
    assert filled.values(filled.bases[1]) == VALUES[filled.bases[1] : 39]


def test_the_recovery_point_is_never_beyond_the_end(filled: LogHarness) -> None:
    filled.log.flush(now_ms=NOW_MS)
    filled.checkpoint()
    filled.log.close_handlers()
    filled.cut(filled.bases[-1], 10)
    filled.start(is_clean=False)
    assert filled.log.recovery_point == filled.log.log_end_offset == 39


def test_a_crash_while_recovering_costs_nothing(filled: LogHarness) -> None:
    for _ in range(3):
        filled.crash()
    assert filled.values() == VALUES[:40]


def test_epochs_are_read_back_from_the_batches(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=1)
    log.append(b"b", leader_epoch=4)
    (log.directory / "leader-epoch-checkpoint").unlink()
    log.crash()
    assert log.log.leader_epochs.entries() == [(1, 0), (4, 1)]


def test_epochs_above_the_end_go(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=1)
    log.append(b"b" * 100, leader_epoch=4)
    log.log.close_handlers()
    log.cut(0, 5)
    log.start(is_clean=False)
    assert log.log.leader_epochs.entries() == [(1, 0)]


# --- start offsets and leftovers


def test_a_log_that_ends_below_its_start_begins_anew(filled: LogHarness) -> None:
    filled.stop()
    filled.log_start_offset = 100
    filled.start()
    assert (filled.log.log_start_offset, filled.log.log_end_offset) == (100, 100)
    assert filled.bases == [100]
    assert filled.log.leader_epochs.entries() == []
    assert any("it restarts there, empty" in report for report in filled.reports)
    filled.fill(1)
    filled.reopen()
    assert filled.values() == [b"100-" + b"x" * 50]


def test_a_lost_log_file_does_not_hide_the_start(filled: LogHarness) -> None:
    filled.stop()
    for name in filled.names():
        if name[0].isdigit():
            os.unlink(filled.directory / name)
    filled.log_start_offset = 7
    filled.start()
    assert (filled.log.log_start_offset, filled.log.log_end_offset) == (7, 7)


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_files_on_their_way_out_go(filled: LogHarness, suffix: str) -> None:
    filled.stop()
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(filled.path(0, kind), filled.path(0, kind + suffix))
    filled.start()
    assert filled.names(suffix) == []
    assert filled.values() == VALUES[:40]


def swap(log: LogHarness, base: int, source: int) -> None:
    """Create a finished compaction with the content of segment `source`."""
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(log.path(source, kind), log.path(base, kind + ".swap"))


def test_a_finished_compaction_takes_its_place(filled: LogHarness) -> None:
    filled.stop()
    first, second, third = filled.bases
    data = filled.path(first).read_bytes()
    kept = [batch.to_bytes() for batch in iter_batches(data)]
    filled.path(first, ".log.swap").write_bytes(b"".join(kept[-2:]))
    filled.start()
    assert filled.bases == [first, second, third]
    assert filled.values() == VALUES[second - 2 : 40]
    assert any("interrupted compaction" in report for report in filled.reports)
    assert filled.names(".swap") == []


def test_a_compaction_of_several_segments_replaces_all_of_them(filled: LogHarness) -> None:
    filled.stop()
    first, second, third = filled.bases
    merged = filled.path(first).read_bytes() + filled.path(second).read_bytes()
    filled.path(first, ".log.swap").write_bytes(merged)
    filled.start()
    assert filled.bases == [first, third]
    assert filled.values() == VALUES[:40]


def test_an_unfinished_split_is_undone(filled: LogHarness) -> None:
    filled.stop()
    first, second, _ = filled.bases
    swap(filled, second, second)
    filled.path(first, ".log.cleaned").write_bytes(b"")
    filled.start()
    assert filled.names(".swap") == filled.names(".cleaned") == []
    assert filled.values() == VALUES[:40]


@pytest.mark.parametrize("damage", ["cut", "head", "longer", "index and cut"])
def test_a_last_segment_that_changed_while_stopped_is_recovered(filled: LogHarness, damage: str) -> None:
    filled.stop()
    base = filled.bases[-1]
    left = 39
    match damage:
        case "cut":
            filled.cut(base, 10)
        case "head":
            filled.corrupt(base, 16 - len(batch_of(VALUES[39])))
        case "longer":
            with filled.path(base).open("ab") as file:
                file.write(b"garbage" * 10)
            left = 40
        case "index and cut":
            os.truncate(filled.path(base), 60)
            left = base
    filled.start()
    assert filled.values() == VALUES[:left]
    assert any("changed after a clean stop" in report for report in filled.reports)
    assert any("dropped" in report for report in filled.reports)
    filled.fill(3)
    filled.reopen()
    assert len(filled.values()) == left + 3
