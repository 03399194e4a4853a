"""Transactions whose coordinator, leader and followers are different nodes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.replication.partition import Partition
from kcli.broker.waiting.timer import wall_ms
from kcli.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.topics import TRANSACTION_STATE_TOPIC
from tests.broker.records import fetched, offsets
from tests.broker.replication.clusters import create, fence, leader_of, node, replicas_of
from tests.broker.single_node import Client
from tests.broker.transactions.transactional_client import TransactionalClient
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

COORDINATOR, LEADER, FOLLOWER = 1, 2, 3


@asynccontextmanager
async def connected(cluster: Cluster, node_id: int) -> AsyncIterator[Client]:
    host, _, port = cluster.bootstrap_servers[node_id - 1].rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Client(stream)


class Producer(TransactionalClient):
    """It sends Produce to the leader of the partition, everything else to the coordinator."""

    leader: Client

    async def try_produce(self, topic: str, *values: bytes, **fields: Any) -> Any:
        coordinator, self.client = self.client, self.leader
        try:
            return await super().try_produce(topic, *values, **fields)
        finally:
            self.client = coordinator


@asynccontextmanager
async def nodes(
    directory: Path, *, version: int = 1, replicas: tuple[int, ...] = (LEADER, FOLLOWER, COORDINATOR)
) -> AsyncIterator[tuple[Cluster, Producer]]:
    """The first of the `replicas` leads topic `t`; node 1 coordinates."""
    async with running_cluster(directory, nodes=3, replica_fetch_wait_max_ms="20") as cluster:
        create(cluster, TRANSACTION_STATE_TOPIC, on=(COORDINATOR, FOLLOWER, LEADER))
        create(cluster, "t", on=replicas)
        async with connected(cluster, COORDINATOR) as client, connected(cluster, LEADER) as leader:
            producer = Producer(client, version=version)
            producer.leader, producer.timestamp = leader, wall_ms()
            await producer.begin()
            yield cluster, producer


def everywhere(cluster: Cluster, holds: Callable[[Partition], bool]) -> Callable[[], bool]:
    return lambda: all(holds(each) for each in replicas_of(cluster).values())


def state_of(partition: Partition) -> list[tuple[int, ...]]:
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.current_txn_first_offset,
        )
        for each in partition.log.active_producers()
    ]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_coordinator_on_another_node_verifies_and_sends_its_markers(
    version: int, tmp_path: Path
) -> None:
    async with nodes(tmp_path, version=version) as (cluster, producer):
        assert await producer.produce("t", b"a") == 0
        log = leader_of(cluster).log
        assert log.last_stable_offset == 0
        await producer.end(commit=True)
        await until(everywhere(cluster, lambda each: each.log.last_stable_offset == 2))
        assert await producer.produce("t", b"b") == 2
        await producer.end(commit=False)
        await until(everywhere(cluster, lambda each: each.log.last_stable_offset == 4))
        assert len({tuple(state_of(each)) for each in replicas_of(cluster).values()}) == 1


@pytest.mark.parametrize(("api_version", "code"), [(9, 48), (11, 120)])
async def test_a_coordinator_on_another_node_refuses(api_version: int, code: int, tmp_path: Path) -> None:
    async with nodes(tmp_path) as (cluster, producer):
        row = await producer.try_produce("t", b"a", api_version=api_version)
        assert row.error_code == code
        assert leader_of(cluster).log.log_end_offset == 0


@pytest.mark.parametrize("api_version", [9, 12])
async def test_a_coordinator_out_of_reach_lets_the_producer_try_again(
    api_version: int, tmp_path: Path
) -> None:
    async with nodes(tmp_path) as (cluster, producer):
        assert await producer.add("t", 0) == [0]
        cluster.peers[LEADER, COORDINATOR].is_cut = True
        row = await producer.try_produce("t", b"a", api_version=api_version)
        assert row.error_code == 19
        assert leader_of(cluster).log.log_end_offset == 0
        cluster.peers[LEADER, COORDINATOR].is_cut = False
        assert (await producer.try_produce("t", b"a", api_version=api_version)).error_code == 0


def fetch(offset: int, *, wait_ms: int = 0) -> FetchRequest:
    row = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=1,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[row])],
    )


@pytest.mark.parametrize("node_id", [LEADER, FOLLOWER])
async def test_any_replica_serves_committed_readers(node_id: int, tmp_path: Path) -> None:
    async with nodes(tmp_path) as (cluster, producer), connected(cluster, node_id) as reader:
        await producer.produce("t", b"a")
        await producer.end(commit=False)
        await until(everywhere(cluster, lambda each: each.log.last_stable_offset == 2))
        await producer.produce("t", b"b")
        await until(everywhere(cluster, lambda each: each.log.high_watermark == 3))
        data = fetched(await reader.ask(fetch(0), 11))
        assert (offsets(data), data.last_stable_offset) == ([0, 1], 2)
        assert [each.first_offset for each in data.aborted_transactions] == [0]
        await reader.send(fetch(2, wait_ms=60_000), 11)
        await producer.end(commit=True)
        data = fetched((await reader.receive(1, 11))[1])
        assert (offsets(data), data.aborted_transactions) == ([2, 3], [])


async def test_a_marker_counts_once_all_replicas_have_it(tmp_path: Path) -> None:
    async with nodes(tmp_path) as (cluster, producer), connected(cluster, LEADER) as reader:
        await producer.produce("t", b"a")
        await until(everywhere(cluster, lambda each: each.log.high_watermark == 1))
        leader = leader_of(cluster)
        cluster.peers[FOLLOWER, LEADER].is_frozen = True
        await reader.send(fetch(0, wait_ms=60_000), 11)
        await producer.end(commit=True)
        await until(lambda: leader.log.log_end_offset == 2)
        assert (leader.log.high_watermark, leader.log.last_stable_offset) == (1, 0)
        assert not reader.has_received
        cluster.peers[FOLLOWER, LEADER].is_frozen = False
        assert offsets(fetched((await reader.receive(1, 11))[1])) == [0, 1]


async def test_a_new_leader_knows_the_open_transaction(tmp_path: Path) -> None:
    """Its producer goes on there without being verified again; its marker finds the new leader."""
    async with nodes(tmp_path) as (cluster, producer):
        await producer.produce("t", b"a")
        await until(everywhere(cluster, lambda each: each.log.high_watermark == 1))
        former = leader_of(cluster)
        fence(cluster, LEADER)
        await until(lambda: leader_of(cluster) is not former)
        leader = leader_of(cluster)
        assert leader.log.last_stable_offset == 0
        async with connected(cluster, leader.node_id) as client:
            producer.leader = client
            assert (await producer.try_produce("t", b"b", sequence=2)).error_code == 45
            row = await producer.try_produce("t", b"b", sequence=1)
            assert (row.error_code, row.base_offset) == (0, 1)
            assert len(leader.log.guards) == 0
            await producer.end(commit=False)
            await until(lambda: leader.log.last_stable_offset == 3)


async def test_a_partition_moves_with_its_open_transaction(tmp_path: Path) -> None:
    async with nodes(tmp_path, replicas=(LEADER, FOLLOWER)) as (cluster, producer):
        await producer.produce("t", b"a")
        await producer.end(commit=False)
        await producer.produce("t", b"b")
        before = state_of(leader_of(cluster))
        controller = node(cluster, 1).controller
        (error,) = controller.alter_reassignments([Reassignment("t", 0, (COORDINATOR,))])
        assert error is None
        await until(lambda: set(replicas_of(cluster)) == {COORDINATOR})
        leader = leader_of(cluster)
        assert state_of(leader) == before
        await until(lambda: leader.log.high_watermark == 3)
        assert leader.log.last_stable_offset == 2
        producer.leader = producer.client
        assert (await producer.try_produce("t", b"c", sequence=2)).error_code == 0
        await producer.end(commit=True)
        await until(lambda: leader.log.last_stable_offset == 5)
        data = fetched(await producer.client.ask(fetch(0), 11))
        assert offsets(data) == [0, 1, 2, 3, 4]
        assert [each.first_offset for each in data.aborted_transactions] == [0]


async def test_a_restarted_node_has_its_producers_again(tmp_path: Path) -> None:
    async with nodes(tmp_path) as (cluster, producer):
        await producer.produce("t", b"a")
        await producer.end(commit=False)
        await producer.produce("t", b"b")
        await until(everywhere(cluster, lambda each: each.log.high_watermark == 3))
        before = state_of(replicas_of(cluster)[FOLLOWER])
        await cluster.stop_node(cluster.node(FOLLOWER))
        await cluster.start_node(cluster.node(FOLLOWER))
        await until(lambda: FOLLOWER in replicas_of(cluster))
        partition = replicas_of(cluster)[FOLLOWER]
        assert state_of(partition) == before
        await until(lambda: partition.log.high_watermark == 3)
        assert partition.log.last_stable_offset == 2


@pytest.mark.parametrize("node_id", [COORDINATOR, LEADER, FOLLOWER])
async def test_any_replica_describes_its_producers(node_id: int, tmp_path: Path) -> None:
    async with nodes(tmp_path) as (cluster, producer), connected(cluster, node_id) as client:
        create(cluster, "elsewhere", on=(node_id % 3 + 1,))
        await producer.produce("t", b"a", b"b")
        await producer.end(commit=True)
        await producer.produce("t", b"c")
        await until(everywhere(cluster, lambda each: each.log.log_end_offset == 4))
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name="t", partition_indexes=[0, 1]),
                TopicRequest(name="elsewhere", partition_indexes=[0]),
                TopicRequest(name="unknown", partition_indexes=[0]),
            ]
        )
        response = await client.ask(request, 0)
        rows = [row for topic in response.topics for row in topic.partitions]
        assert [row.error_code for row in rows] == [0, 3, 6, 3]
        (found,) = rows[0].active_producers
        assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
        epoch = replicas_of(cluster, TRANSACTION_STATE_TOPIC)[COORDINATOR].leader_epoch
        assert (found.last_sequence, found.coordinator_epoch, found.current_txn_start_offset) == (2, epoch, 3)
