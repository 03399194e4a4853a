"""Copies of damaged partitions: what is kept, what is told, and that a broker takes them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.forensics.entries.damage import Damage, DamageKind
from kcli.forensics.entries.segment_scan import scan
from kcli.forensics.repair.partition_repair import (
    PartitionRepair,
    RepairMode,
    find_segments,
    repair_partition,
    repair_segment,
)
from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.protocol.records.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.storage.checkpoints import read_epochs, write_partition_metadata
from kcli.storage.producers.producer_snapshot import decode_snapshot
from kcli.storage.producers.producer_state import AppendOrigin
from tests.forensics.segment_makers import Harm, Shape, harm, harms, make_entries, make_entry, shapes
from tests.storage.log_harness import LogHarness, batch_of
from tests.support.hostile_records import batch as forged_batch

pytestmark = pytest.mark.usefixtures("at_rest")

CUT, CARVE = RepairMode.CUT, RepairMode.CARVE
K = DamageKind


class Copied:
    """A log and its copy in another directory."""

    def __init__(self, log: LogHarness, root: Path) -> None:
        self.log = log
        self.target = root / "orders-0"
        log.stop()

    def repair(self, mode: RepairMode) -> PartitionRepair:
        """Repair, and see that the original is as it was."""
        source, target = str(self.log.directory), str(self.target)
        before = contents(self.log.directory)
        report = repair_partition(source, target, mode=mode, config=self.log.config)
        assert contents(self.log.directory) == before
        return report

    def reload(self) -> LogHarness:
        """The copy, loaded by a broker that was stopped properly."""
        loaded = LogHarness(self.target.parent, self.log.config)
        assert loaded.reports == []
        return loaded


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}


@pytest.fixture
def copied(log: LogHarness, tmp_path: Path) -> Copied:
    """A log of seven segments of one leader, nothing wrong with it."""
    log.fill(100)
    (tmp_path / "out").mkdir()
    return Copied(log, tmp_path / "out")


# --- partitions


@pytest.mark.parametrize("mode", RepairMode)
def test_a_sound_partition_is_copied_whole(copied: Copied, mode: RepairMode) -> None:
    write_partition_metadata(str(copied.log.directory), bytes(range(16)))
    report = copied.repair(mode)
    assert (report.dropped_bytes, report.damage_count, report.notes, report.end_offset) == (0, 0, (), 100)
    ours, theirs = contents(copied.target), contents(copied.log.directory)
    assert {name: data for name, (data, _) in ours.items()} == {
        name: data for name, (data, _) in theirs.items() if not name.endswith(".snapshot") or "100" in name
    }
    for name, (_, modified) in ours.items():
        assert not name.endswith(".log") or modified == theirs[name][1]
    assert copied.reload().values() == copied.log.values()


def test_what_is_cut_is_what_recovery_leaves(copied: Copied, tmp_path: Path) -> None:
    base = copied.log.bases[3]
    copied.log.corrupt(base, 700)
    recovered = tmp_path / "recovered" / "orders-0"
    shutil.copytree(copied.log.directory, recovered)
    report = copied.repair(CUT)
    broker = LogHarness(recovered.parent, copied.log.config)
    broker.log.close_handlers()
    broker.start(is_clean=False)
    broker.stop()
    names = {name for name in contents(recovered) if not name.endswith((".snapshot", ".deleted"))}
    assert names == {name for name in contents(copied.target) if not name.endswith(".snapshot")}
    for name in names:
        assert (copied.target / name).read_bytes() == (recovered / name).read_bytes(), name
    assert [segment.is_behind_cut for segment in report.segments] == [False] * 4 + [True] * 3
    assert report.end_offset == broker.log.log_end_offset
    assert report.segments[3].last_offset == report.end_offset - 1


def test_what_is_carved_is_all_but_the_damaged(copied: Copied) -> None:
    base = copied.log.bases[3]
    values = copied.log.values()
    copied.log.corrupt(base, 700)
    report = copied.repair(CARVE)
    (damage,) = report.segments[3].damages
    assert damage.kind is K.BAD_CRC
    assert report.segments[3].dropped_entries == report.damage_count == 1
    assert report.dropped_bytes == damage.size_bytes
    kept = copied.reload()
    assert kept.values() == [value for n, value in enumerate(values) if n != damage.offset]
    assert [record.offset for record in kept.records()] == [n for n in range(100) if n != damage.offset]


def test_a_segment_of_which_nothing_is_left_has_no_file_unless_it_is_the_first(copied: Copied) -> None:
    for base in copied.log.bases[:2]:
        copied.log.path(base).write_bytes(b"\xee" * 2000)
    first, second = copied.log.bases[:2]
    report = copied.repair(CARVE)
    assert report.segments[0].target is not None
    assert report.segments[1].target is None
    loaded = copied.reload()
    assert loaded.bases == [first, *copied.log.bases[2:]]
    assert second not in loaded.bases


def test_damage_at_the_very_beginning_leaves_an_empty_log_that_begins_there(copied: Copied) -> None:
    copied.log.corrupt(0, 30)
    report = copied.repair(CUT)
    assert (report.end_offset, report.kept_bytes) == (0, 0)
    assert copied.reload().values() == []


def test_reserved_space_is_left_out_and_not_counted_as_lost(copied: Copied) -> None:
    active = copied.log.path(copied.log.bases[-1])
    size = active.stat().st_size
    os.truncate(active, size + 5000)
    report = copied.repair(CUT)
    assert (report.damage_count, report.dropped_bytes) == (0, 0)
    assert report.segments[-1].reserved_bytes == 5000
    assert os.path.getsize(copied.target / active.name) == size


def test_an_offset_flipped_far_ahead_does_not_cost_the_next_segment(copied: Copied) -> None:
    base = copied.log.bases[2]
    last = [item.position for item in scan(str(copied.log.path(base)))][-1]
    copied.log.corrupt(base, last + 5)
    report = copied.repair(CARVE)
    assert [segment.dropped_entries for segment in report.segments] == [0, 0, 1, 0, 0, 0, 0]
    assert [damage.kind for damage in report.segments[2].damages] == [K.BAD_OFFSET]


def test_segments_that_overlap_keep_each_offset_once(copied: Copied) -> None:
    second = copied.log.path(copied.log.bases[1])
    data, values = copied.log.path(0).read_bytes(), copied.log.values()
    second.write_bytes(data + second.read_bytes())
    report = copied.repair(CARVE)
    assert report.segments[1].dropped_bytes == len(data)
    assert {damage.kind for damage in report.segments[1].damages} <= {K.BAD_OFFSET, K.OFFSET_GOING_BACK}
    assert copied.reload().values() == values


def test_a_range_that_is_there_twice_is_kept_once(tmp_path: Path) -> None:
    entries = make_entries([Shape()] * 6)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join([*entries[:4], *entries[1:]]))
    report = repair_segment(str(path), str(tmp_path / "out"), mode=CARVE)
    assert (tmp_path / "out" / path.name).read_bytes() == b"".join(entries)
    assert [damage.kind for damage in report.segments[0].damages] == [K.OFFSET_GOING_BACK] * 3


def test_leader_epochs_are_kept_if_the_batches_agree_and_else_made_of_them(
    log: LogHarness, tmp_path: Path
) -> None:
    for epoch in (2, 2, 5, 9):
        log.append(b"value", leader_epoch=epoch)
    copied = Copied(log, tmp_path / "out")
    checkpoint = log.directory / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n4\n2 0\n4 1\n5 2\n9 3\n")
    assert copied.repair(CUT).notes == ()
    assert read_epochs(str(copied.target / checkpoint.name)) == [(2, 0), (4, 1), (5, 2), (9, 3)]
    shutil.rmtree(copied.target)
    checkpoint.write_text("0\n1\n9 7\n")
    assert len(copied.repair(CUT).notes) == 1
    assert read_epochs(str(copied.target / checkpoint.name)) == [(2, 0), (5, 2), (9, 3)]


# --- transactions


def transact(log: LogHarness, producer_id: int, sequence: int, end: ControlRecordType | None) -> None:
    log.append_batch(
        batch_of(b"value", producer=(producer_id, 0, sequence), is_transactional=True),
        origin=AppendOrigin.COORDINATOR,
    )
    if end is not None:
        marker = end_txn_batch(EndTxnMarker(end, 0), timestamp=1, producer_id=producer_id, producer_epoch=0)
        log.append_batch(marker, origin=AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("mode", RepairMode)
def test_transactions_come_with_their_index_and_the_state_of_the_producers(
    log: LogHarness, tmp_path: Path, mode: RepairMode
) -> None:
    transact(log, 7, 0, ControlRecordType.ABORT)
    transact(log, 8, 0, ControlRecordType.COMMIT)
    transact(log, 7, 1, ControlRecordType.ABORT)
    transact(log, 9, 0, None)
    copied = Copied(log, tmp_path / "out")
    report = copied.repair(mode)
    index = "00000000000000000000.txnindex"
    assert (copied.target / index).read_bytes() == (log.directory / index).read_bytes()
    assert [(open.producer_id, open.first_offset) for open in report.open_transactions] == [(9, 6)]
    snapshot = decode_snapshot((copied.target / "00000000000000000007.snapshot").read_bytes())
    assert [(entry.producer_id, entry.last_sequence) for entry in snapshot] == [(7, 1), (8, 0), (9, 0)]


def test_a_transaction_whose_end_is_lost_is_told(log: LogHarness, tmp_path: Path) -> None:
    transact(log, 7, 0, ControlRecordType.ABORT)
    transact(log, 8, 0, ControlRecordType.COMMIT)
    copied = Copied(log, tmp_path / "out")
    marker = [item.position for item in scan(str(log.path(0)))][1]
    log.corrupt(0, marker + 65)
    report = copied.repair(CARVE)
    assert [(open.producer_id, open.first_offset) for open in report.open_transactions] == [(7, 0)]


def test_what_cannot_follow_in_an_open_transaction_is_dropped(log: LogHarness, tmp_path: Path) -> None:
    transact(log, 7, 0, None)
    copied = Copied(log, tmp_path / "out")
    outside = batch_of(b"value", producer=(7, 0, 1))
    set_base_offset_and_epoch(outside, 0, 1, 0)
    with log.path(0).open("ab") as file:
        file.write(outside)
    report = copied.repair(CARVE)
    assert [damage.kind for damage in report.segments[0].damages] == [K.BAD_PRODUCER]
    assert report.end_offset == 1


# --- one segment


def test_a_segment_alone_is_copied_with_its_indexes(copied: Copied, tmp_path: Path) -> None:
    base = copied.log.bases[2]
    out = tmp_path / "one"
    report = repair_segment(str(copied.log.path(base)), str(out), mode=CARVE, config=copied.log.config)
    assert sorted(contents(out)) == sorted(
        f"{base:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")
    )
    for name in contents(out):
        assert (out / name).read_bytes() == (copied.log.directory / name).read_bytes()
    assert report.segments[0].is_whole


def test_records_that_are_bad_under_a_good_checksum_are_dropped_when_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    poison = forged_batch(b"not gzip", codec=1, base_offset=3)
    path.write_bytes(make_entry(Shape(), 0) + poison + make_entry(Shape(codec=Codec.ZSTD), 4))
    kept = repair_segment(str(path), str(tmp_path / "shallow"), mode=CARVE)
    assert kept.segments[0].is_whole
    report = repair_segment(str(path), str(tmp_path / "deep"), mode=CARVE, is_deep=True)
    assert [damage.kind for damage in report.segments[0].damages] == [K.UNDECODABLE_RECORDS]
    assert report.segments[0].kept_entries == 2


def test_an_entry_too_large_to_be_held_is_copied_too(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    entries = make_entries([Shape(), Shape(records=1, value_bytes=9 * 2**20), Shape()])
    path.write_bytes(b"".join(entries))
    repair_segment(str(path), str(tmp_path / "out"), mode=CUT)
    assert (tmp_path / "out" / path.name).read_bytes() == b"".join(entries)


@given(shapes(), st.lists(harms(), min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_copy_of_random_damage_is_sound(tmp_path: Path, made: list[Shape], done: list[Harm]) -> None:
    entries = make_entries(made)
    data = b"".join(entries)
    for each in done:
        data, _ = harm(data, each)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    kept = {}
    for mode in RepairMode:
        out = tmp_path / mode.value
        shutil.rmtree(out, ignore_errors=True)
        report = repair_segment(str(path), str(out), mode=mode)
        found = list(scan(str(out / path.name), segment_base=0))
        assert not any(isinstance(item, Damage) for item in found)
        kept[mode] = (out / path.name).read_bytes()
        (segment,) = report.segments
        assert len(found) == segment.kept_entries
        assert segment.kept_bytes + segment.dropped_bytes + segment.reserved_bytes == len(data)
        assert segment.is_whole or segment.damages
    assert kept[CARVE].startswith(kept[CUT])
    assert path.read_bytes() == data


# --- refusals


def test_a_directory_that_is_not_empty_is_refused_and_left_alone(copied: Copied) -> None:
    copied.target.mkdir()
    (copied.target / "mine").write_text("x")
    with pytest.raises(UsageError, match="is not an empty directory"):
        copied.repair(CUT)
    assert os.listdir(copied.target) == ["mine"]


def test_a_directory_inside_of_the_partition_is_refused(copied: Copied) -> None:
    copied.target = copied.log.directory / "repaired"
    with pytest.raises(UsageError, match="is inside of the directory to repair"):
        copied.repair(CUT)


@pytest.mark.parametrize("name", ["orders.log", "00000000000000000000.index"])
def test_what_is_not_named_like_a_segment_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a segment"):
        repair_segment(str(tmp_path / name), str(tmp_path / "out"), mode=CUT)


def test_a_directory_without_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no segments"):
        repair_partition(str(tmp_path), str(tmp_path / "out"), mode=CUT)


def test_after_a_failure_nothing_is_left(copied: Copied) -> None:
    copied.log.path(copied.log.bases[3]).unlink()
    os.mkdir(copied.log.path(copied.log.bases[3]))
    with pytest.raises(IsADirectoryError):
        repair_partition(str(copied.log.directory), str(copied.target), mode=CUT)
    assert not copied.target.exists()


def test_a_swap_counts_where_what_it_replaces_is_gone(tmp_path: Path) -> None:
    for name in ("0.log.swap", "5.log", "5.log.swap", "9.log.swap", "8.log.cleaned", "3.log.deleted"):
        (tmp_path / name).touch()
    assert [(base, os.path.basename(path)) for base, path in find_segments(str(tmp_path))] == [
        (0, "0.log.swap"),
        (5, "5.log"),
    ]
