"""What tests do to the nodes of a running cluster, and ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.process.node_operations import NODE_OPERATIONS
from kcli.client.admin import NewTopic, create_topics, describe_cluster
from kcli.client.client import connect
from kcli.errors import KcliError
from tests.support import waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.broker.process.cluster import Cluster

QUICK: dict[str, Any] = {"broker_heartbeat_interval_ms": "50", "broker_session_timeout_ms": "500"}


async def do(cluster: Cluster, operation: str, node: int | None = None, **arguments: object) -> Any:
    """Perform an operation on a node."""
    given = arguments if node is None else {"node": node, **arguments}
    return await NODE_OPERATIONS[f"node.{operation}"](cluster, given)


async def created(
    cluster: Cluster, name: str, partitions: int = 1, replicas: int = 1, on: tuple[int, ...] = ()
) -> None:
    """Create a topic."""
    async with connect(",".join(cluster.bootstrap_servers)) as client:
        wanted = NewTopic(name, partitions=partitions, replication_factor=replicas)
        if on:
            wanted = NewTopic(name, assignments={0: on})
        outcome = (await create_topics(client, [wanted]))[name]
        assert not isinstance(outcome, KcliError), outcome


async def until(cluster: Cluster, holds: Callable[[MetadataImage], bool]) -> None:
    """Return when something holds of the metadata that the controller has told."""
    await waiting.until(lambda: holds(cluster.publisher.latest))


def leaders(image: MetadataImage, topic: str = "t") -> list[int]:
    """Return who leads each partition of a topic."""
    return [partition.leader for partition in image.topics[topic].partitions]


def fenced(image: MetadataImage) -> list[int]:
    """Return the nodes that are fenced."""
    return [broker.node_id for broker in image.brokers.values() if broker.fenced]


async def states(cluster: Cluster) -> dict[int, str]:
    """Return the state of each node."""
    return {row["node"]: row["state"] for row in await do(cluster, "list")}


async def nodes_seen_from(cluster: Cluster, node: int) -> list[int]:
    """Return the nodes that a client of one of them hears of."""
    endpoint = cluster.nodes[node].broker.endpoints[0]
    async with connect(f"{endpoint.host}:{endpoint.port}") as client:
        return [each.node_id for each in (await describe_cluster(client)).nodes]
