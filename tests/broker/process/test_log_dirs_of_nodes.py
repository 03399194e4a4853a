"""Several nodes with several log directories each: what one that fails takes along, and what it does not."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kcli.broker.node_context import NodeState
from kcli.broker.process.node_operations import NODE_OPERATIONS
from tests.broker.replication.clusters import append, create, leader_of, replicas_of
from tests.support.running_cluster import running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from kcli.broker.node.broker import Broker
    from kcli.broker.process.cluster import Cluster


def two_each(tmp_path: Path) -> dict[str, str]:
    return {"log_dirs": f"{tmp_path}/a,{tmp_path}/b", "broker_heartbeat_interval_ms": "60000"}


def offline(cluster: Cluster, node_id: int) -> set[int]:
    """Return the partitions of `t` whose replica on a node is out of reach, as far as everybody knows."""
    image = cluster.publisher.latest
    broker = image.brokers[node_id]
    partitions = image.topics["t"].partitions
    return {
        index for index, each in enumerate(partitions) if not broker.has_online(each.directory_of(node_id))
    }


def lying_in(broker: Broker, disk: str) -> set[int]:
    return {
        log.topic_partition.partition
        for log in broker.log_manager
        if Path(log.parent_directory).parent.name == disk and log.topic_partition.topic == "t"
    }


def lose(broker: Broker, disk: str) -> None:
    """Have one of the log directories of a node fail under one of its logs."""
    log = next(each for each in broker.log_manager if Path(each.parent_directory).parent.name == disk)
    log.failed("flush", OSError(errno.EIO, "Input/output error"))


async def test_a_failed_directory_takes_only_its_own_replicas_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_cluster(tmp_path, nodes=3, **two_each(tmp_path)) as cluster:
        create(cluster, "t", partitions=4, replicas=3, min_insync_replicas="2")
        broker = cluster.nodes[2].broker
        gone, kept = lying_in(broker, "b"), lying_in(broker, "a")
        assert gone
        assert kept
        partitions = cluster.publisher.latest.topics
        await until(lambda: all(len(each.directories) == 3 for each in partitions["t"].partitions))
        lose(broker, "b")
        await until(lambda: offline(cluster, 2) == gone)
        after = cluster.publisher.latest.topics["t"].partitions
        assert {index for index, each in enumerate(after) if 2 not in each.isr} == gone
        assert all(each.leader != -1 for each in after)
        for index in gone:
            assert append(leader_of(cluster, index=index), b"v") == 1
        assert broker.state is NodeState.RUNNING
        assert not cluster.publisher.latest.brokers[2].fenced
    assert f"{tmp_path}/b/node-2" in caplog.text
    async with running_cluster(tmp_path, nodes=None, **two_each(tmp_path)) as cluster:
        assert list(cluster.nodes) == [1, 2, 3]
        await until(
            lambda: all(len(each.isr) == 3 for each in cluster.publisher.latest.topics["t"].partitions)
        )
        for index in gone:
            copies = replicas_of(cluster, index=index)
            await until(lambda copies=copies: {each.log.log_end_offset for each in copies.values()} == {1})


async def test_all_directories_of_a_node_that_is_removed_are_set_aside(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, nodes=2, **two_each(tmp_path)) as cluster:
        removed = await NODE_OPERATIONS["node.remove"](cluster, {"node": 2})
        kept = f"{tmp_path}/a/node-2-removed, {tmp_path}/b/node-2-removed"
        assert removed == {"node": 2, "kept": kept, "replicas": 0}
        assert await NODE_OPERATIONS["node.add"](cluster, {}) == {"node": 2}
        assert cluster.nodes[2].log_dirs == (f"{tmp_path}/a/node-2", f"{tmp_path}/b/node-2")
    async with running_cluster(tmp_path, nodes=None, **two_each(tmp_path)) as cluster:
        assert list(cluster.nodes) == [1, 2]
