"""Verification of a partition: the files around its segments, and what older brokers left in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.forensics.verification.findings import Finding, FindingKind
from kcli.forensics.verification.log_directory_checks import LogDirCheckpoints
from kcli.protocol.topics import TopicPartition
from kcli.storage.checkpoints import write_epochs, write_offsets
from tests.forensics.verification.sound_partition import ALL, found, kinds, problems, segment_files
from tests.storage.log_harness import SMALL, LogHarness
from tests.support.harms import entries_of_log

# --- the old conventions


def rewrite_offsets(directory: Path, change: Callable[[int, list[tuple[int, int]]], int]) -> Path:
    """Give every entry of the first index another key; `change` gets its number and the batches behind it."""
    log = segment_files(directory, ".log")[0].read_bytes()
    batches = [
        (
            entry.start,
            int.from_bytes(log[entry.start : entry.start + 8], "big"),
            int.from_bytes(log[entry.start + 23 : entry.start + 27], "big"),
        )
        for entry in entries_of_log(log)
    ]
    path = segment_files(directory, ".index")[0]
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 8):
        position = int.from_bytes(data[at + 4 : at + 8], "big")
        following = [(base, base + delta) for start, base, delta in batches if start >= position]
        data[at : at + 4] = change(at // 8, following).to_bytes(4, "big")
    path.write_bytes(data)
    return path


def test_first_offsets_are_an_old_convention(harmed: Path) -> None:
    path = rewrite_offsets(harmed, lambda _, batches: batches[0][0])
    told = [each for each in found(harmed) if each.path == str(path)]
    assert kinds(told) == {FindingKind.INDEX_OLD_FIRST_OFFSET}
    assert problems(harmed) == []


def test_last_offsets_of_several_batches_are_an_old_convention(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path, replace(SMALL, segment_bytes=100_000, index_interval_bytes=300))
    for _ in range(40):
        harness.append(b"x" * 30, b"y" * 30)
    harness.stop()
    path = rewrite_offsets(harness.directory, lambda _, batches: batches[:2][-1][1])
    told = [each for each in found(harness.directory) if each.path == str(path)]
    assert kinds(told) == {FindingKind.INDEX_OLD_MULTI_BATCH}
    assert problems(harness.directory) == []
    # That of a batch beyond the next entry's is none.
    rewrite_offsets(harness.directory, lambda slot, batches: batches[12 if slot == 0 else 0][1])
    assert kinds(problems(harness.directory)) == {FindingKind.INDEX_MISMATCH}


# --- the files around the segments


def test_a_missing_segment_is_a_gap(harmed: Path) -> None:
    for path in [each for each in harmed.iterdir() if each.stem == segment_files(harmed, ".log")[1].stem]:
        path.unlink()
    assert FindingKind.SEGMENT_GAP in kinds(problems(harmed))


def test_a_gap_is_normal_in_a_compacted_log(harmed: Path) -> None:
    for path in [each for each in harmed.iterdir() if each.stem == segment_files(harmed, ".log")[1].stem]:
        path.unlink()
    assert FindingKind.SEGMENT_GAP not in kinds(problems(harmed, cleaner=3))


def test_a_segment_that_reaches_into_the_next_overlaps(harmed: Path) -> None:
    first, second = segment_files(harmed, ".log")[:2]
    with first.open("ab") as file:
        file.write(second.read_bytes())
    assert FindingKind.SEGMENT_OVERLAP in kinds(problems(harmed))


def test_files_without_a_segment_and_misnamed_ones_are_told(harmed: Path) -> None:
    (harmed / f"{7:020d}.index").touch()
    (harmed / "5.log").touch()
    (harmed / f"{9:020d}.log.swap").touch()
    segment_files(harmed, ".timeindex")[0].unlink()
    assert {
        FindingKind.ORPHAN_INDEX,
        FindingKind.BAD_FILE_NAME,
        FindingKind.TRANSIENT_FILE,
        FindingKind.INDEX_MISSING,
    } <= kinds(found(harmed))


CHECKPOINTS = {
    "recovery_point": FindingKind.RECOVERY_POINT_PAST_LOG,
    "log_start": FindingKind.LOG_START_PAST_LOG,
    "high_watermark": FindingKind.HIGH_WATERMARK_PAST_LOG,
    "cleaner": FindingKind.CLEANER_PAST_LOG,
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_lies_within_the_log(name: str, sound: Path) -> None:
    end = log_end_of(sound)
    assert problems(sound, ALL, **{name: end}) == []
    assert kinds(problems(sound, ALL, **{name: end + 1})) == {CHECKPOINTS[name]}


def log_end_of(sound: Path) -> int:
    """The end of the log, which the newest snapshot is named by."""
    return int(segment_files(sound, ".snapshot")[-1].stem)


EPOCHS = {
    "an epoch that the batches do not have": ([(0, 0), (1, 10)], FindingKind.LEADER_EPOCHS_MISMATCH),
    "epochs that go back": ([(1, 0), (0, 50)], FindingKind.LEADER_EPOCHS_ORDER),
    "an epoch past the end": ([(0, 0), (1, 52), (2, 104), (9, 9000)], FindingKind.LEADER_EPOCHS_PAST_LOG),
}


@pytest.mark.parametrize("case", EPOCHS)
def test_the_leader_epoch_checkpoint_has(case: str, harmed: Path) -> None:
    entries, kind = EPOCHS[case]
    write_epochs(str(harmed / "leader-epoch-checkpoint"), entries, sync=False)
    assert kind in kinds(problems(harmed))


def test_a_lost_leader_epoch_checkpoint_is_told(harmed: Path) -> None:
    (harmed / "leader-epoch-checkpoint").unlink()
    assert kinds(problems(harmed)) == {FindingKind.LEADER_EPOCHS_MISMATCH}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0\n3\n0 0\n", FindingKind.LEADER_EPOCHS_DAMAGED),
        ("1\n0\n", FindingKind.LEADER_EPOCHS_DAMAGED),
        ("0\n1\nfirst 0\n", FindingKind.LEADER_EPOCHS_DAMAGED),
    ],
)
def test_a_damaged_leader_epoch_checkpoint_is_told(text: str, kind: FindingKind, harmed: Path) -> None:
    (harmed / "leader-epoch-checkpoint").write_text(text)
    assert kinds(problems(harmed)) == {kind}


def test_a_snapshot_of_another_log_is_told(harmed: Path) -> None:
    first, second = segment_files(harmed, ".snapshot")[:2]
    second.write_bytes(first.read_bytes())
    told = problems(harmed)
    assert {(each.kind, each.path) for each in told} == {(FindingKind.SNAPSHOT_MISMATCH, str(second))}


def test_a_snapshot_past_the_log_is_told(harmed: Path) -> None:
    last = segment_files(harmed, ".snapshot")[-1]
    last.rename(last.with_name(f"{9000:020d}.snapshot"))
    assert kinds(problems(harmed)) == {FindingKind.SNAPSHOT_MISMATCH}


def test_damaged_partition_metadata_is_told(harmed: Path) -> None:
    (harmed / "partition.metadata").write_text("version: 0\ntopic_id: nonsense")
    assert kinds(problems(harmed)) == {FindingKind.PARTITION_METADATA_DAMAGED}


def test_damaged_log_directory_checkpoints_are_told(tmp_path: Path) -> None:
    here = TopicPartition("orders", 0)
    write_offsets(str(tmp_path / "recovery-point-offset-checkpoint"), {here: 5, TopicPartition("gone", 1): 7})
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\norders 0 5\n")
    told: list[Finding] = []
    checkpoints = LogDirCheckpoints(str(tmp_path))
    checkpoints.load(told.append)
    checkpoints.report_strangers([here], told.append)
    assert [each.kind for each in told] == [FindingKind.CHECKPOINT_DAMAGED, FindingKind.CHECKPOINT_OF_NOTHING]
    assert checkpoints.of(here).recovery_point == 5
    assert checkpoints.of(here).high_watermark is None
