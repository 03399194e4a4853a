"""Links that are cut, slow or lose calls, nodes that are isolated or copy nothing, and leaders by command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import trio

from kcli.broker.process.fault_operations import perform
from kcli.broker.process.running_cluster import running_cluster as running_cluster_for_anybody
from kcli.errors import KcliError
from kcli.storage import disk
from tests.broker.replication.clusters import append, create, leader_of, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster


def cut_links(cluster: Cluster) -> set[tuple[int, int]]:
    pairs = [(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b]
    return {pair for pair in pairs if cluster.peers[pair].is_cut}


async def test_faults_of_links_overlap_and_end_in_any_order(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        faults = cluster.faults
        isolated = faults.add("isolate", node=3)
        cut = faults.add("cut", **{"from": 1, "to": 3, "one_way": True})
        assert cut_links(cluster) == {(1, 3), (3, 1), (2, 3), (3, 2)}
        faults.clear(isolated.number)
        assert cut_links(cluster) == {(1, 3)}
        faults.clear(cut.number)
        assert cut_links(cluster) == set()


async def test_the_slowest_of_several_delays_counts(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        fast = cluster.faults.add("slow", **{"from": 1, "to": 2, "delay_ms": 10})
        slow = cluster.faults.add("slow", **{"from": 2, "to": 1, "delay_ms": 70, "one_way": True})
        assert (cluster.peers[1, 2].delay_ms, cluster.peers[2, 1].delay_ms) == (10, 70)
        cluster.faults.clear(slow.number)
        assert (cluster.peers[1, 2].delay_ms, cluster.peers[2, 1].delay_ms) == (10, 10)
        cluster.faults.clear(fast.number)
        assert (cluster.peers[1, 2].delay_ms, cluster.peers[2, 1].delay_ms) == (0, 0)


async def test_calls_that_are_to_get_lost_are_counted_and_forgotten(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        cluster.faults.add("lose", **{"from": 1, "to": 2, "next": 3, "one_way": True})
        assert cluster.peers[1, 2].drop_next == 3
        cluster.faults.clear_all()
        assert cluster.peers[1, 2].drop_next == 0


async def test_a_node_that_is_frozen_copies_nothing_until_it_is_not(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", on=(1, 2, 3))
        end = append(leader_of(cluster), b"before")
        await until(lambda: all(each.log.log_end_offset == end for each in replicas_of(cluster).values()))
        frozen = cluster.faults.add("freeze", node=3)
        for _ in range(3):  # What it waited for before it may still come.
            end = append(leader_of(cluster), b"after")
            await until(lambda end=end: replicas_of(cluster)[2].log.log_end_offset == end)
        assert replicas_of(cluster)[3].log.log_end_offset < end
        cluster.faults.clear(frozen.number)
        await until(lambda: replicas_of(cluster)[3].log.log_end_offset == end)


async def test_what_is_to_be_copied_meanwhile_is_copied_when_a_node_is_frozen_no_more(
    tmp_path: Path,
) -> None:
    # No high watermark is to wake the fetcher instead.
    late = {
        "replica_fetch_wait_max_ms": "60000",
        "replica_socket_timeout_ms": "60000",
        "replica_lag_time_max_ms": "90000",
    }
    async with running_cluster(tmp_path, nodes=2, **late) as cluster:
        create(cluster, "t", on=(1, 2))
        end = append(leader_of(cluster), b"before")
        await until(lambda: replicas_of(cluster)[2].log.log_end_offset == end)
        in_sync = leader_of(cluster).in_sync
        assert in_sync is not None
        await until(lambda: in_sync.remotes[2].log_end_offset == end)  # From now on it waits for more.
        frozen = cluster.faults.add("freeze", node=2)
        end = append(leader_of(cluster), b"for what waited already")
        await until(lambda: replicas_of(cluster)[2].log.log_end_offset == end)
        create(cluster, "u", on=(1, 2))
        end = append(leader_of(cluster, "u"), b"value")
        cluster.faults.clear(frozen.number)
        await until(lambda: replicas_of(cluster, "u")[2].log.log_end_offset == end)


async def test_a_leader_moves_to_a_replica_in_sync_and_stays_there(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        create(cluster, "t", on=(1, 2))
        await perform(cluster, "move-leader", {"topic": "t", "partition": 0, "to": 2})
        registration = cluster.brokers[0].image.topics["t"].partitions[0]
        assert (registration.leader, registration.replicas) == (2, (2, 1))
        await perform(cluster, "move-leader", {"topic": "t", "partition": 0, "to": 2})
        for arguments, message in (
            ({"topic": "t", "partition": 0, "to": 3}, "node 3 has no replica of `t` partition 0"),
            ({"topic": "t", "partition": 1, "to": 2}, "there is no partition 1 of `t`"),
            ({"topic": "u", "partition": 0, "to": 2}, "there is no topic `u`"),
        ):
            with pytest.raises(KcliError) as caught:
                await perform(cluster, "move-leader", arguments)
            assert caught.value.message == message


async def test_the_controller_moves(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        target = 3 if cluster.election.controller_id != 3 else 2
        await perform(cluster, "move-controller", {"to": target})
        assert cluster.election.controller_id == target


async def test_a_node_that_starts_again_suffers_what_its_number_has_to(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3) as cluster:
        cluster.faults.add("drop", node=2, api="Metadata")
        await perform(cluster, "kill", {"node": 2})
        await perform(cluster, "start", {"node": 2})
        second = next(broker for broker in cluster.brokers if broker.node_id == 2)
        async with await trio.open_tcp_stream("127.0.0.1", second.endpoints[0].port):
            await until(lambda: second._server.connections)
            (connection,) = second._server.connections
            assert connection._engine is not second.engine


async def test_a_cluster_for_a_test_leaves_nothing_behind() -> None:
    async with running_cluster_for_anybody(nodes=2, seed=5, num_partitions="3") as cluster:
        assert len(cluster.bootstrap_servers) == 2
        assert (cluster.faults.seed, cluster.brokers[0].config.num_partitions) == (5, 3)
        cluster.faults.add("fill-disk", node=2)
        directory = cluster.options.data_dir
        assert directory is not None
    assert cluster.faults.active == []
    assert disk.pwrite is os.pwrite
    assert not await trio.Path(directory).exists()
