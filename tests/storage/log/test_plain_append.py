"""`append_plain` does what the ordinary append does, or nothing."""

from __future__ import annotations

import errno
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.records.batch import RecordBatch
from kcli.protocol.records.batch_builder import RecordBatchBuilder
from kcli.protocol.records.batch_header import HEADER, HEADER_SIZE, TRANSACTIONAL_BIT, update_crc
from kcli.storage import disk
from kcli.storage.log.log_appender import MAX_RECORDS, NOT_PLAIN, LogAppendInfo
from kcli.storage.log.log_config import COMPACT, LOG_APPEND_TIME, LogConfig
from kcli.storage.log.log_segment import LogSegment
from tests.storage.log_harness import (
    NOW_MS,
    SMALL,
    LogHarness,
    batch_of,
    with_a_long_value,
    with_fields,
    with_more,
)

EPOCH = 3
ROOMY = LogConfig(segment_bytes=2_000_000)


def begun(root: Path, config: LogConfig = ROOMY) -> LogHarness:
    """Return a log with one record of its epoch, and one with a producer id."""
    log = LogHarness(root, config)
    log.append(b"first", leader_epoch=EPOCH)
    log.append(b"0", leader_epoch=EPOCH, producer=(7, 0, 0))
    return log


def put(log: LogHarness, batch: bytearray, *, now_ms: int = NOW_MS, epoch: int = EPOCH) -> int:
    return log.log.append_plain(memoryview(batch), epoch, now_ms)


PLAIN = {
    "one record": batch_of(b"v"),
    "no key": batch_of(b"v", keys=(None,)),
    "no value": batch_of(None),
    "one large record": batch_of(b"v" * 10_000),
    "as large as a batch may be": batch_of(*[b"v" * 10_000] * 104),
    "a thousand records": batch_of(*[b"v"] * 1000),
    "three records": batch_of(b"a", b"b", b"c"),
    "times going back": batch_of(b"a", b"b", timestamp=NOW_MS, step_ms=-5),
    "no time": batch_of(b"v", timestamp=-1),
    "the next sequence": batch_of(b"v", producer=(7, 0, 1)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_batch_is_appended(name: str, tmp_path: Path) -> None:
    log = begun(tmp_path)
    batch = bytearray(PLAIN[name])
    assert put(log, batch) == 2
    assert RecordBatch(batch).is_valid_crc()
    assert batch == with_fields(bytearray(PLAIN[name]), base_offset=2, leader_epoch=EPOCH)
    assert log.path(0).read_bytes().endswith(batch)
    assert log.log.log_end_offset == 2 + RecordBatch(batch).count


NOT_ONE_FOR_HERE = {
    "compressed": (batch_of(b"v" * 100, codec=Codec.LZ4), {}),
    "several batches": (batch_of(b"v") + batch_of(b"v"), {}),
    "cut": (batch_of(b"v")[:-1], {}),
    "a header only": (batch_of(b"v")[:HEADER_SIZE], {}),
    "part of a header": (batch_of(b"v")[:30], {}),
    "nothing": (bytearray(), {}),
    "many records": (batch_of(*[b""] * (MAX_RECORDS + 1)), {}),
    "a value reaching into the next record": (with_a_long_value(100), {}),
    "the same in a large batch": (with_a_long_value(9000), {}),
    "bytes behind the last record": (with_more(batch_of(b"v"), b"\0"), {}),
    "a time to come in the last record": (
        with_fields(batch_of(b"a", b"b", step_ms=2**40), max_timestamp=NOW_MS),
        {},
    ),
    "wrong checksum": (with_fields(batch_of(b"v"), crc=1), {}),
    "an offset": (with_fields(batch_of(b"v"), base_offset=1), {}),
    "magic 1": (with_fields(batch_of(b"v"), magic=1), {}),
    "transactional": (with_fields(batch_of(b"v"), attributes=TRANSACTIONAL_BIT), {}),
    "no records": (with_fields(batch_of(b"v"), count=0), {}),
    "a count below": (with_fields(batch_of(b"v"), last_offset_delta=-1, count=0), {}),
    "a count beyond": (with_fields(batch_of(b"v"), last_offset_delta=1, count=2), {}),
    "fewer offsets": (with_fields(batch_of(b"v", b"w"), last_offset_delta=0), {}),
    "another max timestamp": (with_fields(batch_of(b"v"), max_timestamp=NOW_MS + 1), {}),
    "a time before any": (with_fields(batch_of(b"v"), base_timestamp=-5, max_timestamp=-5), {}),
    "a time to come": (batch_of(b"v", timestamp=NOW_MS + 3_600_001), {}),
    "a producer not known": (batch_of(b"v", producer=(8, 0, 0)), {}),
    "a sequence left out": (batch_of(b"v", producer=(7, 0, 2)), {}),
    "a repeated batch": (batch_of(b"0", producer=(7, 0, 0)), {}),
    "another producer epoch": (batch_of(b"v", producer=(7, 1, 1)), {}),
    "another leader epoch": (batch_of(b"v"), {"epoch": EPOCH + 1}),
}


@pytest.mark.parametrize("name", NOT_ONE_FOR_HERE)
def test_anything_else_changes_nothing(name: str, tmp_path: Path) -> None:
    log = begun(tmp_path)
    data, arguments = NOT_ONE_FOR_HERE[name]
    batch = bytearray(data)
    before = state_of(log)
    assert put(log, batch, **arguments) == NOT_PLAIN
    assert batch == data
    assert state_of(log) == before


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(cleanup_policy=frozenset({COMPACT})),
        LogConfig(message_timestamp_type=LOG_APPEND_TIME),
        LogConfig(message_timestamp_before_max_ms=10),
        LogConfig(compression_type="zstd"),
        LogConfig(max_message_bytes=60),
    ],
    ids=["compacted", "append time", "oldest time", "a codec", "small batches only"],
)
def test_topics_that_demand_more_are_not_for_here(config: LogConfig, tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.log.update_config(config)
    assert put(log, batch_of(b"v")) == NOT_PLAIN


def test_the_first_record_of_a_segment_goes_the_ordinary_way(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.log.roll(now_ms=NOW_MS)
    assert put(log, batch_of(b"v")) == NOT_PLAIN
    log.append(b"v", leader_epoch=EPOCH)
    log.append(b"v", leader_epoch=EPOCH)
    assert put(log, batch_of(b"v")) == 4


ROLLS = {
    "full of bytes": (replace(ROOMY, segment_bytes=250), NOW_MS),
    "old": (replace(ROOMY, segment_ms=10), NOW_MS + 11),
    "full of index entries": (replace(ROOMY, segment_index_bytes=24, index_interval_bytes=0), NOW_MS),
}


@pytest.mark.parametrize("name", ROLLS)
def test_a_roll_is_left_to_the_ordinary_way(name: str, tmp_path: Path) -> None:
    config, timestamp = ROLLS[name]
    log = begun(tmp_path, config)
    batch = batch_of(b"v" * 100, timestamp=timestamp)
    assert put(log, batch) == NOT_PLAIN
    assert len(log.log.segments) == 1
    log.append_batch(batch, leader_epoch=EPOCH)
    assert len(log.log.segments) == 2


def test_a_shorter_segment_ms_counts_at_once(tmp_path: Path) -> None:
    log = begun(tmp_path)
    log.append(b"v", leader_epoch=EPOCH)
    assert put(log, batch_of(b"v", timestamp=NOW_MS + 100)) != NOT_PLAIN
    log.log.update_config(replace(ROOMY, segment_ms=50))
    log.append(b"v", leader_epoch=EPOCH, timestamp=NOW_MS)
    assert put(log, batch_of(b"v", timestamp=NOW_MS + 100)) == NOT_PLAIN


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = begun(tmp_path)
    log.append(b"v", leader_epoch=EPOCH)
    before = state_of(log)

    def pwrite(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "pwrite", pwrite)
        with pytest.raises(KafkaError) as refused:
            put(log, batch_of(b"v"))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert state_of(log) == before
    assert len(log.failures) == 1
    assert put(log, batch_of(b"v")) == NOT_PLAIN


# --- against the ordinary way


def state_of(log: LogHarness) -> object:
    """Return the state that an append changes, in memory and in the log files."""
    active = log.log.segments.active
    return (
        log.log.log_end_offset,
        log.log.leader_epochs.entries(),
        log.log.producer_state.map_end_offset,
        repr(log.log.active_producers()),
        [
            (each.base_offset, each.indexes.offsets.entries(), each.indexes.times.entries())
            for each in log.log.segments
        ],
        (active.indexes.max_timestamp, active.indexes.offset_of_max_timestamp, active.tail),
        [
            Path(LogSegment.paths(str(log.directory), each.base_offset)[0]).read_bytes()
            for each in log.log.segments
        ],
    )


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Return a batch that is usually plain, of a producer that usually keeps its sequence, or damaged."""
    producer_id = draw(st.sampled_from([-1, -1, -1, 7, 8]))
    builder = RecordBatchBuilder(
        codec=draw(st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP])),
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else draw(st.sampled_from([0, 0, 0, 1])),
        base_sequence=-1 if producer_id < 0 else draw(st.integers(0, 4)),
    )
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 5]))):
        timestamp = NOW_MS + draw(st.integers(-300, 300))
        key = draw(st.none() | st.binary(max_size=70))
        headers = draw(st.just([]) | st.just([("h", b"v")]))
        builder.append(timestamp, key, draw(st.none() | st.binary(max_size=200)), headers)
    batch = bytearray(builder.build())
    if draw(st.integers(0, 9)) == 9:
        batch[draw(st.integers(0, len(batch) - 1))] ^= 1 << draw(st.integers(0, 7))
        is_whole = len(batch) >= HEADER_SIZE and HEADER.unpack_from(batch)[1] + 12 == len(batch)
        if draw(st.booleans()) and is_whole:
            update_crc(batch, 0)
    return bytes(batch)


def outcome(log: LogHarness, records: bytearray | memoryview, epoch: int) -> object:
    try:
        info: LogAppendInfo = log.log.append_as_leader(records, leader_epoch=epoch, now_ms=NOW_MS)
    except KafkaError as error:
        return error.code, error.message
    return {name: getattr(info, name) for name in LogAppendInfo.__slots__}


@given(
    st.lists(st.tuples(batches(), st.sampled_from([EPOCH] * 9 + [EPOCH + 1])), max_size=20),
    st.sampled_from([SMALL, ROOMY, replace(SMALL, segment_ms=400), replace(SMALL, segment_index_bytes=24)]),
)
def test_both_ways_lead_to_the_same(appends: list[tuple[bytes, int]], config: LogConfig) -> None:
    with tempfile.TemporaryDirectory() as root:
        logs = []
        for name in ("plain", "ordinary"):
            (Path(root) / name).mkdir()
            logs.append(LogHarness(Path(root) / name, config))
        plain, ordinary = logs
        for data, epoch in appends:
            # Only a memoryview, as requests are, may go the short way.
            taken = outcome(plain, memoryview(bytearray(data)), epoch)
            assert taken == outcome(ordinary, bytearray(data), epoch)
        assert state_of(plain) == state_of(ordinary)
        for log in logs:
            log.log.close_handlers()
