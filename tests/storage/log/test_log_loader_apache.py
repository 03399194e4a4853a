"""Loading Apache Kafka's own directories."""

from __future__ import annotations

import os
import shutil
from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.batch_header import set_base_offset_and_epoch
from kcli.storage.log.log_config import LogConfig
from kcli.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

APACHE = Path(__file__).parents[2] / "golden" / "storage" / "apache-4.3.1" / "golden-topic-0"


def copy_of_apaches(tmp_path: Path) -> LogHarness:
    """Return a log started on a copy of a directory that Apache Kafka 4.3.1 wrote and closed."""
    shutil.copytree(APACHE, tmp_path / "orders-0")
    return LogHarness(tmp_path, LogConfig(segment_ms=60_000, index_interval_bytes=600))


def apaches_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in APACHE.iterdir()}


def files_of(log: LogHarness) -> dict[str, bytes]:
    """Return the files as Apache Kafka would have written them: snapshots with one batch of a producer."""
    files = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    for name in log.names(".snapshot"):
        producers = decode_snapshot(files[name])
        for producer in producers:
            producer.batches = deque(list(producer.batches)[-1:])
        files[name] = encode_snapshot(producers)
    return files


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
