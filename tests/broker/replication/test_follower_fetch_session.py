"""The leader's side of a fetcher: when its calls have an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kcli.broker.replication.fetch_data import FetchPartition
from kcli.broker.replication.leader_endpoint import FollowerFetchSession
from kcli.broker.waiting.timer import Timer
from tests.broker.replication.clusters import append, create, leader_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.replication.hosted_partitions import HostedPartitions


def test_news_that_were_told_before_their_time_came_are_not_waited_for_again() -> None:
    session = FollowerFetchSession(cast("HostedPartitions", SimpleNamespace(timer=Timer())), 2, 7)
    session.ready.news_fell_due()
    assert session.ready.is_due
    assert session.read(1000) == []
    assert not session.ready.is_due


async def test_a_session_that_begins_at_the_end_of_a_log_tells_its_high_watermark(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, replica_fetch_wait_max_ms="20") as cluster:
        create(cluster, "t", on=(1, 2))
        leader = leader_of(cluster)
        end = append(leader, b"value")
        await until(lambda: leader.log.high_watermark == end)
        manager = next(broker for broker in cluster.brokers if broker.node_id == 1).replica_manager
        session = FollowerFetchSession(manager, 2, cluster.brokers[1].epoch)
        row = FetchPartition("t", leader.topic_id, 0, end, 1000, leader.leader_epoch, leader.leader_epoch)
        session.move([row])
        await until(lambda: session.ready.is_due)
        (told,) = session.read(1000)
        assert (told.request, told.error_code, told.size, told.high_watermark) == (row, 0, 0, end)
        session.close()
