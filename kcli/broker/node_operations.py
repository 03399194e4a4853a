"""What `kcli broker node` asks of a running process.

Each operation takes the cluster and the arguments, and returns what JSON can say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kcli.broker.broker import Broker
    from kcli.broker.cluster import Cluster

    Operation = Callable[[Cluster, Mapping[str, Any]], Awaitable[object]]


async def list_nodes(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every node, by ascending id."""
    return [_described(cluster, broker) for broker in cluster.brokers]


def _described(cluster: Cluster, broker: Broker) -> dict[str, Any]:
    image = cluster.brokers[0].image
    registration = image.brokers.get(broker.node_id)
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    return {
        "node": broker.node_id,
        "state": "dead" if broker.node_id in cluster.failed else "running",
        "host": broker.endpoints[0].host,
        "port": broker.endpoints[0].port,
        "rack": None if registration is None else registration.rack,
        "fenced": registration is None or registration.fenced,
        "leaders": sum(partition.leader == broker.node_id for partition in partitions),
        "replicas": sum(broker.node_id in partition.replicas for partition in partitions),
    }


NODE_OPERATIONS: Mapping[str, Operation] = {
    "node.list": list_nodes,
}
