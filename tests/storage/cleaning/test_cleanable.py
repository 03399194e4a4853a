"""How much of a log can be cleaned, and what bounds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.records.control_records import TransactionMarker
from kcli.storage.cleaning.cleanable import Bound, Cleanable, LogToClean
from kcli.storage.cleaning.segment_groups import MOST_SEGMENTS, Measured, group_segments
from tests.storage.cleaning.cleaning_harness import COMPACTED, CleaningHarness
from tests.storage.log_harness import NOW_MS

MINUTE_MS = 60_000


@pytest.fixture
def log(tmp_path: Path) -> CleaningHarness:
    """Closed segments of one batch each from 0, 1 and 2 on, a minute apart, and an active one from 3 on."""
    log = CleaningHarness(tmp_path)
    for number in range(3):
        log.put((b"key", b"v" * 30), timestamp=NOW_MS + number * MINUTE_MS)
        log.roll()
    log.put((b"key", b"v" * 30), timestamp=NOW_MS + 3 * MINUTE_MS)
    return log


def measured(log: CleaningHarness, now_ms: int = NOW_MS, **options: bool) -> Cleanable:
    return LogToClean(log.log).measure(now_ms, **options)


def test_the_active_segment_is_the_bound(log: CleaningHarness) -> None:
    found = measured(log)
    size = log.path(0).stat().st_size
    assert (found.first_dirty, found.first_uncleanable, found.bound) == (0, 3, Bound.ACTIVE_SEGMENT)
    assert (found.clean_bytes, found.cleanable_bytes, found.ratio) == (0, 3 * size, 1.0)
    assert found.unstable_producer_id is None


@pytest.mark.parametrize(
    ("offset", "first_dirty", "is_invalid"), [(None, 0, False), (2, 2, False), (4, 4, False), (5, 0, True)]
)
def test_the_checkpoint_counts_if_it_lies_in_the_log(
    log: CleaningHarness, offset: int | None, first_dirty: int, is_invalid: bool
) -> None:
    log.log.cleaner_offset = offset
    found = measured(log)
    assert (found.first_dirty, found.has_invalid_checkpoint) == (first_dirty, is_invalid)
    assert found.first_uncleanable == max(first_dirty, 3)


def test_a_checkpoint_below_the_log_start_counts_as_the_start(log: CleaningHarness) -> None:
    log.log.cleaner_offset = 1
    log.log.delete_records_before(2)
    found = measured(log)
    assert (found.first_dirty, found.has_invalid_checkpoint) == (2, True)


def test_records_deleted_up_to_the_active_segment_leave_nothing_to_clean(log: CleaningHarness) -> None:
    log.put((b"key", b"v"))
    log.log.cleaner_offset = 0
    log.log.delete_records_before(4)
    found = measured(log)
    assert (found.first_dirty, found.first_uncleanable, found.cleanable_bytes) == (4, 4, 0)
    assert not found.is_eligible(0.0)


@pytest.mark.parametrize(("offset", "ratio"), [(1, 2 / 3), (2, 1 / 3), (3, 0.0)])
def test_the_ratio_is_that_of_dirty_bytes(log: CleaningHarness, offset: int, ratio: float) -> None:
    log.log.cleaner_offset = offset
    found = measured(log)
    assert found.ratio == pytest.approx(ratio)
    assert [found.is_eligible(least) for least in (0.0, 0.33, 0.5, 1.0)] == [
        ratio > least for least in (0.0, 0.33, 0.5, 1.0)
    ]


def test_an_open_transaction_is_the_bound(log: CleaningHarness) -> None:
    log.put((b"key", b"1"), producer=(7, 0, 0), is_transactional=True)
    log.roll()
    found = measured(log)
    assert (found.first_uncleanable, found.bound) == (4, Bound.LAST_STABLE_OFFSET)
    assert found.unstable_producer_id == 7
    log.end(7, is_commit=True)
    assert measured(log).bound is Bound.ACTIVE_SEGMENT


def test_what_has_just_been_decided_is_young_no_more_than_its_records(log: CleaningHarness) -> None:
    """The age of a transaction is that of its records, the age of its marker counts for the next segment."""
    log.configure(min_compaction_lag_ms=MINUTE_MS)
    log.put((b"key", b"1"), producer=(7, 0, 0), is_transactional=True, timestamp=NOW_MS)
    log.roll()
    later = NOW_MS + 4 * MINUTE_MS
    assert measured(log, later).first_uncleanable == 4
    marker = TransactionMarker(7, 0, 0, False)
    log.log.append_marker(marker, leader_epoch=0, now_ms=later)
    log.log.advance_high_watermark_to_end()
    log.roll()
    log.put((b"key", b"2"), timestamp=later)
    assert (measured(log, later).first_uncleanable, measured(log, later).bound) == (5, Bound.COMPACTION_LAG)
    assert measured(log, later + MINUTE_MS).first_uncleanable == 6


def test_the_high_watermark_is_the_bound(log: CleaningHarness) -> None:
    log.log.set_high_watermark(2)
    found = measured(log)
    assert (found.first_uncleanable, found.bound) == (2, Bound.LAST_STABLE_OFFSET)
    assert found.unstable_producer_id is None
    assert found.cleanable_bytes == 2 * log.path(0).stat().st_size


@pytest.mark.parametrize(
    ("age_ms", "first_uncleanable", "bound"),
    [
        (0, 0, Bound.COMPACTION_LAG),
        (MINUTE_MS, 1, Bound.COMPACTION_LAG),
        (2 * MINUTE_MS, 2, Bound.COMPACTION_LAG),
        (3 * MINUTE_MS, 3, Bound.ACTIVE_SEGMENT),
    ],
)
def test_young_records_are_the_bound(
    log: CleaningHarness, age_ms: int, first_uncleanable: int, bound: Bound
) -> None:
    log.configure(min_compaction_lag_ms=MINUTE_MS)
    found = measured(log, NOW_MS + age_ms)
    assert (found.first_uncleanable, found.bound) == (first_uncleanable, bound)
    assert measured(log, NOW_MS + age_ms, ignore_lag=True).first_uncleanable == 3


@pytest.mark.parametrize("lag_ms", [0, MINUTE_MS // 2])
@pytest.mark.parametrize("cleaner_offset", [None, 2, 4])
@pytest.mark.parametrize("is_open", [False, True])
def test_what_is_measured_as_if_rolled_is_what_a_roll_leads_to(
    log: CleaningHarness, lag_ms: int, cleaner_offset: int | None, is_open: bool
) -> None:
    log.configure(min_compaction_lag_ms=lag_ms)
    log.log.cleaner_offset = cleaner_offset
    if is_open:
        log.put((b"key", b"open"), producer=(7, 0, 0), is_transactional=True)
    now_ms = NOW_MS + 3 * MINUTE_MS
    foreseen = measured(log, now_ms, as_if_rolled=True)
    log.roll()
    assert foreseen == measured(log, now_ms) == measured(log, now_ms, as_if_rolled=True)


def test_old_records_are_overdue(log: CleaningHarness) -> None:
    assert measured(log, NOW_MS * 2).overdue_ms == 0
    log.configure(max_compaction_lag_ms=MINUTE_MS)
    assert measured(log, NOW_MS + MINUTE_MS).overdue_ms == 0
    found = measured(log, NOW_MS + MINUTE_MS + 5)
    assert found.overdue_ms == 5
    assert found.is_eligible(1.0)
    log.log.cleaner_offset = 3
    assert measured(log, NOW_MS + 9 * MINUTE_MS).overdue_ms == 0


def test_an_empty_log_has_nothing_to_clean(tmp_path: Path) -> None:
    found = measured(CleaningHarness(tmp_path, replace(COMPACTED, max_compaction_lag_ms=1)))
    assert (found.total_bytes, found.ratio, found.is_eligible(0.0)) == (0, 0.0, False)


# --- groups

GIB = 2**30


def test_a_group_is_swapped_in_a_moment() -> None:
    segments = [Measured(number, 1, 0, 0) for number in range(MOST_SEGMENTS + 1)]
    found = group_segments(segments, segment_bytes=10**6, index_bytes=60, end_offset=100)
    assert [len(group) for group in found] == [MOST_SEGMENTS, 1]


@pytest.mark.parametrize(
    ("segments", "groups"),
    [
        ([], []),
        ([(0, 40, 8, 12), (10, 60, 8, 12)], [[0, 10]]),
        ([(0, 40, 8, 12), (10, 61, 8, 12)], [[0], [10]]),
        ([(0, 500, 8, 12), (10, 1, 8, 12)], [[0], [10]]),
        ([(0, 40, 30, 12), (10, 40, 30, 12), (20, 20, 30, 12)], [[0, 10], [20]]),
        ([(0, 40, 8, 40), (10, 40, 8, 30), (20, 20, 8, 1)], [[0], [10, 20]]),
        ([(0, 1, 0, 0), (10, 1, 0, 0), (2 * GIB, 1, 0, 0)], [[0, 10], [2 * GIB]]),
        ([(0, 1, 0, 0), (10, 1, 0, 0), (2 * GIB + 1, 1, 0, 0)], [[0], [10, 2 * GIB + 1]]),
        # Without a record the offsets of a segment may be anything.
        ([(0, 1, 0, 0), (10, 0, 0, 0), (3 * GIB, 1, 0, 0)], [[0, 10], [3 * GIB]]),
    ],
)
def test_groups_fit_one_segment(segments: list[tuple[int, int, int, int]], groups: list[list[int]]) -> None:
    end_offset = segments[-1][0] + 5 if segments else 0
    found = group_segments(
        [Measured(*each) for each in segments], segment_bytes=100, index_bytes=60, end_offset=end_offset
    )
    assert [[each.base_offset for each in group] for group in found] == groups
