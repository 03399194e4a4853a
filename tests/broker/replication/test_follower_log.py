"""Logs of replicas that parted, in whatever way, become their leader's: bytes, epochs and producers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.broker.replication import follower_log
from kcli.broker.replication.fetch_data import FetchPartition
from kcli.broker.replication.partition import Partition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition
from kcli.storage.log.log_config import LogConfig, LogSettings
from kcli.storage.log.log_loader import load_log
from kcli.storage.log.log_read import Isolation
from kcli.storage.log.unified_log import UnifiedLog
from tests.storage.log_harness import NOW_MS, batch_of

CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)

REIGN = st.tuples(
    st.integers(0, 2),  # who leads, elected unclean if need be
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([-1, 7, 8])), max_size=4),  # what it writes
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700)), max_size=3),  # who copies how much
    st.booleans(),  # whether its oldest records go
)


def make_log(root: Path, number: int) -> UnifiedLog:
    directory = root / str(number) / "t-0"
    directory.mkdir(parents=True)
    return load_log(
        str(directory),
        TopicPartition("t", 0),
        topic_id=None,
        settings=LogSettings(config=CONFIG, report=lambda _: None, on_failure=lambda _, why: None),
        now_ms=NOW_MS,
    )


def lead(log: UnifiedLog, epoch: int, writes: list[tuple[int, int]]) -> None:
    log.leader_epochs.assign(epoch, log.log_end_offset)
    for count, producer_id in writes:
        producer = None
        if producer_id >= 0:
            known = log.producer_state.producers.get(producer_id)
            producer = (producer_id, 0, 0 if known is None else known.last_sequence + 1)
        values = [b"%d of %d" % (number, epoch) for number in range(count)]
        log.append_as_leader(batch_of(*values, producer=producer), leader_epoch=epoch, now_ms=NOW_MS)


def copy(follower: UnifiedLog, leader: UnifiedLog, max_bytes: int) -> None:
    """Fetch as a follower does, until there is no more or `max_bytes` were copied."""
    host: Any = SimpleNamespace(node_id=1, touch=None)
    partition = Partition(TopicPartition("t", 0), bytes(16), log=leader, context=host, submit=host.touch)
    for _ in range(1000):
        epoch = follower.leader_epochs.latest_epoch
        row = FetchPartition("t", bytes(16), 0, follower.log_end_offset, 200, -1, epoch)
        try:
            fetched = partition.read(row, isolation=Isolation.LOG_END, max_bytes=200, min_one=True)
        except KafkaError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            follower_log.fit(follower, leader.log_start_offset, leader.log_end_offset, now_ms=NOW_MS)
            continue
        if fetched.diverging is not None:
            follower_log.truncate_to_epoch(follower, *fetched.diverging, now_ms=NOW_MS)
            continue
        follower_log.follow_offsets(follower, high_watermark=0, log_start_offset=leader.log_start_offset)
        if not fetched.size or max_bytes <= 0:
            return
        data = fetched.records.read()  # type: ignore[union-attr]
        follower_log.append(follower, memoryview(bytearray(data)), now_ms=NOW_MS)
        max_bytes -= len(data)
    raise AssertionError("the logs do not become one")


def contents(log: UnifiedLog, offset: int) -> bytes:
    found = []
    while offset < log.log_end_offset:
        read = log.read(offset, 1, isolation=Isolation.LOG_END)
        assert read.file_slice is not None
        data = read.file_slice.read()
        found.append(data)
        offset = int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big") + 1
    return b"".join(found)


def state(log: UnifiedLog, start: int) -> object:
    producers = {
        each.producer_id: (each.producer_epoch, each.last_sequence, each.last_offset)
        for each in log.active_producers()
        if each.last_offset >= start
    }
    # An epoch without records is known only where it was led.
    epochs = [(e, max(at, start)) for e, at in log.leader_epochs.entries() if at < log.log_end_offset]
    of_start = [epoch for epoch, at in epochs if at == start][-1:]
    epochs = [(epoch, at) for epoch, at in epochs if at > start or epoch in of_start]
    return log.log_end_offset, contents(log, start), epochs, producers


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(REIGN, min_size=1, max_size=7))
def test_replicas_that_parted_become_one(reigns: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as root:
        logs = [make_log(Path(root), number) for number in range(3)]
        for epoch, (number, writes, copies, is_cut) in enumerate(reigns):
            leader = logs[number]
            lead(leader, epoch, writes)
            for follower, max_bytes in copies:
                if follower != number:
                    copy(logs[follower], leader, max_bytes)
            if is_cut:
                leader.set_high_watermark(leader.log_end_offset)
                leader.delete_records_before((leader.log_start_offset + leader.log_end_offset) // 2)
        lead(leader, len(reigns), [(1, -1)])
        for log in logs:
            if log is not leader:
                copy(log, leader, 1 << 30)
        start = max(log.log_start_offset for log in logs)
        assert state(logs[0], start) == state(logs[1], start) == state(logs[2], start)
        for log in logs:
            log.close_handlers()
