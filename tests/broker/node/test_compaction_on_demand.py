"""LogCleaner.compact: rounds on logs that somebody names, beside those that are due."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.node.log_cleaner import RoundOptions
from kcli.broker.process.compact_operations import compact_logs
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition
from kcli.storage.cleaning.cleaning_run import CleaningDiscarded
from tests.broker.node.cleaning import Cleaning, records, set_config, slow
from tests.broker.records import batch
from tests.broker.schedules.simulated_cluster import no_threads
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.node.compaction_report import CompactionReport

DAY_MS = 24 * 60 * 60 * 1000
T0 = TopicPartition("t", 0)


def test_a_dry_run_tells_what_the_run_does_and_changes_nothing(cleaning: Cleaning, tmp_path: Path) -> None:
    log = cleaning.create()
    cleaning.update(7, 20)
    cleaning.put("k1", None)
    cleaning.update(7, 5)
    before = files(tmp_path)
    foreseen = cleaning.here(log, is_dry_run=True)
    assert files(tmp_path) == before
    assert log.cleaning is None
    assert foreseen == cleaning.here(log)
    assert foreseen.stats.bytes_after < foreseen.stats.bytes_before


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_a_named_log_is_compacted_after_the_round_that_runs(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    slow(cleaning)
    reports = []

    async def compact() -> None:
        options = RoundOptions(now_ms=cleaning.node.now_ms)
        reports.append(await cleaning.cleaner.compact(log, options))

    async with cleaning.running() as nursery:
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(compact)
        await trio.testing.wait_all_tasks_blocked()
        cleaning.node.config = BrokerConfig.from_properties({})
        await cleaning.ended()
        await trio.testing.wait_all_tasks_blocked()
    (report,) = reports
    assert report.first_dirty_offset == report.end_offset == log.cleaner_offset


async def test_a_log_that_is_gone_is_not_compacted(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    cleaning.node.controller.delete_topics([cleaning.node.image.topics["t"].topic_id])
    with pytest.raises(CleaningDiscarded):
        await cleaning.cleaner.compact(log, RoundOptions(now_ms=cleaning.node.now_ms))


async def test_nobody_waits_for_a_round_that_is_given_up(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    left = threading.Event()
    left.set()
    options = RoundOptions(now_ms=cleaning.node.now_ms, is_given_up=left.is_set)
    with pytest.raises(CleaningDiscarded):
        await cleaning.cleaner.compact(log, options)
    assert log.cleaning is None
    assert cleaning.clean() is not None


async def test_a_broker_without_a_cleaner_compacts_only_what_it_is_told_to(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    with no_threads():
        async with running_cluster(tmp_path, log_cleaner_enable="false") as cluster:
            (broker,) = cluster.brokers
            configs = {"cleanup.policy": "compact", "internal.segment.bytes": "1000"}
            broker.controller.create_topics([NewTopic("t", 1, 1, configs=configs)], defaults=TopicDefaults())
            partition = broker.replica_manager.partition("t", 0)
            for _ in range(60):
                records = bytearray(batch(b"x" * 50, timestamp=broker.wall_ms()))
                partition.append(records, acks=1, now_ms=broker.wall_ms(), max_decompressed=1 << 20)
            await trio.sleep(1000)
            assert partition.log.cleaner_offset is None
            operation = await compact_logs(cluster, {"partitions": [["t", 0]]})
            result = await operation.until(trio.Event())
            assert (result["failures"], result["roll_helps"]) == ([], True)
            assert partition.log.cleaner_offset == result["partitions"][0]["end_offset"] > 0
            # With `roll` the rest goes, too, and then no record is left that another one could add.
            for arguments in ({"roll": True}, {}):
                operation = await compact_logs(cluster, arguments)
                assert not (await operation.until(trio.Event()))["roll_helps"]
            assert partition.log.cleaner_offset == partition.log.log_end_offset


async def test_replicas_on_nodes_that_are_down_are_named(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    with no_threads():
        async with running_cluster(tmp_path, nodes=3, log_cleaner_enable="false") as cluster:
            configs = {"cleanup.policy": "compact"}
            controller = cluster.brokers[0].controller
            controller.create_topics(
                [
                    NewTopic("t", 2, 3, configs=configs),
                    NewTopic("plain", 1, 3),
                    NewTopic("one", 3, 1, configs=configs),
                ],
                defaults=TopicDefaults(),
            )
            await trio.sleep(10)
            await cluster.stop_node(cluster.nodes[3])

            async def compacted(**arguments: object) -> dict[str, Any]:
                operation = await compact_logs(cluster, arguments)
                return await operation.until(trio.Event())  # type: ignore[no-any-return]

            result = await compacted(partitions=[["t", None]], dry_run=True)
            assert [(each["node"], each["partition"]) for each in result["partitions"]] == [
                (1, 0),
                (1, 1),
                (2, 0),
                (2, 1),
            ]
            assert result["warnings"] == ["node 3 is dead: its replicas of `t` stay as they are"]
            assert (await compacted(partitions=[["t", 0]], node=1))["warnings"] == []
            places = [each.replicas[0] for each in cluster.publisher.latest.topics["one"].partitions]
            with pytest.raises(KcliError) as caught:
                await compacted(partitions=[["one", places.index(3)]])
            assert caught.value.message == "node 3 is dead, and no other has replicas of `one`"


async def test_a_log_that_is_not_compacted_any_more_is_left_alone(cleaning: Cleaning) -> None:
    """`kcli broker compact` comes to it after other logs."""
    log = cleaning.create()
    cleaning.update(1, 60)
    set_config(cleaning.node, "t", "cleanup.policy", "delete")
    before = records(log)
    with pytest.raises(CleaningDiscarded):
        await cleaning.cleaner.compact(log, RoundOptions(now_ms=cleaning.node.now_ms))
    assert records(log) == before


async def test_a_log_that_is_gone_is_not_rolled(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    cleaning.node.controller.delete_topics([cleaning.node.image.topics["t"].topic_id])
    shutil.rmtree(log.directory)
    options = RoundOptions(now_ms=cleaning.node.now_ms, rolls=True)
    with pytest.raises(CleaningDiscarded):
        await cleaning.cleaner.compact(log, options)
    assert all(each.is_online for each in cleaning.node.log_manager.directories)


async def test_the_active_segment_is_closed_first_if_asked_for(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 3)
    options = RoundOptions(now_ms=cleaning.node.now_ms, rolls=True)
    assert (await cleaning.cleaner.compact(log, options)).stats.superseded == 2
    # An empty one stays.
    again = await cleaning.cleaner.compact(log, options)
    assert (again.first_dirty_offset, again.end_offset, log.segments.active.base_offset) == (3, 3, 3)


async def test_tombstones_go_only_in_a_round_with_new_records(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.put("gone", b"1")
    cleaning.put("gone", None)

    async def compact(after_days: int) -> CompactionReport:
        now_ms = cleaning.node.now_ms + after_days * DAY_MS
        return await cleaning.cleaner.compact(log, RoundOptions(now_ms=now_ms, rolls=True))

    assert (await compact(0)).stats.superseded == 1
    nothing = await compact(1000)
    assert (nothing.first_dirty_offset, nothing.end_offset) == (2, 2)
    assert records(log) == [(1, b"gone", None)]
    cleaning.put("new", b"2")
    assert (await compact(1000)).stats.tombstones == 1
    assert records(log) == [(2, b"new", b"2")]


async def test_a_dry_run_is_void_if_the_log_changes(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    slow(cleaning)
    outcomes: list[object] = []

    async def compact() -> None:
        options = RoundOptions(now_ms=cleaning.node.now_ms, is_dry_run=True)
        try:
            outcomes.append(await cleaning.cleaner.compact(log, options))
        except CleaningDiscarded as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await trio.testing.wait_all_tasks_blocked()
        log.truncate_to(1, now_ms=cleaning.node.now_ms)
        # It must not take the truncation for damage, nor hold up whoever waits for it.
        await until(lambda: outcomes)
    (outcome,) = outcomes
    assert isinstance(outcome, CleaningDiscarded)
    assert log.cleaning is None


async def test_a_client_that_leaves_does_not_wait_for_the_throttle(cleaning: Cleaning) -> None:
    log = cleaning.create()
    cleaning.update(1, 60)
    slow(cleaning)
    left = threading.Event()
    options = RoundOptions(now_ms=cleaning.node.now_ms, is_given_up=left.is_set)
    refused: list[CleaningDiscarded] = []

    async def compact() -> None:
        with pytest.raises(CleaningDiscarded) as error:
            await cleaning.cleaner.compact(log, options)
        refused.append(error.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(compact)
        await trio.testing.wait_all_tasks_blocked()
        left.set()
        await until(lambda: refused)


async def test_the_logs_of_a_node_that_has_ended_are_left_alone(cleaning: Cleaning) -> None:
    """They may belong to its next life already."""
    log = cleaning.create()
    cleaning.update(1, 60)
    cleaning.node.log_manager.close(clean=False, now_ms=cleaning.node.now_ms)
    before = sorted(os.listdir(log.directory))
    with pytest.raises(CleaningDiscarded):
        await cleaning.cleaner.compact(log, RoundOptions(now_ms=cleaning.node.now_ms))
    assert sorted(os.listdir(log.directory)) == before
