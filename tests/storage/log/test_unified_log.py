"""Appends to a log as leader and as follower, and rolls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.message_set import MessageSetBuilder
from kcli.storage.log.log_config import LOG_APPEND_TIME, LogConfig
from kcli.storage.log.log_read import Isolation
from tests.storage.log_harness import NOW_MS, SMALL, LogHarness, batch_of

# --- append


def test_an_append_tells_where_it_went(log: LogHarness) -> None:
    log.append(b"a")
    info = log.append(b"b", b"c", timestamp=NOW_MS - 5, step_ms=1)
    assert (info.first_offset, info.last_offset) == (1, 2)
    assert (info.max_timestamp, info.log_append_time) == (NOW_MS - 4, -1)
    assert (info.log_start_offset, info.duplicate) == (0, False)
    assert info.size == len(batch_of(b"b", b"c"))
    assert log.values() == [b"a", b"b", b"c"]
    assert [record.offset for record in log.records()] == [0, 1, 2]


def test_nothing_to_append_is_no_append(log: LogHarness) -> None:
    info = log.append_batch(bytearray())
    assert (info.first_offset, info.last_offset, info.size) == (-1, -1, 0)
    assert log.log.log_end_offset == 0


def test_batches_carry_the_leader_epoch(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=3)
    log.append(b"b", leader_epoch=3)
    log.append(b"c", leader_epoch=8)
    assert [batch.partition_leader_epoch for batch in log.batches()] == [3, 3, 8]
    assert log.log.leader_epochs.entries() == [(3, 0), (8, 2)]
    assert log.log.end_offset_for_epoch(5) == (3, 2)
    assert log.log.end_offset_for_epoch(8) == (8, 3)


def test_append_time_is_told(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, replace(SMALL, message_timestamp_type=LOG_APPEND_TIME))
    info = log.append_batch(batch_of(b"a", timestamp=3), now_ms=NOW_MS + 7)
    assert (info.log_append_time, info.max_timestamp) == (NOW_MS + 7, NOW_MS + 7)
    assert log.records()[0].timestamp == NOW_MS + 7


def test_records_above_the_segment_size_are_refused(log: LogHarness) -> None:
    with pytest.raises(KafkaError) as refused:
        log.append(b"x" * 2000)
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log.log_end_offset == 0
    assert log.path(0).stat().st_size == 0


def test_a_retried_batch_is_written_once(log: LogHarness) -> None:
    for sequence in range(0, 14, 2):
        log.append(b"a", b"b", producer=(7, 0, sequence))
    size = log.log.size_bytes
    info = log.append(b"a", b"b", producer=(7, 0, 6))
    assert (info.first_offset, info.last_offset, info.duplicate) == (6, 7, True)
    assert log.log.size_bytes == size
    with pytest.raises(KafkaError) as refused:
        log.append(b"a", b"b", producer=(7, 0, 2))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_refused_batch_leaves_no_trace(log: LogHarness) -> None:
    log.append(b"a", producer=(7, 3, 0))
    before = (log.log.size_bytes, log.log.leader_epochs.entries(), repr(log.log.active_producers()))
    with pytest.raises(KafkaError):
        log.append(b"b", producer=(7, 2, 1), leader_epoch=9)
    assert (log.log.size_bytes, log.log.leader_epochs.entries(), repr(log.log.active_producers())) == before


def test_the_buffer_is_free_after_an_append(log: LogHarness) -> None:
    batch = batch_of(b"a")
    log.append_batch(batch)
    batch[:] = bytes(len(batch))
    batch.clear()
    assert log.values() == [b"a"]


def test_older_formats_are_stored_as_batches(log: LogHarness) -> None:
    log.append(b"before")
    builder = MessageSetBuilder(0, codec=Codec.GZIP)
    builder.append(-1, b"k", b"old")
    info = log.append_batch(bytearray(builder.build()))
    assert (info.first_offset, info.last_offset, info.max_timestamp) == (1, 1, -1)
    assert log.values() == [b"before", b"old"]


# --- follower


def leaders_bytes(log: LogHarness, offset: int = 0) -> bytes:
    read = log.log.read(offset, 1 << 20, isolation=Isolation.LOG_END)
    assert read.file_slice is not None
    return read.file_slice.read()


def test_a_follower_takes_what_the_leader_has(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = LogHarness(tmp_path / "a"), LogHarness(tmp_path / "b")
    leader.append(b"a", b"b", producer=(7, 0, 0), leader_epoch=1)
    leader.append(b"c", producer=(7, 0, 2), leader_epoch=2)
    info = follower.log.append_as_follower(leaders_bytes(leader), now_ms=NOW_MS)
    assert (info.first_offset, info.last_offset) == (0, 2)
    assert follower.path(0).read_bytes() == leader.path(0).read_bytes()
    assert follower.log.leader_epochs.entries() == [(1, 0), (2, 2)]
    assert repr(follower.log.active_producers()) == repr(leader.log.active_producers())


def test_a_follower_accepts_holes_but_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    leader, follower = LogHarness(tmp_path / "a"), LogHarness(tmp_path / "b")
    leader.fill(3)
    first, second, third = (batch.to_bytes() for batch in leader.batches())
    follower.log.append_as_follower(first + third + second[:50], now_ms=NOW_MS)
    assert follower.log.log_end_offset == 3
    for again in (second, third):
        with pytest.raises(KafkaError) as refused:
            follower.log.append_as_follower(again, now_ms=NOW_MS)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_checks_checksums(log: LogHarness) -> None:
    batch = batch_of(b"a")
    batch[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        log.log.append_as_follower(batch, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_stores_older_formats(log: LogHarness) -> None:
    log.append(b"a", leader_epoch=4)
    builder = MessageSetBuilder(1, base_offset=1)
    builder.append(NOW_MS, b"k", b"old")
    log.log.append_as_follower(builder.build(), now_ms=NOW_MS)
    assert log.log.log_end_offset == 2
    assert log.log.leader_epochs.entries() == []


# --- roll


def test_a_full_segment_is_followed_by_another(log: LogHarness) -> None:
    log.fill(40)
    assert len(log.bases) > 2
    assert all(segment.size <= SMALL.segment_bytes for segment in log.log.segments)
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(40)]
    assert log.names(".snapshot") == [f"{base:020d}.snapshot" for base in log.bases[1:]]


def test_old_segments_are_rolled_by_record_time(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_ms=1000))
    log.append(b"a", timestamp=NOW_MS)
    log.append(b"b", timestamp=NOW_MS + 1000)
    assert log.bases == [0]
    log.append(b"c", timestamp=NOW_MS + 1001)
    assert log.bases == [0, 2]


@pytest.mark.parametrize(("policy", "bases"), [("delete", [0]), ("compact", [0, 1])])
def test_a_compacted_log_rolls_before_its_records_are_overdue(
    policy: str, bases: list[int], tmp_path: Path
) -> None:
    policies = frozenset({policy})
    log = LogHarness(tmp_path, LogConfig(cleanup_policy=policies, segment_ms=1000, max_compaction_lag_ms=500))
    log.append(b"a", timestamp=NOW_MS)
    log.append(b"b", timestamp=NOW_MS + 501)
    assert log.bases == bases


def test_segments_without_timestamps_are_rolled_by_the_clock(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_ms=1000))
    log.append(b"a", timestamp=-1)
    log.append_batch(batch_of(b"b", timestamp=-1), now_ms=NOW_MS + 1000)
    assert log.bases == [0]
    log.append_batch(batch_of(b"c", timestamp=-1), now_ms=NOW_MS + 1001)
    assert log.bases == [0, 2]


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = LogHarness(tmp_path, LogConfig(segment_index_bytes=40, index_interval_bytes=100))
    log.fill(30)
    assert len(log.bases) > 2
    assert log.values() == [b"%d-" % n + b"x" * 50 for n in range(30)]


def test_offsets_too_far_from_the_base_roll(log: LogHarness) -> None:
    log.append(b"a")
    far = batch_of(b"b")
    far[0:8] = (2**31).to_bytes(8, "big")
    log.log.append_as_follower(far, now_ms=NOW_MS)
    assert log.bases == [0, 2**31]
    assert log.log.log_end_offset == 2**31 + 1


def test_an_empty_segment_is_rolled_onto_itself(log: LogHarness) -> None:
    log.log.roll(now_ms=NOW_MS)
    log.log.roll(now_ms=NOW_MS)
    assert log.bases == [0]
    log.append(b"a")
    assert log.values() == [b"a"]


def test_a_file_in_the_way_of_a_segment_goes(log: LogHarness) -> None:
    log.append(b"a")
    log.path(1, ".index").write_bytes(b"leftover")
    log.log.roll(now_ms=NOW_MS)
    log.append(b"b")
    assert log.values() == [b"a", b"b"]
    assert any("in the way" in report for report in log.reports)


def test_index_files_are_complete_once_rolled(log: LogHarness) -> None:
    log.fill(40)
    segment = log.log.segments.first
    assert log.path(0, ".index").stat().st_size == 8 * len(segment.indexes.offsets) > 0
    assert log.path(0, ".timeindex").stat().st_size == 12


@pytest.mark.parametrize("sequence", [0, 5, 2**31 - 3, 2**31 - 1])
def test_sequences_wrap_and_retries_are_known_around_it(log: LogHarness, sequence: int) -> None:
    following = sequence
    for _ in range(4):
        log.append(b"a", b"b", producer=(7, 0, following))
        following = (following + 2) & 0x7FFFFFFF
    assert log.append(b"a", b"b", producer=(7, 0, sequence)).first_offset == 0
    for restart in (log.crash, log.reopen):
        restart()
        assert log.append(b"a", b"b", producer=(7, 0, (following - 2) & 0x7FFFFFFF)).duplicate
        log.append(b"a", b"b", producer=(7, 0, following))
        following = (following + 2) & 0x7FFFFFFF


def test_configurations_change_on_the_fly(log: LogHarness) -> None:
    log.append(b"a" * 500)
    log.log.update_config(replace(SMALL, max_message_bytes=100))
    with pytest.raises(KafkaError) as refused:
        log.append(b"a" * 500)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_renamed_directory_goes_on(log: LogHarness) -> None:
    log.fill(40)
    log.log.rename_directory("orders-0.renamed")
    log.directory = log.directory.parent / "orders-0.renamed"
    log.fill(40)
    assert len(log.values()) == 80
    log.reopen()
    assert len(log.values()) == 80
