"""Verification of a partition: what is sound is clean, and every harm is told by its kind and place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.protocol.compression import Codec
from kcli.protocol.control_records import ControlRecordType, EndTxnMarker, end_txn_batch
from kcli.storage.checkpoints import write_epochs, write_offsets
from kcli.storage.damage import DamageKind
from kcli.storage.log_paths import TopicPartition
from kcli.storage.log_truncation import truncate_to
from kcli.storage.producer_append import Origin
from kcli.storage.verification.finding_kinds import FindingKind, Severity
from kcli.storage.verification.findings import MOST_OF_A_KIND, Finding
from kcli.storage.verification.fresh_indexes import rebuild
from kcli.storage.verification.log_dir_checkpoints import LogDirCheckpoints, PartitionOffsets
from kcli.storage.verification.options import VerificationOptions
from kcli.storage.verification.partition_verifier import verify_partition
from kcli.storage.verification.replica_comparison import compare
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness
from tests.support.harms import (
    entries_of_log,
    entries_of_table,
    entry_at,
    entry_harms,
    field_harms,
    first_difference,
)

ALL = VerificationOptions()
DEEP = VerificationOptions(deep=True)
SANITY = VerificationOptions(sanity_only=True)
OFFSET_FIELDS = (("offset", 0, 4), ("position", 4, 4))
TIME_FIELDS = (("timestamp", 0, 8), ("offset", 8, 4))
TRANSACTION_FIELDS = (
    ("version", 0, 2),
    ("producer id", 2, 8),
    ("first offset", 10, 8),
    ("last offset", 18, 8),
    ("last stable offset", 26, 8),
)
TABLE_SIZES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
SNAPSHOT_FIELDS = (("version", 0, 2), ("crc", 2, 4), ("count", 6, 4))


def write_partition(root: Path) -> LogHarness:
    """Three segments of every codec, with transactions that ended either way and one that is open."""
    harness = LogHarness(root, replace(SMALL, segment_bytes=3000, index_interval_bytes=150))
    sequences = {1: 0, 2: 0, 3: 0}

    def produce(producer: int, codec: Codec, at: int) -> None:
        harness.append(
            *(b"%d-" % at + b"v" * 60 for _ in range(4)),
            timestamp=NOW_MS + at * 10,
            step_ms=1,
            codec=codec,
            producer=(producer, 0, sequences[producer]),
            is_transactional=True,
            leader_epoch=at // 12,
        )
        sequences[producer] += 4

    for at in range(51):
        produce(1 + at % 2, list(Codec)[at % 5], at)
        if at % 6 == 5:
            for producer, kind in ((1, ControlRecordType.ABORT), (2, ControlRecordType.COMMIT)):
                mark(harness, producer, kind, at // 12)
    produce(3, Codec.NONE, 60)
    harness.stop()
    return harness


def mark(harness: LogHarness, producer: int, kind: ControlRecordType, leader_epoch: int) -> None:
    """End a transaction."""
    batch = end_txn_batch(EndTxnMarker(kind, 0), timestamp=NOW_MS, producer_id=producer, producer_epoch=0)
    harness.append_batch(batch, leader_epoch=leader_epoch, origin=Origin.COORDINATOR)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition that nothing is wrong with."""
    return write_partition(tmp_path_factory.mktemp("sound")).directory


@pytest.fixture
def harmed(sound: Path, tmp_path: Path) -> Path:
    """A copy that harm may be done to."""
    return Path(shutil.copytree(sound, tmp_path / sound.name))


def found(directory: Path, options: VerificationOptions = ALL, **offsets: int) -> list[Finding]:
    report = verify_partition(str(directory), options, offsets=PartitionOffsets(str(directory), **offsets))
    assert report.failures == []
    return report.findings


def problems(directory: Path, options: VerificationOptions = ALL, **offsets: int) -> list[Finding]:
    return [each for each in found(directory, options, **offsets) if each.severity is not Severity.INFO]


def kinds(findings: Iterable[Finding]) -> set[FindingKind]:
    return {each.kind for each in findings}


def segment_files(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix == suffix)


# --- what is sound


@pytest.mark.parametrize(
    "options", [ALL, DEEP, VerificationOptions(sanity_only=True)], ids=["all", "deep", "sanity"]
)
def test_nothing_is_wrong_with_what_a_broker_wrote(sound: Path, options: VerificationOptions) -> None:
    assert kinds(found(sound, options)) <= {FindingKind.PARTITION_METADATA_MISSING}
    assert all(len(segment_files(sound, suffix)) > 2 for suffix in (".log", ".index", ".timeindex"))
    assert len(segment_files(sound, ".txnindex")) > 1


def test_nothing_is_wrong_while_a_log_is_written(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path)
    for _ in range(60):
        harness.fill(1)
        assert problems(harness.directory, DEEP) == []
    assert len(harness.bases) > 3


def test_nothing_is_wrong_after_a_crash_and_a_start(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path)
    harness.fill(50)
    harness.crash()
    harness.fill(30)
    assert problems(harness.directory, DEEP) == []


def test_nothing_is_wrong_once_the_log_was_truncated(tmp_path: Path) -> None:
    harness = LogHarness(tmp_path)
    harness.fill(50)
    truncate_to(harness.log, 31, now_ms=NOW_MS)
    harness.fill(5)
    assert problems(harness.directory, DEEP) == []


def test_zeros_behind_an_index_are_space_that_kafka_reserves(harmed: Path) -> None:
    for suffix in (".index", ".timeindex"):
        for path in segment_files(harmed, suffix):
            path.write_bytes(path.read_bytes() + bytes(24 * 40))
    assert kinds(found(harmed)) == {FindingKind.INDEX_ZERO_TAIL, FindingKind.PARTITION_METADATA_MISSING}


# --- harm


def log_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    path = segment_files(sound, ".log")[1]
    data = path.read_bytes()
    entries = entries_of_log(data)
    chosen = [entries[0], entries[len(entries) // 2], entries[-1]]
    for harm in (*field_harms(data, chosen), *entry_harms(data, chosen[:1] + entries[-2:])):
        if harm.verb == "swap" and harm.entry == 0:
            continue  # the two chosen are no neighbours
        yield str(harm), path, harm.data, harm.entry


def table_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    for suffix, fields, start in (
        (".index", OFFSET_FIELDS, 0),
        (".timeindex", TIME_FIELDS, 0),
        (".txnindex", TRANSACTION_FIELDS, 0),
    ):
        path = segment_files(sound, suffix)[1]
        data = path.read_bytes()
        entries = entries_of_table(data, fields, start)
        assert len(entries) > 1 or suffix == ".txnindex"
        for harm in (*field_harms(data, entries), *entry_harms(data, entries)):
            yield f"{suffix}: {harm}", path, harm.data, harm.entry


def snapshot_harms(sound: Path) -> Iterator[tuple[str, Path, bytes, int]]:
    path = segment_files(sound, ".snapshot")[0]
    data = path.read_bytes()
    header = entries_of_table(data[:10], SNAPSHOT_FIELDS)
    for harm in field_harms(data, header):
        yield f".snapshot: {harm}", path, harm.data, harm.entry


def is_sparser(path: Path, data: bytes) -> bool:
    """Whether an offset index lacks but its last entries, which does no harm and cannot be told."""
    kept = data.rstrip(b"\0")
    whole = data[: -(-len(kept) // 8) * 8]
    return path.suffix == ".index" and not len(data) % 8 and path.read_bytes().startswith(whole)


@pytest.mark.parametrize("harms", [log_harms, table_harms, snapshot_harms], ids=lambda each: each.__name__)
def test_every_harm_is_told_where_it_is(
    sound: Path, harmed: Path, harms: Callable[[Path], Iterator[tuple[str, Path, bytes, int]]]
) -> None:
    count = 0
    for name, original, data, _ in harms(sound):
        if is_sparser(original, data):
            continue
        count += 1
        path = harmed / original.name
        path.write_bytes(data)
        told = [each for each in found(harmed) if each.path == str(path)]
        bad = [each for each in told if each.severity is not Severity.INFO]
        # A larger offset in an index entry may be that of a later batch, as Kafka once wrote it.
        allowed = {FindingKind.INDEX_OLD_MULTI_BATCH, FindingKind.INDEX_OLD_FIRST_OFFSET}
        others = problems(harmed) if not bad else []
        assert bad or others or kinds(told) & allowed, name
        if bad and original.suffix != ".snapshot" and len(data) == original.stat().st_size:
            at = first_difference(original.read_bytes(), data)
            width = TABLE_SIZES.get(original.suffix, 0)
            place = at // width * width if width else entry_at(entries_of_log(original.read_bytes()), at)
            # Of two that are swapped, the second is out of place; it begins at most this far behind.
            reach = width or max(entry.size for entry in entries_of_log(original.read_bytes()))
            assert any(each.position is None or place <= each.position <= place + reach for each in bad), (
                name,
                bad,
            )
        path.write_bytes(original.read_bytes())
    assert count > 20
    assert problems(harmed) == []


INDEX_CASES = {
    "another offset": (".index", "offset", 1 << 20, FindingKind.INDEX_MISMATCH),
    "a position inside a batch": (".index", "position", 5, FindingKind.INDEX_POSITION),
    "a position past the log": (".index", "position", 1 << 20, FindingKind.INDEX_PAST_LOG),
    "another timestamp": (".timeindex", "timestamp", 1 << 40, FindingKind.TIME_INDEX_MISMATCH),
    "an offset inside a batch": (".timeindex", "offset", 1, FindingKind.TIME_INDEX_NOT_FOUND),
    "an offset past the log": (".timeindex", "offset", 1 << 20, FindingKind.TIME_INDEX_NOT_FOUND),
    "another producer": (".txnindex", "producer id", 1 << 8, FindingKind.TRANSACTION_INDEX_MISMATCH),
    "another first offset": (".txnindex", "first offset", 1, FindingKind.TRANSACTION_INDEX_MISMATCH),
    "another stable offset": (
        ".txnindex",
        "last stable offset",
        1,
        FindingKind.TRANSACTION_INDEX_MISMATCH,
    ),
    "a marker that is none": (".txnindex", "last offset", 1, FindingKind.TRANSACTION_INDEX_NO_MARKER),
}
FIELDS = {".index": OFFSET_FIELDS, ".timeindex": TIME_FIELDS, ".txnindex": TRANSACTION_FIELDS}


@pytest.mark.parametrize("case", INDEX_CASES)
def test_an_index_entry_has(case: str, harmed: Path) -> None:
    suffix, field, difference, kind = INDEX_CASES[case]
    path = segment_files(harmed, suffix)[1]
    fields = FIELDS[suffix]
    size = sum(width for _, _, width in fields)
    data = bytearray(path.read_bytes())
    slot = len(data) // size - 1
    _, at, width = next(each for each in fields if each[0] == field)
    start = slot * size + at
    value = int.from_bytes(data[start : start + width], "big") ^ difference
    data[start : start + width] = value.to_bytes(width, "big")
    path.write_bytes(data)
    told = [each for each in problems(harmed) if each.path == str(path)]
    assert (kind, slot * size) in {(each.kind, each.position) for each in told}


def test_entries_out_of_order_are_told(harmed: Path) -> None:
    for suffix, size, kind in (
        (".index", 8, FindingKind.INDEX_ORDER),
        (".timeindex", 12, FindingKind.TIME_INDEX_ORDER),
    ):
        path = segment_files(harmed, suffix)[0]
        data = path.read_bytes()
        path.write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
        told = [each for each in problems(harmed) if each.path == str(path)]
        assert [(each.kind, each.position) for each in told] == [(kind, size)]


def test_the_time_index_of_a_closed_segment_is_complete_and_of_the_last_may_lag(harmed: Path) -> None:
    closed, last = segment_files(harmed, ".timeindex")[0], segment_files(harmed, ".timeindex")[-1]
    last.write_bytes(last.read_bytes()[:-12])
    assert problems(harmed) == []
    closed.write_bytes(closed.read_bytes()[:-12])
    assert [(each.kind, each.path) for each in problems(harmed)] == [
        (FindingKind.TIME_INDEX_INCOMPLETE, str(closed))
    ]


def test_an_aborted_transaction_must_be_in_the_index(harmed: Path) -> None:
    path = segment_files(harmed, ".txnindex")[0]
    path.unlink()
    assert FindingKind.TRANSACTION_INDEX_INCOMPLETE in kinds(problems(harmed))


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


# --- random harm


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_the_bytes_are_nothing_breaks(sound: Path, tmp_path: Path, data: st.DataObject) -> None:
    directory = tmp_path / "orders-0"
    if not directory.exists():
        shutil.copytree(sound, directory)
    names = sorted(path.name for path in sound.iterdir())
    name = data.draw(st.sampled_from(names))
    content = bytearray((sound / name).read_bytes())
    at = data.draw(st.integers(0, len(content)))
    removed = data.draw(st.integers(0, 20))
    content[at : at + removed] = data.draw(st.binary(max_size=20))
    (directory / name).write_bytes(content)
    try:
        for options in (DEEP, SANITY):
            found(directory, options)
    finally:
        (directory / name).write_bytes((sound / name).read_bytes())


def test_findings_of_a_kind_are_bounded(harmed: Path) -> None:
    path = segment_files(harmed, ".index")[0]
    path.write_bytes(b"\x00\x00\x00\x01\x00\x00\x00\x01" * (MOST_OF_A_KIND + 500))
    told = [each for each in found(harmed) if each.path == str(path)]
    assert len(told) == MOST_OF_A_KIND + 1
    assert told[-1].kind is FindingKind.MORE_FINDINGS


# --- the kinds


def test_every_kind_is_explained_and_every_damage_is_a_kind() -> None:
    for kind in FindingKind:
        assert kind.meaning
        assert kind.advice
        assert not kind.meaning.endswith(".")
    assert {kind.value for kind in DamageKind} <= {kind.value for kind in FindingKind}


# --- fresh indexes


def test_fresh_indexes_are_those_that_the_broker_wrote(sound: Path, tmp_path: Path) -> None:
    report = rebuild(str(sound), str(tmp_path / "out"), interval_bytes=150)
    assert report.findings == []
    assert len(report.written) > 6
    for path in map(Path, report.written):
        assert path.read_bytes() == (sound / path.name).read_bytes(), path.name


def test_fresh_indexes_pass_in_place_of_damaged_ones(harmed: Path, tmp_path: Path) -> None:
    for suffix in (".index", ".timeindex", ".txnindex"):
        for path in segment_files(harmed, suffix):
            path.write_bytes(os.urandom(50))
    report = rebuild(str(harmed), str(tmp_path / "out"))
    for written in map(Path, report.written):
        shutil.copy(written, harmed / written.name)
    assert problems(harmed) == []


# --- two replicas


def test_replicas_that_are_equal_do_not_differ(sound: Path, harmed: Path) -> None:
    assert compare(str(sound), str(harmed)).findings == []


def test_a_replica_that_is_behind_and_one_that_begins_later_do_not_differ(sound: Path, harmed: Path) -> None:
    stems = [path.stem for path in segment_files(harmed, ".log")]
    for path in [each for each in harmed.iterdir() if each.stem in (stems[0], stems[-1])]:
        path.unlink()
    told = compare(str(sound), str(harmed)).findings
    assert kinds(told) == {FindingKind.REPLICA_START, FindingKind.REPLICA_END}


def test_the_first_offset_that_differs_is_named(tmp_path: Path) -> None:
    harnesses = []
    for name, value in (("one", b"same"), ("two", b"other")):
        (tmp_path / name).mkdir()
        harness = LogHarness(tmp_path / name)
        harness.fill(30)
        harness.append(b"a", value, b"c")
        harness.fill(5)
        harness.stop()
        harnesses.append(harness.directory)
    (told,) = compare(*map(str, harnesses)).findings
    assert told.kind is FindingKind.REPLICAS_DIFFER
    assert told.offset == 31
    assert "another value" in told.message


def test_a_batch_that_one_replica_lacks_is_a_difference_unless_it_is_compacted(tmp_path: Path) -> None:
    directories = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        harness = LogHarness(tmp_path / name, replace(SMALL, segment_bytes=100_000))
        harness.fill(30)
        harness.stop()
        directories.append(str(harness.directory))
    path = Path(directories[1]) / f"{0:020d}.log"
    data = path.read_bytes()
    entries = entries_of_log(data)
    path.write_bytes(data[: entries[10].start] + data[entries[12].start :])
    (told,) = compare(*directories).findings
    assert (told.kind, told.offset) == (FindingKind.REPLICAS_DIFFER, 10)
    (told,) = compare(*directories, is_compacted=True).findings
    assert (told.kind, told.message) == (
        FindingKind.REPLICA_COMPACTED,
        "2 records are in one of the replicas alone",
    )
