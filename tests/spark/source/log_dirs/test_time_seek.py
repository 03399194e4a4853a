"""Offsets by time against a look at every record."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.protocol.compression.codecs import Codec
from kcli.protocol.records.batch import iter_batches
from kcli.protocol.records.control_records import ControlRecordType
from kcli.spark.source.log_dirs.replica_log import offset_for_timestamp
from kcli.spark.source.log_dirs.segment import list_segments
from kcli.storage.log.log_config import LogConfig
from tests.forensics.segment_makers import Shape, make_entries
from tests.spark.source.log_dirs.log_dir import ORDERS, LogDir
from tests.storage.log_harness import NOW_MS, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=150)
ENTRY = Struct(">qi")


def brute_force(directory: Path, timestamp: int, start: int, end: int) -> int | None:
    for path in sorted(directory.glob("*.log")):
        for batch in iter_batches(path.read_bytes()):
            for record in batch.records():
                if start <= record.offset < end and record.timestamp >= timestamp:
                    return record.offset
    return None


def make(root: Path, *, steps: tuple[int, ...], append_time: bool = False) -> LogDir:
    """A log of 90 batches whose timestamps go forth by one of the steps each time."""
    kind = "LogAppendTime" if append_time else "CreateTime"
    log = LogDir(root, replace(CONFIG, message_timestamp_type=kind))
    noise, time = random.Random(str(steps)), NOW_MS - 100_000
    for number in range(90):
        time += noise.choice(steps)
        values, step_ms = [b"%d" % number] * noise.randint(1, 4), noise.choice((-3, 0, 5))
        batch = batch_of(*values, timestamp=time, step_ms=step_ms, codec=Codec(number % 5))
        log.append_batch(batch, now_ms=time)
    return log.close()


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("steps", [(10,), (0, 1, 7), (-300, 5, 90), (0,)])
def test_the_earliest_record_of_a_time_is_found(
    tmp_path: Path, steps: tuple[int, ...], append_time: bool
) -> None:
    log = make(tmp_path / "node", steps=steps, append_time=append_time)
    source, end = log.source(), log.ends()[1]
    times = {record.timestamp for record in log.records()}
    for timestamp in sorted({time + delta for time in times for delta in (-1, 0, 1)} | {0, 2**62}):
        expected = brute_force(log.directory, timestamp, 0, end)
        assert source.at_timestamps({ORDERS: timestamp}) == {ORDERS: expected}


def stale(data: bytes) -> bytes:
    return data[: len(data) // 24 * 12]


def zero_padded(data: bytes) -> bytes:
    return data + bytes(12 * 50)


def of_another_log(data: bytes) -> bytes:
    return b"".join(ENTRY.pack(NOW_MS + number * 50, number * 9 + 1) for number in range(12))


def too_early_by_one(data: bytes) -> bytes:
    """Each entry claims that nothing up to an offset is newer than what the entry before it said."""
    rows = list(ENTRY.iter_unpack(data))
    return b"".join(ENTRY.pack(one[0], other[1]) for one, other in pairwise(rows))


def missing(data: bytes) -> None:
    return None


@pytest.mark.parametrize("also_offsets", [False, True])
@pytest.mark.parametrize("change", [stale, zero_padded, of_another_log, too_early_by_one, missing])
def test_a_time_index_that_is_wrong_costs_time_only(
    tmp_path: Path, change: Callable[[bytes], bytes | None], also_offsets: bool
) -> None:
    log = make(tmp_path / "node", steps=(-40, 20, 70))
    for name in log.names(".timeindex"):
        path = log.directory / name
        data = change(path.read_bytes())
        path.unlink()
        if data is not None:
            path.write_bytes(data)
    if also_offsets:
        for name in log.names(".index"):
            (log.directory / name).unlink()
    segments, end = list_segments(str(log.directory)), log.ends()[1]
    times = sorted({record.timestamp for record in log.records()})
    for timestamp in times[::3]:
        for start, stop in ((0, end), (40, end), (41, 99)):
            expected = brute_force(log.directory, timestamp, start, stop)
            assert offset_for_timestamp(segments, timestamp, start, stop) == expected


def test_records_beyond_the_high_watermark_and_below_the_start_do_not_count(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    for number in range(20):
        log.append(b"%d" % number, timestamp=NOW_MS + number)
    log.close(high_watermark=15)
    log.write_log_start(4)
    ask = log.source().at_timestamps
    assert ask({ORDERS: NOW_MS}) == {ORDERS: 4}
    assert ask({ORDERS: NOW_MS + 14}) == {ORDERS: 14}
    assert ask({ORDERS: NOW_MS + 15}) == {ORDERS: None}


def test_markers_count_as_they_do_for_brokers(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    log.write(7, b"data")
    marker = log.end(7, ControlRecordType.COMMIT, NOW_MS + 500)
    log.close()
    assert log.source().at_timestamps({ORDERS: NOW_MS + 500}) == {ORDERS: marker}


def test_where_the_records_cannot_be_read_it_is_where_their_batch_begins(tmp_path: Path) -> None:
    log = LogDir(tmp_path / "node", CONFIG)
    for number in range(4):
        log.append(*[b"%d" % number] * 3, timestamp=NOW_MS + number, codec=Codec.GZIP)
    log.close()
    log.corrupt(0, -20)
    assert log.source().at_timestamps({ORDERS: NOW_MS + 3}) == {ORDERS: 9}


@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4])), max_size=8),
    st.integers(-2, 8),
)
def test_older_formats_are_searched_too(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[tuple[int, Codec]], delta: int
) -> None:
    directory = tmp_path_factory.mktemp("old") / "orders-0"
    directory.mkdir()
    entries = make_entries([Shape(magic, codec) for magic, codec in kinds])
    (directory / f"{0:020d}.log").write_bytes(b"".join(entries))
    timestamp = 1_760_000_000_000 + delta
    expected = brute_force(directory, timestamp, 0, 10**6)
    assert offset_for_timestamp(list_segments(str(directory)), timestamp, 0, 10**6) == expected
