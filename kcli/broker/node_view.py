"""What a running process tells of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.node import failure_reason

if TYPE_CHECKING:
    from kcli.broker.cluster import Cluster
    from kcli.broker.node import Node


def node_rows(cluster: Cluster) -> list[dict[str, Any]]:
    """Return one object per node, by ascending id."""
    return [_row(cluster, node) for _, node in sorted(cluster.nodes.items())]


def _row(cluster: Cluster, node: Node) -> dict[str, Any]:
    image = cluster.feeds.latest
    registration = image.brokers.get(node.node_id)
    endpoint = node.broker.endpoints[0] if node.broker.endpoints else None
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    replicas = [partition for partition in partitions if node.node_id in partition.replicas]
    copies = cluster.office.copies
    return {
        "node": node.node_id,
        "state": node.state.value,
        "ended_by": node.ended_by or None,
        "reason": None if node.failure is None else failure_reason(node.failure),
        "host": None if endpoint is None else endpoint.host,
        "port": None if endpoint is None else endpoint.port,
        "rack": node.config.broker_rack,
        "fenced": registration is None or registration.fenced,
        "is_controller": node.node_id == cluster.office.holder,
        "leads": sum(partition.leader == node.node_id for partition in replicas),
        "replicas": len(replicas),
        "in_sync": sum(node.node_id in partition.isr for partition in replicas),
        "metadata_offset": copies[node.node_id].end_offset - 1 if node.node_id in copies else None,
        "log_dirs": list(node.log_dirs),
    }
