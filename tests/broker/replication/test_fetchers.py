"""FetcherManager and ReplicaFetcher: who copies what, and what one bad partition means for the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kcli.broker.config.config_entries import ConfigChange
from kcli.broker.controller.replication_control import TopicDefaults
from kcli.broker.replication.fetch_data import FetchedPartition
from kcli.broker.replication.replica_fetcher import fetcher_number
from kcli.broker.waiting.timer import TimerTask, monotonic_ms
from kcli.protocol.configs import ConfigOperation
from tests.broker.replication.clusters import append, create, leader_of, node, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("topic", "index", "count", "expected"),
    [("t", 0, 1, 0), ("t", 0, 4, 0), ("t", 1, 4, 1), ("orders", 3, 5, 1), ("x" * 40, 9, 7, 6)],
)
def test_a_partition_has_its_fetcher_by_its_name(topic: str, index: int, count: int, expected: int) -> None:
    assert fetcher_number(topic, index, count) == expected


async def test_the_number_of_fetchers_changes_while_they_copy(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2) as cluster:
        create(cluster, "t", partitions=8, replicas=2)
        broker = cluster.brokers[0]
        fetchers = broker.replica_manager.fetchers.fetchers
        assert set(fetchers) == {(2, 0)}
        for count in ("3", "1"):
            change = [ConfigChange("num.replica.fetchers", ConfigOperation.SET, count)]
            defaults = TopicDefaults(1, 1, broker.config.topic_defaults)
            errors = broker.controller.incremental_alter_configs([((4, ""), change)], defaults=defaults)
            assert errors == [None]
            busy = {number for (_, number), fetcher in fetchers.items() if fetcher.states}
            assert len(busy) == int(count)
            for index in range(8):
                leader = leader_of(cluster, "t", index)
                end = append(leader, b"v")
                await until(lambda leader=leader, end=end: leader.log.high_watermark == end)


async def test_a_corrupt_partition_stops_no_other(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, replica_fetch_backoff_ms="10") as cluster:
        create(cluster, "t", partitions=2, replicas=2)
        leaders = [leader_of(cluster, "t", index) for index in range(2)]
        follower = {1: 2, 2: 1}[leaders[0].node_id]
        link = cluster.peers.between(follower, leaders[0].node_id)
        link.is_cut = True
        append(leaders[0], b"to be damaged", acks=1)
        path = Path(leaders[0].log.directory) / f"{0:020}.log"
        whole = path.read_bytes()
        path.write_bytes(whole[:-3] + b"\xff" + whole[-2:])
        link.is_cut = False
        end = append(leaders[1], b"v")
        await until(lambda: leaders[1].log.high_watermark == end)
        log = replicas_of(cluster, "t", 0)[follower].log
        assert (log.log_end_offset, leaders[0].log.high_watermark) == (0, 0)
        path.write_bytes(whole)
        await until(lambda: leaders[0].log.high_watermark == 1)
        assert node(cluster, follower).replica_manager.partition("t", 0).log.log_end_offset == 1


async def test_a_log_says_that_it_is_cut_only_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kcli.broker.replication.replica_fetcher")
    async with running_cluster(tmp_path, nodes=2) as cluster:
        create(cluster, "t", on=(1, 2))
        follower = replicas_of(cluster)[2]
        end = append(leader_of(cluster), b"v")
        await until(lambda: follower.log.log_end_offset == end)
        (fetcher,) = node(cluster, 2).replica_manager.fetchers.fetchers.values()
        (state,) = fetcher.states.values()
        for diverging in ((0, end), (0, 0)):
            row = FetchedPartition(state.row)
            row.diverging = diverging
            fetcher._write(state, row)
        said = [
            record.message
            for record in caplog.records
            if record.name == "kcli.broker.replication.replica_fetcher"
        ]
        assert said == [f"t-0: cut from {end} to 0"]


class Bell(TimerTask):
    """Rings when its time has come."""

    def __init__(self) -> None:
        super().__init__()
        self.rang = trio.Event()

    def fall_due(self) -> None:
        self.rang.set()


async def test_a_partition_that_was_given_up_while_it_was_delayed_is_copied_when_it_comes_back(
    tmp_path: Path,
) -> None:
    """A delay that ended while nobody was delayed any more must not be taken for one that is still to end."""
    async with running_cluster(tmp_path, nodes=2, replica_fetch_backoff_ms="10") as cluster:
        create(cluster, "t", on=(1, 2), follower_replication_throttled_replicas="*")
        broker, link = node(cluster, 2), cluster.peers.between(2, 1)
        rate = ConfigChange("follower.replication.throttled.rate", ConfigOperation.SET, "100000")
        defaults = TopicDefaults(1, 1, broker.config.topic_defaults)
        assert broker.controller.incremental_alter_configs([((4, ""), [rate])], defaults=defaults) == [None]
        leader, follower = leader_of(cluster), replicas_of(cluster)[2]
        manager = broker.replica_manager
        (fetcher,) = manager.fetchers.fetchers.values()
        link.is_cut = True
        await until(lambda: fetcher.delayed)
        fetcher.remove(follower.key)
        bell = Bell()
        broker.timer.add(bell, 50, monotonic_ms())
        await bell.rang.wait()
        link.is_cut = False
        manager.follower_throttle.record(120_000, monotonic_ms())
        fetcher.add(follower)
        await until(lambda: fetcher.delayed)
        end = append(leader, b"v", acks=1)
        await until(lambda: follower.log.log_end_offset == end)
