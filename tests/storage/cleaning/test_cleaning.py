"""Rounds of compaction on a log: what stays, at which offsets, and what the files are afterwards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.corruption import CorruptRecord
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE
from kcli.storage.cleaning.cleaning_job import plan_job
from kcli.storage.cleaning.cleaning_run import run_job
from kcli.storage.cleaning.offset_map import ENTRY_BYTES
from kcli.storage.index.transaction_index import AbortedTransaction
from kcli.storage.log.log_config import COMPACT, DELETE
from tests.storage.cleaning.cleaning_harness import COMPACTED, CleaningHarness
from tests.storage.log_harness import NOW_MS

A, B, C = b"a", b"b", b"c"
RETENTION_MS = COMPACTED.delete_retention_ms


@pytest.fixture
def log(tmp_path: Path) -> CleaningHarness:
    return CleaningHarness(tmp_path)


def offsets(log: CleaningHarness) -> list[int]:
    return [offset for offset, _, _ in log.kept()]


def closed_batches(log: CleaningHarness) -> list[RecordBatch]:
    """Return the batches of the closed segments."""
    return [
        batch
        for segment in log.log.segments
        if segment is not log.log.segments.active
        for _, batch in segment.batches()
        if isinstance(batch, RecordBatch)
    ]


def aborted_in(log: CleaningHarness) -> list[AbortedTransaction]:
    """Return the index entries of the first segment."""
    return log.log.segments.first.indexes.transactions.entries()


def test_the_last_record_of_each_key_stays_at_its_offset(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1"))
    log.put((A, b"2"), (C, b"1"))
    log.put((B, b"2"))
    log.roll()
    log.put((A, b"3"))
    run = log.clean()
    assert run is not None
    expected = [(2, A, b"2"), (3, C, b"1"), (4, B, b"2"), (5, A, b"3")]
    assert log.kept() == expected
    assert log.bases == [0, 5]
    assert log.log.cleaner_offset == run.end_offset == 5
    log.reopen()
    assert log.kept() == expected
    assert [record.offset for record in log.records()] == [2, 3, 4, 5]
    assert log.reports == []
    stats = run.stats
    assert (stats.records_before, stats.records_after, stats.superseded) == (5, 3, 2)
    assert (stats.segments_before, stats.segments_after) == (1, 1)
    assert stats.bytes_after == log.log.segments.first.size < stats.bytes_before


def test_records_without_a_key_go(log: CleaningHarness) -> None:
    log.configure(cleanup_policy=frozenset({DELETE}))
    log.put((None, b"1"), (A, b"1"))
    log.put((None, b"2"))
    log.put((B, b"1"))
    log.configure(cleanup_policy=frozenset({COMPACT}))
    log.roll()
    run = log.clean()
    assert run is not None
    assert offsets(log) == [1, 3]
    assert run.stats.keyless == 2


def test_nothing_to_clean_is_no_round(log: CleaningHarness) -> None:
    log.put((A, b"1"))
    assert log.clean() is None
    log.roll()
    assert log.clean() is not None
    assert log.clean() is None


def test_a_dry_run_counts_and_changes_nothing(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1"))
    log.put((A, b"2"))
    log.roll()
    before = {name: log.directory.joinpath(name).read_bytes() for name in log.names()}
    job = plan_job(log.log, 0, NOW_MS, map_bytes=1_000_000)
    assert job is not None
    dry = run_job(job, is_dry=True)
    while dry.next_group() is not None:
        pass
    assert {name: log.directory.joinpath(name).read_bytes() for name in log.names()} == before
    assert log.log.cleaning is None
    run = log.clean()
    assert run is not None
    assert (dry.stats, dry.end_offset) == (run.stats, run.end_offset)


# --- tombstones


def test_a_tombstone_stays_until_its_horizon(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1"))
    log.put((A, None), (C, b"1"), timestamp=NOW_MS - 5)
    log.roll()
    log.clean(NOW_MS)
    batch = closed_batches(log)[-1]
    assert batch.attributes & DELETE_HORIZON_BIT
    assert batch.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert [record.timestamp for record in batch.records()] == [NOW_MS - 5, NOW_MS - 5]
    assert batch.max_timestamp == NOW_MS - 5
    log.put((C, b"2"))
    log.roll()
    log.clean(NOW_MS + RETENTION_MS - 1)
    assert (2, A, None) in log.kept()
    assert closed_batches(log)[1].delete_horizon_ms == NOW_MS + RETENTION_MS, "set once"
    log.put((C, b"3"))
    log.roll()
    run = log.clean(NOW_MS + RETENTION_MS)
    assert run is not None
    assert run.stats.tombstones == 1
    assert log.kept() == [(1, B, b"1"), (5, C, b"3")]


@pytest.mark.parametrize("codec", list(Codec))
def test_rewritten_batches_keep_their_codec(log: CleaningHarness, codec: Codec) -> None:
    value = b"value" * 20
    log.put((A, value), (B, value), (C, None), codec=codec, timestamp=NOW_MS - 700, step_ms=300)
    log.put((A, value), codec=codec)
    log.roll()
    log.clean()
    batch = closed_batches(log)[0]
    assert batch.codec is codec
    assert batch.is_valid_crc()
    assert [(record.offset, record.timestamp) for record in batch.records()] == [
        (1, NOW_MS - 400),
        (2, NOW_MS - 100),
    ]
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp) == (0, 2, NOW_MS - 100)


def test_a_batch_that_loses_nothing_stays_byte_for_byte(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1"), codec=Codec.ZSTD, producer=(5, 0, 0))
    log.put((C, b"1"))
    before = log.path(0).read_bytes()
    log.roll()
    log.clean()
    assert log.path(0).read_bytes() == before


def test_long_runs_of_untouched_batches_are_copied(tmp_path: Path) -> None:
    log = CleaningHarness(tmp_path, replace(COMPACTED, segment_bytes=1_000_000, index_interval_bytes=4096))
    log.put((A, b"old"))
    for number in range(300):
        log.put((b"key-%d" % number, b"v" * 1000))
    log.put((A, b"new"))
    before = log.path(0).read_bytes()
    first = log.batches(0)[0].size_in_bytes
    log.roll()
    log.clean()
    assert log.path(0).read_bytes() == before[first:]
    log.reopen()
    assert [record.offset for record in log.records(150)] == list(range(150, 302))


# --- producers


def test_the_last_batch_of_a_producer_stays_as_a_header(log: CleaningHarness) -> None:
    log.put((A, b"1"), producer=(5, 2, 0))
    log.put((A, b"2"), (A, b"3"), producer=(5, 2, 1))
    log.put((A, b"4"))
    log.put((B, b"1"))
    log.roll()
    log.clean()
    header, *_ = closed_batches(log)
    assert (header.base_offset, header.last_offset, header.count) == (1, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, 1)
    assert header.size_in_bytes == HEADER_SIZE
    assert header.is_valid_crc()
    assert offsets(log) == [3, 4]
    log.crash()
    log.put((B, b"2"), producer=(5, 2, 3))
    assert offsets(log) == [3, 4, 5]


def test_the_end_of_the_cleaned_part_is_not_lost(log: CleaningHarness) -> None:
    log.configure(cleanup_policy=frozenset({DELETE}))
    log.put((A, b"1"))
    log.put((None, b"keyless"))
    log.configure(cleanup_policy=frozenset({COMPACT}))
    log.roll()
    log.clean()
    assert [(batch.last_offset, batch.count) for batch in closed_batches(log)] == [(0, 1), (1, 0)]


# --- transactions


def transaction(log: CleaningHarness, producer_id: int, *keys: bytes, sequence: int = 0) -> None:
    log.put(
        *[(key, b"in transaction") for key in keys],
        producer=(producer_id, 0, sequence),
        is_transactional=True,
    )


def test_aborted_records_go_and_shadow_nothing(log: CleaningHarness) -> None:
    log.put((A, b"1"))
    transaction(log, 7, A, B)
    transaction(log, 7, C, sequence=2)
    log.end(7, is_commit=False)
    log.put((C, b"1"))
    log.roll()
    run = log.clean()
    assert run is not None
    assert log.kept() == [(0, A, b"1"), (5, C, b"1")]
    assert run.stats.aborted == 3
    # The last data batch of the producer stays as a header, and so does its index entry.
    assert [(entry.first_offset, entry.last_offset) for entry in aborted_in(log)] == [(1, 4)]


def test_a_marker_goes_after_its_records_and_its_horizon(log: CleaningHarness) -> None:
    transaction(log, 7, A)
    log.end(7, is_commit=True)
    log.put((A, b"2"))
    transaction(log, 7, B, sequence=1)
    log.end(7, is_commit=True)
    log.roll()

    def markers() -> list[tuple[int, int | None]]:
        controls = [batch for batch in closed_batches(log) if batch.is_control]
        return [(batch.base_offset, batch.delete_horizon_ms) for batch in controls]

    # Its records were there when this round began.
    log.clean(NOW_MS)
    assert markers() == [(1, None), (4, None)]
    log.put((C, b"1"))
    log.roll()
    log.clean(NOW_MS + 5)
    assert markers() == [(1, NOW_MS + 5 + RETENTION_MS), (4, None)]
    log.put((C, b"2"))
    log.roll()
    log.clean(NOW_MS + 5 + RETENTION_MS - 1)
    assert markers() == [(1, NOW_MS + 5 + RETENTION_MS), (4, None)]
    log.put((C, b"3"))
    log.roll()
    run = log.clean(NOW_MS + 5 + RETENTION_MS)
    assert run is not None
    assert run.stats.markers == 1
    assert markers() == [(4, None)]


def test_an_open_transaction_holds_a_round_back(log: CleaningHarness) -> None:
    log.put((A, b"1"))
    transaction(log, 7, B)
    log.put((A, b"2"))
    log.roll()
    log.put((A, b"3"))
    log.roll()
    run = log.clean()
    assert run is not None
    assert run.end_offset == 1
    # What lies behind the last stable offset in the same segment is as it was.
    assert offsets(log) == [0, 1, 2, 3]
    log.end(7, is_commit=False)
    log.roll()
    log.clean()
    assert offsets(log) == [3]


# --- the map


def test_a_full_map_ends_the_round_behind_the_last_whole_batch(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1"))
    log.put((A, b"2"))
    log.put((B, b"2"), (C, b"1"))
    log.put((A, b"3"))
    log.roll()
    room = 2 * (ENTRY_BYTES + 1)
    first = log.clean(map_bytes=room)
    assert first is not None
    assert first.is_map_full
    assert first.end_offset == log.log.cleaner_offset == 3
    # The map knows B at 3: the older B goes, and what lies behind the end stays.
    assert offsets(log) == [2, 3, 4, 5]
    log.clean(map_bytes=room)
    last = log.clean(map_bytes=room)
    assert last is not None
    assert not last.is_map_full
    assert offsets(log) == [3, 4, 5]
    assert log.log.cleaner_offset == 6


def test_a_map_without_room_takes_a_batch_at_a_time(log: CleaningHarness) -> None:
    for number in range(4):
        log.put((A, b"%d" % number), (B, b"%d" % number))
    log.roll()
    ends = []
    while (run := log.clean(map_bytes=0)) is not None:
        ends.append(run.end_offset)
    assert ends == [2, 4, 6, 8]
    assert offsets(log) == [6, 7]


# --- groups


def test_small_segments_become_one(log: CleaningHarness) -> None:
    for number in range(6):
        log.put((b"%d" % number, b"v" * 300))
        log.roll()
    times = [1_600_000_000 + number for number in range(6)]
    for base, seconds in zip(log.bases, times, strict=False):
        os.utime(log.path(base), (seconds, seconds))
    log.clean()
    assert log.bases == [0, 5, 6]
    assert log.path(0).stat().st_mtime == times[4]
    assert [record.offset for record in log.records()] == list(range(6))
    assert log.delete_files() > 0
    assert not log.names(".deleted")
    bases = [0, *[int(name.removesuffix(".snapshot")) for name in log.names(".snapshot")]]
    assert bases == log.bases


# --- damage


def test_damage_is_not_hidden_by_a_new_checksum(log: CleaningHarness) -> None:
    log.put((A, b"1"), (B, b"1" * 50))
    log.put((A, b"2"))
    log.roll()
    log.corrupt(0, 61 + 30)
    before = log.path(0).read_bytes()
    with pytest.raises(CorruptRecord):
        log.clean()
    assert log.path(0).read_bytes() == before
    assert log.names(".cleaned") == []


def test_bytes_behind_the_last_batch_end_a_round(log: CleaningHarness) -> None:
    log.put((A, b"1"))
    log.put((A, b"2"))
    log.roll()
    with log.path(0).open("r+b") as file:
        file.seek(8)
        file.write(b"\0\0\0\x7f")
    with pytest.raises(CorruptRecord):
        log.clean()
    assert log.names(".cleaned") == []
