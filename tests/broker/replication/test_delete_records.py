"""DeleteRecords on a partition with followers: answered when those that are alive have followed."""

from __future__ import annotations

from pathlib import Path

from kcli.broker.node.housekeeping import Housekeeping
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.broker.replication.clusters import append, create, cut, fence, leader_of, node, replicas_of
from tests.broker.replication.test_nearest_replica import connected
from tests.broker.single_node import Client
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


async def delete(client: Client, offset: int, timeout_ms: int = 20_000) -> tuple[int, int]:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsTopic(name="t", partitions=partitions)]
    answer = await client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), 2)
    (row,) = answer.topics[0].partitions
    return row.error_code, row.low_watermark


async def test_it_is_done_when_every_replica_has_followed(tmp_path: Path) -> None:
    late = dict.fromkeys(
        ("replica_fetch_wait_max_ms", "replica_socket_timeout_ms", "replica_lag_time_max_ms"), "60000"
    )
    async with running_cluster(tmp_path, nodes=3, **late) as cluster:
        create(cluster, "t", on=(1, 2, 3))
        leader = leader_of(cluster)
        append(leader, *[b"v"] * 10)
        await until(lambda: leader.log.high_watermark == 10)
        async with connected(cluster, 1) as client:
            assert await delete(client, 4) == (ErrorCode.NONE, 4)
            assert {each.log.log_start_offset for each in replicas_of(cluster).values()} == {4}
            assert await delete(client, -1) == (ErrorCode.NONE, 10)


async def test_who_does_not_follow_is_waited_for_unless_it_is_dead(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", on=(1, 2, 3))
        leader = leader_of(cluster)
        append(leader, *[b"v"] * 10)
        await until(lambda: leader.log.high_watermark == 10)
        cut(cluster, 3)
        async with connected(cluster, 1) as client:
            assert await delete(client, 4, timeout_ms=50) == (ErrorCode.REQUEST_TIMED_OUT, 0)
            assert leader.log.log_start_offset == 4
            fence(cluster, 3)
            assert await delete(client, 6) == (ErrorCode.NONE, 6)


async def test_what_retention_takes_from_the_leader_its_followers_drop(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, replica_fetch_wait_max_ms="20") as cluster:
        create(cluster, "t", on=(1, 2, 3), internal_segment_bytes="300", retention_bytes="400")
        leader, broker = leader_of(cluster), node(cluster, 1)
        for number in range(20):
            append(leader, b"v%d" % number)
        await until(lambda: leader.log.high_watermark == 20)
        housekeeping = Housekeeping(
            broker.log_manager,
            replica_manager=broker.replica_manager,
            config=broker.config,
            wall_ms=broker.wall_ms,
            gate=broker.gate,
        )
        await housekeeping.tick(10**9)
        start = leader.log.log_start_offset
        assert start > 0
        await until(lambda: {each.log.log_start_offset for each in replicas_of(cluster).values()} == {start})
