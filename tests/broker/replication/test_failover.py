"""A leader that is lost: another takes over, and logs that parted become one again, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.broker.cluster import Cluster
from kcli.broker.partition import Partition
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.log_read import Isolation
from tests.broker.replication.clusters import append, create, files_of, leader_of, node, replicas_of, until
from tests.support.running_cluster import running_cluster

QUICK = {"replica_fetch_backoff_ms": "20"}


def fence(cluster: Cluster, node_id: int) -> None:
    broker = node(cluster, node_id)
    broker.controller.fence_broker(node_id=node_id, epoch=broker.epoch)


def unfence(cluster: Cluster, node_id: int) -> None:
    broker = node(cluster, node_id)
    broker.controller.unfence_broker(node_id=node_id, epoch=broker.epoch)


def cut(cluster: Cluster, node_id: int, *, is_cut: bool = True) -> None:
    for other in {1, 2, 3} - {node_id}:
        cluster.peers.between(other, node_id).is_cut = is_cut
        cluster.peers.between(node_id, other).is_cut = is_cut


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
        create(cluster, "t")
        former = await in_sync(cluster)
        committed = append(former, b"a", b"b")
        await in_sync(cluster)
        cut(cluster, former.node_id)
        for _ in range(3):
            append(former, b"only here", acks=1)
        assert former.log.high_watermark == committed
        fence(cluster, former.node_id)
        successor = leader_of(cluster)
        assert successor.node_id != former.node_id
        assert (former.is_leader, successor.leader_epoch) == (False, 1)
        assert successor.isr == {1, 2, 3} - {former.node_id}
        append(successor, b"c", b"d", b"e", b"f")
        await until(lambda: successor.log.high_watermark == 6)
        cut(cluster, former.node_id, is_cut=False)
        unfence(cluster, former.node_id)
        await until(lambda: successor.isr == {1, 2, 3})
        assert former.log.leader_epochs.entries() == [(0, 0), (1, committed)]
        await all_equal(cluster)


async def test_logs_that_parted_several_times_become_one(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        create(cluster, "t", internal_segment_bytes="400", unclean_leader_election_enable="true")
        # Each in turn leads alone, without knowing what the others wrote.
        for round_number in range(4):
            leader = leader_of(cluster)
            await until(lambda leader=leader: leader.isr == {1, 2, 3})
            append(leader, b"shared %d" % round_number)
            await in_sync(cluster)
            for node_id in (1, 2, 3):
                cut(cluster, node_id)
            for other in {1, 2, 3} - {leader.node_id}:
                fence(cluster, other)
            for number in range(5):
                append(leader_of(cluster), b"lost %d" % number, acks=1)
            first, second = sorted({1, 2, 3} - {leader.node_id})
            for heir in (first, second):
                former = leader_of(cluster)
                fence(cluster, former.node_id)
                unfence(cluster, heir)
                _elect_unclean(cluster, heir)
                assert leader_of(cluster).node_id == heir
                for number in range(3 + heir):
                    append(leader_of(cluster), b"%d of %d" % (number, heir), acks=1)
            for node_id in (1, 2, 3):
                cut(cluster, node_id, is_cut=False)
                unfence(cluster, node_id)
            leader = leader_of(cluster)
            await until(lambda leader=leader: leader.isr == {1, 2, 3})
            await all_equal(cluster)


def _elect_unclean(cluster: Cluster, heir: int) -> None:
    from kcli.broker.controller.election_control import ElectionType

    controller = node(cluster, heir).controller
    if controller.image.topics["t"].partitions[0].leader != heir:
        controller.elect_leaders([("t", 0)], type=ElectionType.UNCLEAN)


async def test_a_follower_that_was_away_past_retention_starts_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **QUICK) as cluster:
        create(cluster, "t", internal_segment_bytes="300")
        leader = await in_sync(cluster)
        away = next(iter({1, 2, 3} - {leader.node_id}))
        append(leader, b"a")
        await in_sync(cluster)
        cut(cluster, away)
        fence(cluster, away)
        for number in range(20):
            append(leader, b"v%d" % number)
        await until(lambda: leader.log.high_watermark == 21)
        leader.delete_records(15)
        await until(lambda: {each.log.log_start_offset for each in replicas_of(cluster).values()} == {0, 15})
        cut(cluster, away, is_cut=False)
        unfence(cluster, away)
        await until(lambda: leader.isr == {1, 2, 3})
        log = replicas_of(cluster)[away].log
        assert (log.log_start_offset, log.log_end_offset) == (15, 21)
        assert log.read(15, 1 << 20, isolation=Isolation.LOG_END).file_slice is not None


async def test_a_follower_with_an_old_epoch_is_fenced(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t")
        former = await in_sync(cluster)
        fence(cluster, former.node_id)
        leader = leader_of(cluster)
        link = cluster.peers.between(former.node_id, leader.node_id)
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
