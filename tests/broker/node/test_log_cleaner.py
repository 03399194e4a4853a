"""LogCleaner: what it chooses and when, what makes it stop, and compaction in days that pass at once."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.protocol.configs import ConfigOperation, ConfigResourceType
from kcli.protocol.topics import TopicPartition
from kcli.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT, read_offsets
from kcli.storage.cleaning.cleanable import Cleanable, LogToClean
from kcli.storage.log_paths import CLEANED_SUFFIX
from tests.broker.node.cleaning import Cleaning, latest, records, set_config, slow
from tests.broker.records import batch
from tests.broker.schedules.simulated_cluster import no_threads
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.storage.log.unified_log import UnifiedLog

DAY_MS = 24 * 60 * 60 * 1000
T0 = TopicPartition("t", 0)


def test_each_key_keeps_its_last_value_and_its_offset(cleaning: Cleaning, tmp_path: Path) -> None:
    log = cleaning.create()
    cleaning.update(3, 20)
    before, active = latest(log), log.segments.active.base_offset
    report = cleaning.clean()
    assert report is not None
    assert latest(log) == before
    closed = [offset for offset, _, _ in records(log) if offset < active]
    assert len(closed) == 3
    assert (report.first_dirty_offset, report.end_offset, report.stats.superseded) == (0, active, active - 3)
    assert read_offsets(str(tmp_path / CLEANER_OFFSET_CHECKPOINT)) == {T0: active}
    assert cleaning.clean() is None


def test_the_log_with_the_largest_share_of_dirty_bytes_is_first(cleaning: Cleaning) -> None:
    for name, times in (("a", 20), ("b", 60), ("c", 20)):
        cleaning.create(name)
        cleaning.update(1, times, name)
    assert [cleaning.clean() is not None for _ in range(4)] == [True, True, True, False]
    cleaning.update(2, 10, "b")
    cleaning.update(20, 4, "a")
    reports = [cleaning.clean(), cleaning.clean(), cleaning.clean()]
    names = [each.topic_partition.topic for each in reports if each is not None]
    assert names == ["a", "b"]


def test_a_log_waits_until_it_is_dirty_enough(cleaning: Cleaning) -> None:
    log = cleaning.create(min_cleanable_dirty_ratio="0.9")
    cleaning.update(60, 1)
    assert cleaning.here(log).stats.superseded == 0
    cleaning.update(60, 1)
    assert cleaning.clean() is None
    set_config(cleaning.node, "t", "min.cleanable.dirty.ratio", "0.3")
    assert cleaning.clean() is not None


def test_neither_the_active_segment_nor_a_log_with_another_policy_is_due(cleaning: Cleaning) -> None:
    cleaning.create("plain", cleanup_policy="delete")
    cleaning.update(1, 60, "plain")
    cleaning.create("small", internal_segment_bytes="1000000")
    cleaning.update(1, 60, "small")
    assert cleaning.clean() is None
    set_config(cleaning.node, "plain", "cleanup.policy", "compact,delete")
    report = cleaning.clean()
    assert report is not None
    assert report.topic_partition.topic == "plain"


def test_a_tombstone_goes_a_day_after_the_compaction_that_met_it_first(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.put("gone", b"value")
    cleaning.put("gone", None)
    cleaning.update(1, 30)
    first = cleaning.here(log)
    assert (first.stats.horizons, first.stats.tombstones) == (1, 0)
    cleaning.node.now_ms += DAY_MS - 1
    cleaning.update(1, 30)
    assert cleaning.here(log).stats.tombstones == 0
    assert latest(log)[b"gone"] == (1, None)
    cleaning.node.now_ms += 1
    cleaning.update(1, 30)
    assert cleaning.here(log).stats.tombstones == 1
    assert b"gone" not in latest(log)


def test_young_records_are_safe_from_compaction(cleaning: Cleaning) -> None:
    log = cleaning.create(min_compaction_lag_ms=str(DAY_MS))
    cleaning.update(1, 30)
    assert cleaning.clean() is None
    nothing = cleaning.here(log)
    assert (nothing.first_dirty_offset, nothing.end_offset, nothing.bound.name) == (0, 0, "COMPACTION_LAG")
    assert cleaning.here(log, ignores_lag=True, is_dry_run=True).stats.superseded > 0
    cleaning.node.now_ms += DAY_MS
    assert cleaning.clean() is not None


def test_a_record_that_waits_too_long_makes_a_clean_log_due(cleaning: Cleaning) -> None:
    log = cleaning.create(max_compaction_lag_ms=str(DAY_MS), min_cleanable_dirty_ratio="0.9")
    cleaning.update(60, 1)
    cleaning.here(log)
    cleaning.update(3, 8)
    cleaning.node.now_ms += DAY_MS
    assert cleaning.clean() is None
    cleaning.node.now_ms += 1
    cleaning.put("k1", b"rolls the segment, which is too old")
    assert cleaning.clean() is not None
    assert {key for _, key, _ in records(log)} == {b"k%d" % number for number in range(60)}


def test_only_what_a_policy_says_applies(cleaning: Cleaning) -> None:
    """Age deletes segments of `compact,delete` and no others, and both leave what is in the active one."""
    both, compacted = (
        cleaning.create("both", cleanup_policy="compact,delete", retention_ms="1000"),
        cleaning.create("compacted", retention_ms="1000"),
    )
    for name in ("both", "compacted"):
        cleaning.update(3, 20, name)
    cleaning.node.now_ms += 1001
    for name in ("both", "compacted"):
        cleaning.put("new", b"value", name)
    cleaning.node.log_manager.apply_retention(cleaning.node.now_ms)
    assert [log.log_start_offset > 0 for log in (both, compacted)] == [True, False]
    cleaning.clean()
    cleaning.clean()
    assert set(latest(compacted)) == {b"k0", b"k1", b"k2", b"new"}


async def test_damage_makes_a_log_uncleanable_and_no_other(
    cleaning: Cleaning, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bad", "good"):
        cleaning.create(name)
        cleaning.update(1, 60 if name == "bad" else 30, name)
    bad, good = (cleaning.node.log_manager.get(name, 0) for name in ("bad", "good"))
    assert bad is not None
    assert good is not None
    os.pwrite(bad.segments.first.records.handle.descriptor, b"\x09", 16)  # the magic
    async with cleaning.running():
        await until(lambda: good.cleaner_offset is not None)
        assert cleaning.cleaner.due(cleaning.node.now_ms) is None
    assert (bad.cleaner_offset, good.cleaner_offset) == (None, good.segments.active.base_offset)
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert told == ["bad-0 is not compacted any more until the node starts again"]
    assert cleaned_files(bad) == []


async def test_an_error_of_the_disk_takes_the_directory_offline(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    os.mkdir(f"{log.directory}/00000000000000000000.log{CLEANED_SUFFIX}")
    async with cleaning.running():
        await cleaning.ended()
    assert [each.is_online for each in cleaning.node.log_manager.directories] == [False]
    assert log.failure is not None
    assert "cannot compact t-0" in log.failure


@pytest.mark.parametrize("change", ["policy", "deletion", "truncation", "stop"])
async def test_what_makes_a_round_void_ends_it_at_once(change: str, cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    before, active = records(log), log.segments.active.base_offset
    slow(cleaning)
    async with cleaning.running() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        assert log.cleaning is not None
        match change:
            case "policy":
                set_config(cleaning.node, "t", "cleanup.policy", "delete")
            case "deletion":
                cleaning.node.controller.delete_topics([cleaning.node.image.topics["t"].topic_id])
            case "truncation":
                log.truncate_to(active, now_ms=cleaning.node.now_ms)
            case "stop":
                nursery.cancel_scope.cancel()
        if change != "stop":
            await cleaning.ended()
    assert log.cleaning is None
    assert log.cleaner_offset is None
    if change != "deletion":
        assert records(log) == before[: len(before) if change != "truncation" else active]
    assert cleaned_files(log) == []


async def test_a_paused_node_does_not_compact(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    slow(cleaning)
    async with cleaning.running():
        await trio.testing.wait_all_tasks_blocked()
        cleaning.node.gate.close()
        cleaning.node.config = BrokerConfig.from_properties({})
        await trio.testing.wait_all_tasks_blocked()
        assert log.cleaning is not None
        cleaning.node.gate.open()
        await cleaning.ended()
    assert log.cleaner_offset == log.segments.active.base_offset


async def test_as_many_logs_are_compacted_at_a_time_as_there_are_threads(cleaning: Cleaning) -> None:
    logs = [cleaning.create(name) for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        cleaning.update(1, 60, name)
    slow(cleaning)
    async with cleaning.running():
        await trio.testing.wait_all_tasks_blocked()
        assert sum(log.cleaning is not None for log in logs) == 1
        two = {"log.cleaner.threads": "2", "log.cleaner.io.max.bytes.per.second": "1"}
        cleaning.node.config = BrokerConfig.from_properties(two)
        cleaning.cleaner.wake()
        await trio.testing.wait_all_tasks_blocked()
        assert sum(log.cleaning is not None for log in logs) == 2
        cleaning.node.config = BrokerConfig.from_properties({})
        await until(lambda: all(log.cleaner_offset is not None for log in logs))
    assert [log.cleaner_offset for log in logs] == [log.segments.active.base_offset for log in logs]


def test_a_checkpoint_outside_of_the_log_counts_as_none(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    log.cleaner_offset = 1000
    report = cleaning.clean()
    assert report is not None
    assert report.first_dirty_offset == 0


def test_more_keys_than_there_is_memory_for_take_more_rounds(cleaning: Cleaning) -> None:
    little = {"log.cleaner.io.buffer.load.factor": "0.01", "log.cleaner.dedupe.buffer.size": "1048577"}
    cleaning.node.config = BrokerConfig.from_properties({**little, "log.cleaner.io.buffer.size": "0"})
    log = cleaning.create(min_cleanable_dirty_ratio="0")
    cleaning.update(200, 3)
    before, active = latest(log), log.segments.active.base_offset
    reports = []
    while (report := cleaning.clean()) is not None:
        reports.append(report)
    assert {each.bound.name for each in reports[:-1]} == {"FULL_MAP"}
    assert [each.first_dirty_offset for each in reports[1:]] == [each.end_offset for each in reports[:-1]]
    assert (reports[-1].bound.name, reports[-1].end_offset) == ("ACTIVE_SEGMENT", active)
    assert len(reports) > 3
    assert latest(log) == before


def test_an_open_transaction_bounds_a_round(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 30)
    producer = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    log.append_as_leader(
        bytearray(batch(b"open", timestamp=cleaning.node.now_ms, **producer)),
        leader_epoch=log.leader_epochs.latest_epoch,
        now_ms=cleaning.node.now_ms,
    )
    log.advance_high_watermark_to_end()
    cleaning.update(1, 60)
    report = cleaning.here(log)
    assert (report.bound.name, report.end_offset, report.producer_id) == ("LAST_STABLE_OFFSET", 30, 4711)
    assert [offset for offset, _, _ in records(log)][:2] == [29, 30]


def cleaned_files(log: UnifiedLog) -> list[str]:
    return [name for name in os.listdir(log.directory) if name.endswith(CLEANED_SUFFIX)]


async def test_a_broker_looks_for_something_to_compact_all_the_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Its cleaner starts with the first closed segment, and a shorter pause counts at once."""
    with no_threads():
        async with running_cluster(tmp_path, log_cleaner_backoff_ms="60000") as cluster:
            (broker,) = cluster.brokers
            configs = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}
            broker.controller.create_topics([NewTopic("t", 1, 1, configs=configs)], defaults=TopicDefaults())
            partition = broker.replica_manager.partition("t", 0)

            def update(times: int) -> None:
                for _ in range(times):
                    records = bytearray(batch(b"x" * 50, timestamp=broker.wall_ms()))
                    partition.append(records, acks=1, now_ms=broker.wall_ms(), max_decompressed=1 << 20)

            await trio.sleep(100)
            assert "log_cleaner" not in vars(broker)
            update(60)
            log = partition.log
            await trio.sleep(61)
            assert log.cleaner_offset == log.segments.active.base_offset
            update(200)
            change = ConfigChange("log.cleaner.backoff.ms", ConfigOperation.SET, "500")
            resource = (ConfigResourceType.BROKER, "")
            broker.controller.incremental_alter_configs([(resource, [change])], defaults=TopicDefaults())
            await trio.testing.wait_all_tasks_blocked()
            assert log.cleaner_offset == log.segments.active.base_offset
            update(200)
            await trio.sleep(0.6)
            assert log.cleaner_offset == log.segments.active.base_offset
        assert log.cleaning is None


async def test_a_segment_file_that_somebody_deleted_is_an_error_of_the_disk(cleaning: Cleaning) -> None:
    """Not a change of the log: the cleaner would look at it again and again."""
    log = cleaning.create()
    cleaning.update(1, 60)
    os.unlink(log.segments.first.records.path)
    async with cleaning.running():
        await cleaning.ended()
    assert log.failure is not None
    assert "No such file" in log.failure


async def test_not_every_log_is_measured_before_each_round(
    cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of dirty logs would hold up the event loop again and again."""
    logs = [cleaning.create(f"t{number}") for number in range(10)]
    for log in logs:
        cleaning.update(1, 30, log.topic_partition.topic)
    measured = 0
    measure = LogToClean.measure

    def counted(self: LogToClean, now_ms: int, **options: bool) -> Cleanable:
        nonlocal measured
        measured += 1
        return measure(self, now_ms, **options)

    monkeypatch.setattr(LogToClean, "measure", counted)
    async with cleaning.running():
        await until(lambda: all(log.cleaner_offset is not None for log in logs))
    # Once all together, then each before its turn, and for its round.
    assert measured <= 3 * len(logs)
