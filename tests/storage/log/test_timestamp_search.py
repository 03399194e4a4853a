"""Offsets by time."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.storage.log.log_config import LogConfig
from tests.storage.log_harness import NOW_MS, LogHarness


@pytest.fixture
def timed(log: LogHarness) -> LogHarness:
    """A log of 40 records, ten milliseconds apart, in several segments."""
    for number in range(40):
        log.append(b"x" * 50, timestamp=NOW_MS + number * 10, leader_epoch=number // 20)
    assert len(log.bases) > 2
    return log


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(0, 0), (NOW_MS, 0), (NOW_MS + 1, 1), (NOW_MS + 200, 20), (NOW_MS + 385, 39)]
)
def test_the_first_record_at_or_after_a_time(timed: LogHarness, timestamp: int, offset: int) -> None:
    assert timed.log.offset_for_timestamp(timestamp) == (NOW_MS + offset * 10, offset, offset // 20)
    timed.reopen()
    assert timed.log.offset_for_timestamp(timestamp) == (NOW_MS + offset * 10, offset, offset // 20)


def test_no_record_after_the_last(timed: LogHarness) -> None:
    assert timed.log.offset_for_timestamp(NOW_MS + 391) is None


def test_records_below_the_log_start_do_not_count(timed: LogHarness) -> None:
    timed.log.delete_records_before(7)
    assert timed.log.offset_for_timestamp(0) == (NOW_MS + 70, 7, 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_record_within_a_batch_is_found(log: LogHarness, codec: Codec) -> None:
    log.append(b"a", b"b", b"c", timestamp=NOW_MS, step_ms=10, codec=codec)
    assert log.log.offset_for_timestamp(NOW_MS + 5) == (NOW_MS + 10, 1, 0)
    assert log.log.offset_of_max_timestamp() == (NOW_MS + 20, 2, 0)


def test_an_empty_log_has_no_times(log: LogHarness) -> None:
    assert log.log.offset_for_timestamp(0) is None
    assert log.log.offset_of_max_timestamp() is None


def test_records_without_timestamps_are_not_found(log: LogHarness) -> None:
    log.append(b"a", timestamp=-1)
    assert log.log.offset_for_timestamp(0) is None
    assert log.log.offset_of_max_timestamp() is None


def test_the_largest_timestamp_may_be_anywhere(log: LogHarness) -> None:
    for number in range(60):
        log.append(b"x" * 50, timestamp=NOW_MS + (500 if number in (17, 30) else number))
    assert log.log.offset_of_max_timestamp() == (NOW_MS + 500, 17, 0)
    log.reopen()
    assert log.log.offset_of_max_timestamp() == (NOW_MS + 500, 17, 0)
    log.log.truncate_to(17, now_ms=NOW_MS)
    assert log.log.offset_of_max_timestamp() == (NOW_MS + 16, 16, 0)


def test_version_0_of_list_offsets_knows_segments_by_the_time_of_their_files(timed: LogHarness) -> None:
    for number, segment in enumerate(timed.log.segments):
        os.utime(segment.records.path, (number, number))
    first, second, third = timed.bases[:3]
    assert timed.log.offsets_before(-1, max_offsets=2, now_ms=NOW_MS) == [40, timed.bases[-1]]
    assert timed.log.offsets_before(-2, max_offsets=5, now_ms=NOW_MS) == [0]
    assert timed.log.offsets_before(2500, max_offsets=10, now_ms=NOW_MS) == [third, second, first]
    assert timed.log.offsets_before(1000, max_offsets=1, now_ms=NOW_MS) == [second]
    assert timed.log.offsets_before(NOW_MS, max_offsets=1, now_ms=NOW_MS) == [40]
    timed.log.delete_records_before(5)
    assert timed.log.offsets_before(500, max_offsets=1, now_ms=NOW_MS) == [5]


@given(
    deltas=st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), min_size=1, max_size=40),
    targets=st.lists(st.integers(-5, 310), min_size=1, max_size=10),
    reopen=st.booleans(),
)
@settings(max_examples=60)
def test_searching_agrees_with_looking_at_every_record(
    tmp_path_factory: pytest.TempPathFactory, deltas: list[list[int]], targets: list[int], reopen: bool
) -> None:
    from kcli.protocol.records.batch_builder import RecordBatchBuilder

    log = LogHarness(tmp_path_factory.mktemp("log"), LogConfig(segment_bytes=1500, index_interval_bytes=150))
    made: list[int] = []
    for batch in deltas:
        builder = RecordBatchBuilder()
        for delta in batch:
            builder.append(NOW_MS + delta, b"k", b"x" * 20)
        log.append_batch(builder.build())
        made += [NOW_MS + delta for delta in batch]
    if reopen:
        log.reopen()
    for target in targets:
        expected = next(
            ((time, offset, 0) for offset, time in enumerate(made) if time >= NOW_MS + target), None
        )
        assert log.log.offset_for_timestamp(NOW_MS + target) == expected
    largest = max(made)
    assert log.log.offset_of_max_timestamp() == (largest, made.index(largest), 0)
    log.log.close_handlers()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_too_long_to_read_is_found_by_its_beginning(
    log: LogHarness, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.storage.log.log_segment.MAX_SEARCHED_BYTES", 1000)
    log.append(b"a", b"b", timestamp=NOW_MS, step_ms=10)
    log.append(*[b"c"] * 20, timestamp=NOW_MS + 100, step_ms=10, codec=codec)
    assert log.log.offset_for_timestamp(NOW_MS + 5) == (NOW_MS + 10, 1, 0)
    assert log.log.offset_for_timestamp(NOW_MS + 120) == (NOW_MS + 290, 2, 0)
    assert log.log.offset_of_max_timestamp() == (NOW_MS + 290, 2, 0)
