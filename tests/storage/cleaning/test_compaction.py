"""The swap of a cleaned segment: killed at each rename, beside reads, and what makes a round void."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.cleaning.cleaning_job import plan_job
from kcli.storage.cleaning.cleaning_run import CleaningDiscarded, CleaningRun, run_job
from kcli.storage.cleaning.compaction import Compaction
from kcli.storage.log.log_config import COMPACT, DELETE
from kcli.storage.log.log_read import Isolation
from tests.storage.cleaning.cleaning_harness import CleaningHarness
from tests.storage.log_harness import NOW_MS

Kept = tuple[int, bytes | None, bytes | None]
RENAMES = 4 + 3 * 4 + 2 + 4
"""Of four files, four for each of three sources, two snapshots, and the four once more."""


@pytest.fixture
def log(tmp_path: Path) -> CleaningHarness:
    """A log of three closed segments that become one, the last with the index of an aborted transaction."""
    log = CleaningHarness(tmp_path)
    for number in range(3):
        log.put((b"a", b"%d" % number), (b"b%d" % number, b"1"))
        log.put((b"c", b"in transaction"), producer=(7, 0, number), is_transactional=True)
        log.end(7, is_commit=False)
        log.roll()
    log.put((b"d", b"1"))
    return log


class Begun:
    """A round that has been begun."""

    def __init__(self, log: CleaningHarness) -> None:
        job = plan_job(log.log, 0, NOW_MS)
        assert job is not None
        self.compaction = Compaction(log.log, job)
        self.run: CleaningRun = run_job(job)


class Killed(BaseException):
    """The process ends here."""


def test_a_swap_has_so_many_renames(log: CleaningHarness) -> None:
    with mock.patch("os.replace", side_effect=os.replace) as rename:
        log.clean()
    assert rename.call_count == RENAMES


@pytest.mark.parametrize("count", range(RENAMES + 1))
def test_a_kill_at_a_rename_loses_nothing(log: CleaningHarness, count: int) -> None:
    rename, done = os.replace, 0

    def replace(source: str, target: str) -> None:
        nonlocal done
        if done == count:
            raise Killed
        done += 1
        rename(source, target)

    before, records = log.kept(), log.values(8)
    with mock.patch("os.replace", replace):
        try:
            log.clean()
        except Killed:
            assert count < RENAMES
    log.crash()
    # Until all four files are named `.swap` nothing has happened; from then on the next start finishes.
    assert log.kept() == (log_after(before) if count >= 4 else before)
    assert log.bases == ([0, 12] if count >= 4 else [0, 4, 8, 12])
    assert log.values(8)[-1] == records[-1]
    assert not [name for name in log.names() if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert log.log.last_stable_offset == log.log.log_end_offset == 13
    assert log.log.producer_state.producers[7].last_sequence == 2
    log.clean()
    assert log.kept() == log_after(before)
    log.reopen()
    assert log.kept() == log_after(before)


def log_after(before: list[Kept]) -> list[Kept]:
    """Return what a round leaves: aborted records are gone, and the older ones of key a."""
    return [each for each in before if each[1] != b"c" and each not in ((0, b"a", b"0"), (4, b"a", b"1"))]


def test_a_read_that_began_before_goes_on(log: CleaningHarness) -> None:
    read = log.log.read(0, 10_000, isolation=Isolation.HIGH_WATERMARK)
    assert read.file_slice is not None
    data = log.path(0).read_bytes()
    log.clean()
    log.delete_files()
    assert read.file_slice.read() == data


def test_the_high_watermark_is_found_again_in_the_new_segment(log: CleaningHarness) -> None:
    log.log.set_high_watermark(11)
    log.log.read(0, 100, isolation=Isolation.HIGH_WATERMARK)
    log.clean()
    offsets = []
    offset = 0
    while offset < 11:
        read = log.log.read(offset, 10_000, isolation=Isolation.HIGH_WATERMARK)
        assert read.file_slice is not None
        data = read.file_slice.read()
        offset = int.from_bytes(data[:8]) + int.from_bytes(data[23:27]) + 1
        offsets.append(offset)
    assert offsets[-1] <= 11


# --- what makes a round void

VOIDS: dict[str, Callable[[CleaningHarness], object]] = {
    "truncation": lambda log: log.log.truncate_to(10, now_ms=NOW_MS),
    "start over": lambda log: log.log.truncate_fully_and_start_at(99, now_ms=NOW_MS),
    "deletion": lambda log: log.log.rename_directory("orders-0.0123456789abcdef0123456789abcdef-delete"),
    "stop": lambda log: log.log.close(now_ms=NOW_MS),
    "failure": lambda log: log.log.go_offline("the directory failed"),
}


@pytest.mark.parametrize("is_before", [True, False], ids=["before the work", "before the swap"])
@pytest.mark.parametrize("void", VOIDS)
def test_a_changed_log_makes_a_round_void(log: CleaningHarness, void: str, is_before: bool) -> None:
    begun = Begun(log)
    if is_before:
        VOIDS[void](log)
        with pytest.raises(CleaningDiscarded):
            begun.run.next_group()
    else:
        cleaned = begun.run.next_group()
        assert cleaned is not None
        VOIDS[void](log)
        with pytest.raises(CleaningDiscarded):
            begun.compaction.swap(cleaned, NOW_MS)
    assert not begun.compaction.finish(begun.run)
    assert log.log.cleaner_offset is None
    assert log.log.cleaning is None
    left = [name for _, _, names in os.walk(log.directory.parent) for name in names]
    # A deleted directory goes with all that is in it.
    assert void == "deletion" or not [name for name in left if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("is_before", [True, False], ids=["before the work", "before the swap"])
def test_retention_may_take_a_source(log: CleaningHarness, is_before: bool) -> None:
    retained = log.log.size_bytes - log.log.segments.first.size
    log.configure(cleanup_policy=frozenset({DELETE, COMPACT}), retention_bytes=retained)
    begun = Begun(log)
    cleaned = None if is_before else begun.run.next_group()
    assert log.log.delete_old_segments(NOW_MS) == 1
    log.delete_files()
    if cleaned is None:
        with pytest.raises(FileNotFoundError) as missing:
            begun.run.next_group()
        assert begun.compaction.misses(missing.value)
    else:
        with pytest.raises(CleaningDiscarded):
            begun.compaction.swap(cleaned, NOW_MS)
    begun.compaction.end()
    assert log.bases == [4, 8, 12]
    assert log.names(".cleaned") == []
    log.clean()
    assert log.bases == [4, 12]


def test_a_later_round_makes_an_earlier_one_void(log: CleaningHarness) -> None:
    earlier = Begun(log)
    cleaned = earlier.run.next_group()
    assert cleaned is not None
    log.clean()
    with pytest.raises(CleaningDiscarded):
        earlier.compaction.swap(cleaned, NOW_MS)
    assert log.log.cleaner_offset == 12


def test_somebody_else_may_give_up(log: CleaningHarness) -> None:
    job = plan_job(log.log, 0, NOW_MS)
    assert job is not None
    with pytest.raises(CleaningDiscarded):
        run_job(job, is_discarded=lambda: True).next_group()


def test_what_is_read_and_written_is_told_to_the_throttle(log: CleaningHarness) -> None:
    told: list[int] = []
    job = plan_job(log.log, 0, NOW_MS)
    assert job is not None
    sources = sum(source.size for source in job.sources)
    run = run_job(job, throttle=told.append)
    while run.next_group() is not None:
        pass
    assert sum(told) == 2 * sources + run.stats.bytes_after


# --- disks


@pytest.mark.parametrize("is_in_swap", [False, True], ids=["writing", "swap"])
def test_a_disk_error_leaves_the_log_whole(log: CleaningHarness, is_in_swap: bool) -> None:
    before = log.kept()
    failure = OSError(errno.EIO, os.strerror(errno.EIO))
    begun = Begun(log)
    if is_in_swap:
        cleaned = begun.run.next_group()
        assert cleaned is not None
        with mock.patch("os.replace", side_effect=failure), pytest.raises(KafkaError) as caught:
            begun.compaction.swap(cleaned, NOW_MS)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(log.failures) == 1
    else:
        with (
            mock.patch("kcli.storage.disk.pwrite", side_effect=failure),
            pytest.raises(OSError, match="error"),
        ):
            begun.run.next_group()
        assert log.names(".cleaned") == []
    log.crash()
    assert log.kept() == before
