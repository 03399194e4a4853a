"""A node with a full disk fails, whatever it was writing; the others go on, and with room it comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kcli.client.admin import NewTopic, create_topics
from kcli.client.client import connect
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.broker.replication.clusters import append, create, leader_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from kcli.broker.process.cluster import Cluster

QUICK = {"broker_heartbeat_interval_ms": "100"}
CHECKPOINTS_OFTEN = {**QUICK, "replica_high_watermark_checkpoint_interval_ms": "100"}
CHECKPOINTS_NEVER = {**QUICK, "replica_high_watermark_checkpoint_interval_ms": "3600000"}
"""Else a node with a full disk could be lost with a checkpoint, before it meets what a test is about."""


async def created(cluster: Cluster, topic: str, *, asked: int) -> object:
    async with connect(cluster.bootstrap_servers[asked - 1]) as client:
        return (await create_topics(client, [NewTopic(topic, partitions=1, replication_factor=2)]))[topic]


async def lost_and_back(cluster: Cluster, node_id: int) -> None:
    """Wait until only this node has failed; give it room, start it, and wait until all is in sync."""
    node = cluster.nodes[node_id]
    await node.ended.wait()
    assert node.ended_by == "failed"
    await until(lambda: cluster.election.controller is not None)
    await until(
        lambda: (
            [each.node_id for each in cluster.publisher.latest.brokers.values() if each.fenced] == [node_id]
        )
    )
    assert cluster.failed.keys() == {node_id}
    cluster.faults.clear_all()
    await cluster.start_node(node)
    await until(
        lambda: all(
            len(partition.isr) == len(partition.replicas)
            for topic in cluster.publisher.latest.topics.values()
            for partition in topic.partitions
        )
    )


async def test_a_controller_that_cannot_write_is_succeeded(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **CHECKPOINTS_NEVER) as cluster:
        cluster.faults.add("fill-disk", node=1)
        refused = await created(cluster, "t", asked=2)
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
        await until(lambda: cluster.election.controller_id == 2)
        assert not isinstance(await created(cluster, "t", asked=2), Exception)
        await lost_and_back(cluster, 1)
        assert cluster.election.controller_id == 2


async def test_a_copy_of_the_metadata_that_cannot_be_written_is_its_nodes_end_and_no_bug(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, nodes=3, **CHECKPOINTS_NEVER) as cluster:
        cluster.faults.add("fill-disk", node=3)
        assert not isinstance(await created(cluster, "t", asked=1), Exception)
        await lost_and_back(cluster, 3)
        assert "t" in cluster.nodes[3].broker.image.topics
    assert "node 3 has failed: cannot write the metadata log in" in caplog.text
    assert "this is a bug" not in caplog.text


@pytest.mark.parametrize("node_id", [1, 2, 3])
async def test_a_replica_that_cannot_be_written_is_lost(tmp_path: Path, node_id: int) -> None:
    async with running_cluster(tmp_path, nodes=3, **CHECKPOINTS_OFTEN) as cluster:
        create(cluster, "t", on=(1, 2, 3), min_insync_replicas="2")
        append(leader_of(cluster), b"before")
        cluster.faults.add("fill-disk", node=node_id)
        if node_id != 1:
            append(leader_of(cluster), b"more")
        await lost_and_back(cluster, node_id)


async def test_a_node_that_takes_nothing_is_lost_with_its_next_checkpoint(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=3, **CHECKPOINTS_OFTEN) as cluster:
        cluster.faults.add("fill-disk", node=2)
        await lost_and_back(cluster, 2)
