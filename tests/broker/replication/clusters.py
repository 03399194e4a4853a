"""What tests of replication say of a cluster in their own process."""

from __future__ import annotations

from pathlib import Path

from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
from kcli.broker.node.broker import Broker
from kcli.broker.process.cluster import Cluster
from kcli.broker.replication.partition import Partition
from tests.broker.records import batch

NOW_MS = 1_700_000_000_000


def node(cluster: Cluster, node_id: int) -> Broker:
    """Return a node by its number."""
    return next(broker for broker in cluster.brokers if broker.node_id == node_id)


def create(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 3,
    on: tuple[int, ...] = (),
    **configs: str,
) -> None:
    """Create a topic, with one partition `on` nodes of which the first leads, or anywhere.

    Configurations are named with underscores for dots.
    """
    broker = cluster.brokers[0]
    overrides = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name, partitions, replicas, configs=overrides)
    if on:
        new = NewTopic(name, -1, -1, assignments=[(0, on)], configs=overrides)
    defaults = TopicDefaults(1, 1, broker.config.topic_defaults)
    (outcome,) = broker.controller.create_topics([new], defaults=defaults)
    assert not isinstance(outcome, Exception), outcome


def replicas_of(cluster: Cluster, topic: str = "t", index: int = 0) -> dict[int, Partition]:
    """Return the replicas of a partition by node."""
    return {
        broker.node_id: broker.replica_manager.partitions[topic, index]
        for broker in cluster.brokers
        if (topic, index) in broker.replica_manager.partitions
    }


def leader_of(cluster: Cluster, topic: str = "t", index: int = 0) -> Partition:
    """Return the replica that leads, in the newest epoch that anybody knows."""
    leaders = [each for each in replicas_of(cluster, topic, index).values() if each.is_leader]
    return max(leaders, key=lambda each: each.leader_epoch)


def append(partition: Partition, *values: bytes, acks: int = -1) -> int:
    """Append values in one batch; return the offset behind them."""
    records = memoryview(bytearray(batch(*values)))
    info = partition.append(records, acks=acks, now_ms=NOW_MS, max_decompressed=1 << 20)
    return info.last_offset + 1


def fence(cluster: Cluster, node_id: int) -> None:
    """Have the controller fence a node, as if it had been silent for too long."""
    controller = node(cluster, 1).controller
    controller.fence_broker(node_id=node_id, epoch=controller.image.brokers[node_id].epoch)


def cut(cluster: Cluster, node_id: int, *, is_cut: bool = True) -> None:
    """Cut a node off from all others, or no longer."""
    for broker in cluster.brokers:
        if broker.node_id != node_id:
            cluster.peers[broker.node_id, node_id].is_cut = is_cut
            cluster.peers[node_id, broker.node_id].is_cut = is_cut


def files_of(partition: Partition) -> dict[str, bytes]:
    """Return what is in a replica's directory, by file name."""
    directory = Path(partition.log.directory)
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".deleted"}
