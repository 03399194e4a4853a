"""Verification of a partition: what is sound is clean, findings are explained, replicas are compared."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.forensics.entries.damage import DamageKind
from kcli.forensics.verification.findings import (
    FindingKind,
    Kind,
    Severity,
    VerificationOptions,
    advice_on,
    severity_of,
)
from kcli.forensics.verification.fresh_indexes import rebuild
from kcli.forensics.verification.replica_comparison import compare
from tests.forensics.verification.sound_partition import ALL, DEEP, found, kinds, problems, segment_files
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness
from tests.support.harms import entries_of_log

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
    harness.log.truncate_to(31, now_ms=NOW_MS)
    harness.fill(5)
    assert problems(harness.directory, DEEP) == []


def test_zeros_behind_an_index_are_space_that_kafka_reserves(harmed: Path) -> None:
    for suffix in (".index", ".timeindex"):
        for path in segment_files(harmed, suffix):
            path.write_bytes(path.read_bytes() + bytes(24 * 40))
    assert kinds(found(harmed)) == {FindingKind.INDEX_ZERO_TAIL, FindingKind.PARTITION_METADATA_MISSING}


# --- the kinds


@pytest.mark.parametrize("kind", [*DamageKind, *FindingKind], ids=lambda kind: kind.value)
def test_every_kind_is_explained(kind: Kind) -> None:
    assert kind.value == kind.name.lower()
    assert kind.meaning
    assert not kind.meaning.endswith(".")
    assert advice_on(kind)
    assert severity_of(kind) in Severity


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
