"""Starting again: after a clean stop, after a crash, and after damage of every kind."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.error_codes import KafkaError
from kcli.protocol.record_batch import iter_batches
from kcli.protocol.record_batch_header import set_base_offset_and_epoch
from kcli.storage.file_records import FileRecords
from kcli.storage.flush_plan import commit_flush, flush, plan_due_flush
from kcli.storage.log_config import LogConfig
from kcli.storage.log_segment import LogSegment
from kcli.storage.segment_indexes import SegmentIndexes
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

APACHE = Path(__file__).parent.parent / "golden" / "storage" / "apache-4.3.1" / "golden-topic-0"
VALUES = [b"%d-" % number + b"x" * 50 for number in range(100)]


@pytest.fixture
def filled(log: LogHarness) -> LogHarness:
    """A log of 40 records in three segments, nothing of it flushed."""
    log.fill(40)
    assert len(log.bases) == 3
    return log


def index_entries(log: LogHarness) -> list[list[tuple[int, int]]]:
    """Return the entries of both indexes of every segment."""
    return [
        entries
        for segment in log.log.segments
        for entries in (segment.indexes.offsets.entries(), segment.indexes.times.entries())
    ]


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
    plan = plan_due_flush(filled.log, NOW_MS)
    assert plan is not None
    plan.run()
    commit_flush(filled.log, plan, now_ms=NOW_MS)
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
    flush(filled.log, now_ms=NOW_MS)
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


# --- producers


def producer_batches(log: LogHarness, start: int, end: int) -> None:
    for sequence in range(start, end):
        log.append(b"%d" % sequence, producer=(7, 0, sequence))


@pytest.mark.parametrize("rolled_after", [None, 1, 3, 5])
def test_after_a_crash_all_batches_in_flight_are_recognised(
    log: LogHarness, rolled_after: int | None
) -> None:
    for sequence in range(8):
        producer_batches(log, sequence, sequence + 1)
        if rolled_after is not None and sequence == 7 - rolled_after:
            log.log.roll(now_ms=NOW_MS)
            flush(log.log, now_ms=NOW_MS)
            log.checkpoint()
    log.crash()
    for sequence in range(3, 8):
        info = log.append(b"%d" % sequence, producer=(7, 0, sequence))
        assert (info.duplicate, info.first_offset) == (True, sequence)
    producer_batches(log, 8, 9)
    assert len(log.values()) == 9


def test_a_producer_goes_on_after_a_clean_stop(log: LogHarness) -> None:
    producer_batches(log, 0, 5)
    log.reopen()
    assert log.append(b"4", producer=(7, 0, 4)).duplicate
    producer_batches(log, 5, 6)


def test_damaged_snapshots_are_deleted_and_older_ones_used(log: LogHarness) -> None:
    producer_batches(log, 0, 60)
    assert len(log.bases) > 2
    log.stop()
    newest = max(log.names(".snapshot"))
    log.corrupt(int(newest[:20]), 12, ".snapshot")
    log.start()
    assert log.append(b"59", producer=(7, 0, 59)).duplicate
    assert any("damaged producer snapshot" in report for report in log.reports)


def test_without_any_snapshot_all_batches_are_replayed(log: LogHarness) -> None:
    producer_batches(log, 0, 60)
    log.stop()
    for name in log.names(".snapshot"):
        os.unlink(log.directory / name)
    log.start()
    assert log.append(b"59", producer=(7, 0, 59)).duplicate
    with pytest.raises(KafkaError):
        log.append(b"x", producer=(7, 0, 77))


def test_snapshots_of_no_segment_go(filled: LogHarness) -> None:
    filled.stop()
    shutil.copy(filled.path(40, ".snapshot"), filled.path(3, ".snapshot"))
    filled.start()
    assert not filled.path(3, ".snapshot").exists()
    assert filled.path(40, ".snapshot").exists()


def test_open_transactions_survive_a_restart(log: LogHarness) -> None:
    log.append(b"a")
    log.append(b"b", producer=(7, 0, 0), is_transactional=True)
    log.append(b"c")
    for restart in (log.reopen, log.crash):
        restart()
        assert log.log.last_stable_offset == 1


# --- indexes


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "empty", "zeroed", "odd size", "garbage"])
@pytest.mark.parametrize("segment", [0, -1])
def test_a_damaged_index_is_rebuilt(filled: LogHarness, suffix: str, damage: str, segment: int) -> None:
    filled.stop()
    expected = index_entries(filled)
    base = filled.bases[segment]
    path = filled.path(base, suffix)
    size = path.stat().st_size
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "zeroed":
            path.write_bytes(bytes(size))
        case "odd size":
            path.write_bytes(path.read_bytes() + b"\x01")
        case "garbage":
            path.write_bytes(b"\xfe" * size)
    filled.start()
    assert filled.values() == VALUES[:40]
    assert index_entries(filled) == expected
    assert len([report for report in filled.reports if "rebuilding" in report]) == 1
    filled.reopen()
    assert index_entries(filled) == expected


@pytest.mark.parametrize("position", [3, 7, 11, 15])
def test_an_index_that_points_between_batches_is_rebuilt_when_met(filled: LogHarness, position: int) -> None:
    filled.stop()
    expected = index_entries(filled)
    path = filled.path(0, ".index")
    data = bytearray(path.read_bytes())
    data[position] ^= 0x03
    path.write_bytes(data)
    filled.start()
    for offset in range(40):
        assert filled.values(offset) == VALUES[offset:40]
    assert filled.values() == VALUES[:40]
    if any("where no batch" in report for report in filled.reports):
        assert index_entries(filled) == expected


def test_a_damaged_transaction_index_is_replayed_from_the_log(tmp_path: Path) -> None:
    log = copy_of_apaches(tmp_path)
    log.stop()
    before = log.path(270, ".txnindex").read_bytes()
    log.corrupt(270, 1, ".txnindex")
    log.start()
    assert log.path(270, ".txnindex").read_bytes() == before
    assert any("transaction index" in report for report in log.reports)
    assert len(log.log.active_producers()) == 2
    assert log.log.last_stable_offset == 495
    log.reopen()
    assert files_of(log) == apaches_files()


def test_an_index_without_a_log_goes(filled: LogHarness) -> None:
    filled.stop()
    for suffix in (".index", ".timeindex", ".txnindex"):
        filled.path(77, suffix).write_bytes(b"")
    filled.start()
    assert not [name for name in filled.names() if name.startswith(f"{77:020d}")]
    assert len(filled.reports) == 3


def test_preallocated_index_files_of_apache_kafka_are_read(filled: LogHarness) -> None:
    filled.stop()
    expected = index_entries(filled)
    for name in filled.names("index"):
        os.truncate(filled.directory / name, 10 * 1024 * 1024 // 24 * 24)
    filled.start()
    assert filled.values() == VALUES[:40]
    assert index_entries(filled) == expected
    filled.reopen()
    assert all((filled.directory / name).stat().st_size < 1000 for name in filled.names("index"))


# --- start offsets and leftovers


def test_a_log_that_ends_below_its_start_begins_anew(filled: LogHarness) -> None:
    filled.stop()
    filled.log_start_offset = 100
    filled.start()
    assert (filled.log.log_start_offset, filled.log.log_end_offset) == (100, 100)
    assert filled.bases == [100]
    assert filled.log.leader_epochs.entries() == []
    assert any("begins anew" in report for report in filled.reports)
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
    """Make a finished compaction of what the segment `source` holds."""
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


# --- Apache Kafka's own


def copy_of_apaches(tmp_path: Path) -> LogHarness:
    """Return a log started on a copy of a directory that Apache Kafka 4.3.1 wrote and closed."""
    shutil.copytree(APACHE, tmp_path / "orders-0")
    return LogHarness(tmp_path, LogConfig(segment_ms=60_000, index_interval_bytes=600))


def apaches_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in APACHE.iterdir()}


def files_of(log: LogHarness) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in log.directory.iterdir()}


def test_a_directory_of_apache_kafka_is_served_and_left_as_it_was(tmp_path: Path) -> None:
    log = copy_of_apaches(tmp_path)
    assert log.log.log_end_offset == log.log.last_stable_offset == 495
    assert log.bases == [0, 120, 270]
    assert len(log.records()) == 495
    assert len(log.log.active_producers()) == 2
    log.reopen()
    assert log.reports == []
    assert files_of(log) == apaches_files()


def test_recovery_makes_the_same_files_as_apache_kafka(tmp_path: Path) -> None:
    log = copy_of_apaches(tmp_path)
    for name in log.names():
        if not name.endswith((".log", "partition.metadata")):
            os.unlink(log.directory / name)
    log.crash()
    log.log.close(now_ms=NOW_MS)
    assert files_of(log) == apaches_files()


@pytest.mark.parametrize("as_leader", [False, True])
def test_the_same_records_make_the_same_files_as_apache_kafkas(tmp_path: Path, as_leader: bool) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_ms=60_000, index_interval_bytes=600))
    for path in sorted(APACHE.glob("*.log")):
        for batch in iter_batches(path.read_bytes()):
            data = bytearray(batch.to_bytes())
            if as_leader and not batch.is_control:
                set_base_offset_and_epoch(data, 0, 0, -1)
                log.append_batch(data, leader_epoch=0)
            else:
                log.log.append_as_follower(data, now_ms=NOW_MS)
    log.log.close(now_ms=NOW_MS)
    expected = apaches_files()
    del expected["partition.metadata"]
    assert files_of(log) == expected


def test_preallocated_segments_are_trimmed_by_recovery(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, preallocate=True))
    log.append_batch(batch_of(b"a"))
    assert log.path(0).stat().st_size == SMALL.segment_bytes
    log.crash()
    assert log.values() == [b"a"]
    assert log.path(0).stat().st_size == log.log.size_bytes
