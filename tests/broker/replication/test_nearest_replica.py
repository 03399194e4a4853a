"""Consumers that read from a follower in their rack (KIP-392), and what a follower answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kcli.broker.config.broker_definitions import RACK_AWARE_SELECTOR
from kcli.broker.controller.cluster_control import BrokerRegistrationRequest
from kcli.broker.process.cluster import Cluster
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.replication.clusters import append, create, fence, leader_of, node
from tests.broker.single_node import Client
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until


@asynccontextmanager
async def connected(cluster: Cluster, node_id: int) -> AsyncIterator[Client]:
    host, _, port = cluster.bootstrap_servers[node_id - 1].rpartition(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Client(stream)


def fetch(offset: int, *, rack: str = "", wait_ms: int = 0) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics, rack_id=rack, session_epoch=-1
    )


def put_in_racks(cluster: Cluster) -> None:
    """Node 1 is in rack `r1`, and so on."""
    for broker in cluster.brokers:
        broker.controller.register_broker(
            BrokerRegistrationRequest(
                node_id=broker.node_id,
                incarnation=broker.image.brokers[broker.node_id].incarnation,
                endpoints=broker.endpoints,
                directories=broker.image.brokers[broker.node_id].directories,
                rack=f"r{broker.node_id}",
            )
        )
        broker.epoch = broker.image.brokers[broker.node_id].epoch
        broker.controller.unfence_broker(node_id=broker.node_id, epoch=broker.epoch)


async def test_a_leader_sends_consumers_to_the_replica_in_their_rack(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, replica_selector_class=RACK_AWARE_SELECTOR) as cluster:
        put_in_racks(cluster)
        create(cluster, "t")
        leader = leader_of(cluster)
        append(leader, b"v")
        await until(lambda: leader.log.high_watermark == 1)
        near = next(iter({1, 2, 3} - {leader.node_id}))
        async with connected(cluster, leader.node_id) as client:
            for rack, version, expected in [
                (f"r{near}", 11, near),
                (f"r{near}", 12, near),
                (f"r{leader.node_id}", 11, -1),
                ("elsewhere", 11, -1),
                ("", 11, -1),
            ]:
                answer = await client.ask(fetch(0, rack=rack), version)
                (row,) = answer.responses[0].partitions
                assert (row.preferred_read_replica, bool(row.records)) == (expected, expected == -1)


async def test_a_follower_answers_consumers_up_to_its_high_watermark(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, replica_fetch_wait_max_ms="20") as cluster:
        create(cluster, "t")
        leader = leader_of(cluster)
        append(leader, b"v")
        follower = next(iter({1, 2, 3} - {leader.node_id}))
        log = node(cluster, follower).replica_manager.partition("t", 0).log
        await until(lambda: log.high_watermark == 1)
        async with connected(cluster, follower) as client:
            (row,) = (await client.ask(fetch(0), 11)).responses[0].partitions
            assert (row.error_code, row.high_watermark, bool(row.records)) == (0, 1, True)
            # Who does not know of followers is told to ask the leader.
            (row,) = (await client.ask(fetch(0), 10)).responses[0].partitions
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            # One that waits for more gets it when it is committed here.
            await client.send(fetch(1, wait_ms=20_000), 11)
            append(leader, b"w")
            (row,) = (await client.receive(1, 11))[1].responses[0].partitions
            assert (row.error_code, row.high_watermark, bool(row.records)) == (0, 2, True)


async def test_a_new_leader_does_not_tell_an_end_that_may_go_back(tmp_path: Path) -> None:
    late = dict.fromkeys(
        ("replica_fetch_wait_max_ms", "replica_socket_timeout_ms", "replica_lag_time_max_ms"), "60000"
    )
    async with running_cluster(tmp_path, nodes=3, **late) as cluster:
        create(cluster, "t", on=(2, 3, 1))
        former = leader_of(cluster)
        append(former, b"v")
        await until(lambda: former.log.high_watermark == 1)
        cluster.peers[1, 3].delay_ms = 60_000  # Else the new leader would hear of it from the third.
        fence(cluster, 2)
        leader = leader_of(cluster)
        # The followers have the record, and have not been told that it is committed.
        assert (leader.log.log_end_offset, leader.log.high_watermark) == (1, 0)
        latest = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
        earliest = [ListOffsetsPartition(partition_index=0, timestamp=-2)]
        async with connected(cluster, leader.node_id) as client:
            for partitions, version, expected in [
                (latest, 5, ErrorCode.OFFSET_NOT_AVAILABLE),
                (latest, 4, ErrorCode.LEADER_NOT_AVAILABLE),
                (earliest, 5, ErrorCode.NONE),
            ]:
                request = ListOffsetsRequest(
                    replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)]
                )
                answer = await client.ask(request, version)
                assert answer.topics[0].partitions[0].error_code == expected
