"""Loading restores producers and indexes, whatever happened to their files."""

from __future__ import annotations

import os
import shutil

import pytest

from kcli.protocol.error_codes import KafkaError
from tests.storage.log.filled_log import VALUES, index_entries
from tests.storage.log_harness import NOW_MS, LogHarness

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
            log.log.flush(now_ms=NOW_MS)
            log.checkpoint()
    log.crash()
    for sequence in range(3, 8):
        info = log.append(b"%d" % sequence, producer=(7, 0, sequence))
        assert (info.duplicate, info.first_offset) == (True, sequence)
    producer_batches(log, 8, 9)
    assert len(log.values()) == 9


@pytest.mark.parametrize("stops", [1, 2])
def test_after_a_clean_stop_all_batches_in_flight_are_recognised(log: LogHarness, stops: int) -> None:
    producer_batches(log, 0, 8)
    for _ in range(stops):
        log.reopen()
    for sequence in range(3, 8):
        info = log.append(b"%d" % sequence, producer=(7, 0, sequence))
        assert (info.duplicate, info.first_offset) == (True, sequence)
    with pytest.raises(KafkaError):
        log.append(b"2", producer=(7, 0, 2))
    producer_batches(log, 8, 9)
    assert len(log.values()) == 9


@pytest.mark.parametrize("rolled_before", [4, 6, 8])
def test_after_a_truncation_all_batches_in_flight_are_recognised(log: LogHarness, rolled_before: int) -> None:
    for sequence in range(12):
        if sequence == rolled_before:
            log.log.roll(now_ms=NOW_MS)
        producer_batches(log, sequence, sequence + 1)
    assert log.log.truncate_to(8, now_ms=NOW_MS)
    for sequence in range(3, 8):
        info = log.append(b"%d" % sequence, producer=(7, 0, sequence))
        assert (info.duplicate, info.first_offset) == (True, sequence)
    producer_batches(log, 8, 9)


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
    # As few entries as these segments have may be missing for restarts.
    is_told = suffix != ".index" or damage not in ("empty", "zeroed")
    assert len([report for report in filled.reports if "rebuilding" in report]) == is_told
    filled.reopen()
    assert index_entries(filled) == expected


def test_an_index_that_is_missing_is_told_in_plain_words(filled: LogHarness) -> None:
    filled.stop()
    base = filled.bases[0]
    filled.path(base, ".index").unlink()
    filled.start()
    index_entries(filled)
    log, index = filled.path(base, ".log"), filled.path(base, ".index")
    assert f"rebuilding the indexes of `{log}`: `{index}` is missing" in filled.reports


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
