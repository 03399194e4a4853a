"""A leader that is lost: another takes over, and logs that parted become one again, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.process.cluster import Cluster
from kcli.broker.replication.partition import Partition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log.log_read import Isolation
from tests.broker.replication.clusters import append, create, cut, fence, files_of, leader_of, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

QUICK = {"replica_fetch_backoff_ms": "20", "broker_heartbeat_interval_ms": "50"}


async def in_sync(cluster: Cluster, topic: str = "t") -> Partition:
    partition = leader_of(cluster, topic)
    await until(lambda: partition.in_sync is not None and partition.isr == {1, 2, 3})
    await until(lambda: partition.log.high_watermark == partition.log.log_end_offset)
    return partition


async def all_equal(cluster: Cluster, topic: str = "t") -> None:
    """Wait until every replica is the leader's, byte for byte, and as much of it is committed."""
    end = leader_of(cluster, topic).log.log_end_offset
    replicas = replicas_of(cluster, topic)
    await until(lambda: {each.log.high_watermark for each in replicas.values()} == {end})
    names = [name for name in files_of(replicas[1]) if name.endswith(".log")]
    for name in names:
        assert files_of(replicas[1])[name] == files_of(replicas[2])[name] == files_of(replicas[3])[name]
    epochs = {tuple(each.log.leader_epochs.entries()) for each in replicas.values()}
    assert len(epochs) == 1


async def test_another_leader_takes_over_and_the_old_one_drops_what_only_it_had(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        create(cluster, "t", on=(2, 3, 1))
        former = await in_sync(cluster)
        append(former, b"a", b"b")
        await in_sync(cluster)
        cut(cluster, 2)
        for _ in range(3):
            append(former, b"only here", acks=1)
        assert former.log.high_watermark == 2
        fence(cluster, 2)
        # Who is cut off does not know, and can commit nothing.
        successor = leader_of(cluster)
        assert (former.is_leader, successor.node_id, successor.leader_epoch) == (True, 3, 1)
        assert successor.isr == {1, 3}
        append(successor, b"c", b"d", b"e", b"f")
        await until(lambda: successor.log.high_watermark == 6)
        cut(cluster, 2, is_cut=False)
        await until(lambda: successor.isr == {1, 2, 3})
        assert not former.is_leader
        assert former.log.leader_epochs.entries() == [(0, 0), (1, 2)]
        await all_equal(cluster)


async def test_leaders_that_are_lost_in_turn_all_come_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        create(cluster, "t", on=(2, 3, 1), internal_segment_bytes="400")
        for number in range(6):
            former = await in_sync(cluster)
            if former.node_id == 1:
                break
            append(former, b"shared %d" % number)
            await in_sync(cluster)
            cut(cluster, former.node_id)
            for lost in range(number + 2):
                append(former, b"lost %d" % lost, acks=1)
            fence(cluster, former.node_id)
            successor = leader_of(cluster)
            for kept in range(6 - number):
                append(successor, b"kept %d" % kept)
            cut(cluster, former.node_id, is_cut=False)
            await in_sync(cluster)
            await all_equal(cluster)


async def test_a_follower_that_was_away_past_retention_starts_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        create(cluster, "t", on=(1, 2, 3), internal_segment_bytes="300")
        leader = await in_sync(cluster)
        append(leader, b"a")
        await in_sync(cluster)
        cut(cluster, 3)
        fence(cluster, 3)
        for number in range(20):
            append(leader, b"v%d" % number)
        await until(lambda: leader.log.high_watermark == 21)
        leader.delete_records(15)
        starts = {node_id: each.log for node_id, each in replicas_of(cluster).items()}
        await until(lambda: [starts[node_id].log_start_offset for node_id in (1, 2, 3)] == [15, 15, 0])
        cut(cluster, 3, is_cut=False)
        await until(lambda: leader.isr == {1, 2, 3})
        log = replicas_of(cluster)[3].log
        assert (log.log_start_offset, log.log_end_offset) == (15, 21)
        assert log.read(15, 1 << 20, isolation=Isolation.LOG_END).file_slice is not None


async def test_a_follower_with_an_old_epoch_is_fenced(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", on=(2, 3, 1))
        await in_sync(cluster)
        fence(cluster, 2)
        link = cluster.peers.between(2, 3)
        for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            with pytest.raises(KafkaError) as caught:
                await link.log_range("t", 0, epoch)
            assert caught.value.code == code
        assert await link.log_range("t", 0, 1) == (0, 0)


async def test_a_node_that_leads_again_after_a_restart_has_lost_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", partitions=3)
        for index in range(3):
            append(leader_of(cluster, "t", index), b"%d" % index)
        await until(
            lambda: all(
                each.log.high_watermark for i in range(3) for each in replicas_of(cluster, "t", i).values()
            )
        )
    async with running_cluster(tmp_path, nodes=3) as cluster:
        for index in range(3):
            leader = leader_of(cluster, "t", index)
            await until(lambda leader=leader: leader.isr == {1, 2, 3})
            assert leader.log.high_watermark == 1
            append(leader, b"more")
            await until(lambda leader=leader: leader.log.high_watermark == 2)
