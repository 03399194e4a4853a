"""The operations behind `kcli broker node`: list, stop, kill, start …

Each takes the cluster and the arguments, usually a node id, and returns JSON values. One that is impossible
raises `KcliError` and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.listener_config import SECURITY_PROTOCOLS
from kcli.broker.node.node import failure_reason
from kcli.broker.node_context import NodeState
from kcli.broker.process.node_layout import check_ports, make_directories
from kcli.errors import KcliError, UsageError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.storage.disk import remove_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.metadata.registrations import Endpoint
    from kcli.broker.node.node import Node
    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation


def node_rows(cluster: Cluster) -> list[dict[str, Any]]:
    """Return one object per node, by ascending id."""
    return [_row(cluster, node) for _, node in sorted(cluster.nodes.items())]


def _row(cluster: Cluster, node: Node) -> dict[str, Any]:
    image = cluster.publisher.latest
    registration = image.brokers.get(node.node_id)
    endpoint = node.broker.endpoints[0] if node.broker.endpoints else None
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions]
    replicas = [partition for partition in partitions if node.node_id in partition.replicas]
    copies = cluster.election.copies
    return {
        "node": node.node_id,
        "state": node.state.value,
        "ended_by": node.ended_by or None,
        "reason": None if node.failure is None else failure_reason(node.failure),
        "host": None if endpoint is None else endpoint.host,
        "port": None if endpoint is None else endpoint.port,
        "rack": node.config.broker_rack,
        "fenced": registration is None or registration.fenced,
        "is_controller": node.node_id == cluster.election.controller_id,
        "leads": sum(partition.leader == node.node_id for partition in replicas),
        "replicas": len(replicas),
        "in_sync": sum(node.node_id in partition.isr for partition in replicas),
        "metadata_offset": copies[node.node_id].end_offset - 1 if node.node_id in copies else None,
        "log_dirs": list(node.log_dirs),
        "listeners": [shown_listener(each) for each in node.broker.endpoints],
    }


def shown_listener(endpoint: Endpoint) -> str:
    """Return a listener as in `listeners`, with its security protocol if its name is not that."""
    names = {number: name for name, number in SECURITY_PROTOCOLS.items()}
    protocol = names[endpoint.security_protocol]
    name = protocol if endpoint.name == protocol else f"{endpoint.name}:{protocol}"
    return f"{name}://{endpoint.address}"


async def list_nodes(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    return node_rows(cluster)


async def stop_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Stop a node in order: it hands over its partitions, flushes its logs, and leaves nothing to recover."""
    node = _node(cluster, arguments)
    node.refuse(NodeState.STOPPING, NodeState.DEAD, NodeState.STARTING)
    if node.state is NodeState.PAUSED:
        raise KcliError(
            f"node {node.node_id} is paused, and cannot hand over its partitions",
            hint="resume it first, or kill it",
        )
    await cluster.stop_node(node)
    return {"node": node.node_id}


async def kill_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """End a node as SIGKILL would: its connections are reset, nothing is flushed or announced."""
    node = _node(cluster, arguments)
    node.refuse(NodeState.STARTING, NodeState.DEAD)
    node.ended_by = "killed"
    node.scope.cancel()
    await node.ended.wait()
    return {"node": node.node_id}


async def start_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Start a dead node; return when its listeners accept."""
    node = _node(cluster, arguments)
    alive = (NodeState.STARTING, NodeState.RUNNING, NodeState.PAUSED, NodeState.STOPPING)
    node.refuse(*alive)
    # A node is dead before its directories are free. Another start may have waited for them, too.
    await node.ended.wait()
    node.refuse(*alive)
    await cluster.start_node(node)
    return {"node": node.node_id}


async def pause_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Pause a node, as SIGSTOP would: its connections stay open and get no answer."""
    node = _node(cluster, arguments)
    node.refuse(NodeState.STARTING, NodeState.PAUSED, NodeState.STOPPING, NodeState.DEAD)
    node.broker.pause()
    return {"node": node.node_id}


async def resume_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Resume a paused node; it catches up with the metadata first."""
    node = _node(cluster, arguments)
    node.refuse(NodeState.STARTING, NodeState.RUNNING, NodeState.STOPPING, NodeState.DEAD)
    node.broker.resume()
    cluster.publisher.catch_up()
    node.broker.lifecycle.beat()
    return {"node": node.node_id}


async def add_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Start a new node, with the next id and port; it belongs to the next start of the process, too."""
    node_id = 1 + max({*cluster.nodes, *cluster.layout.present(), *cluster.controller.image.brokers})
    config = cluster.layout.config(node_id, rack=arguments.get("rack"))
    check_ports([*(each.config for each in cluster.nodes.values()), config])
    node = cluster.new_node(config)
    made = make_directories(node.log_dirs)
    try:
        await cluster.start_node(node)
    except BaseException:
        remove_empty(made)
        node.give_up_ports()
        del cluster.nodes[node_id]
        raise
    return {"node": node_id}


async def remove_node(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Stop a node permanently, unregister it, and rename its directories."""
    node = _node(cluster, arguments)
    node_id = node.node_id
    if len(cluster.nodes) == 1:
        raise KcliError(f"node {node_id} is the last one", hint="`kcli broker stop` ends the process")
    controller = cluster.controller
    replicas = sum(
        node_id in partition.replicas
        for topic in controller.image.topics.values()
        for partition in topic.partitions
    )
    if replicas and not arguments.get("force"):
        raise KcliError(
            f"node {node_id} has {replicas} replicas",
            hint=f"plan their moves: `kcli reassign-partitions generate --drain {node_id}`, or use `--force`",
        )
    if node.state is NodeState.RUNNING:
        await cluster.stop_node(node)
    elif node.is_alive:
        await kill_node(cluster, arguments)
    await node.ended.wait()
    try:
        cluster.controller.unregister_broker(node_id=node_id)
    except KafkaError as error:
        if error.code is not ErrorCode.BROKER_ID_NOT_REGISTERED:
            raise
    node.give_up_ports()
    del cluster.nodes[node_id]
    cluster.failed.pop(node_id, None)
    return {"node": node_id, "kept": cluster.layout.rename_removed(node_id), "replicas": replicas}


async def move_controller(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Make a node the controller, in a new epoch."""
    node = _node(cluster, arguments)
    node.refuse(NodeState.STARTING, NodeState.PAUSED, NodeState.STOPPING, NodeState.DEAD)
    if cluster.election.controller_id == node.node_id:
        raise KcliError(f"node {node.node_id} is the controller already")
    cluster.election.move_to(node.node_id)
    return {"node": node.node_id, "term": cluster.election.epoch}


def _node(cluster: Cluster, arguments: Mapping[str, Any]) -> Node:
    node_id = arguments.get("node")
    if not isinstance(node_id, int) or isinstance(node_id, bool):
        raise UsageError("`node` must be the id of a node")
    return cluster.node(node_id)


NODE_OPERATIONS: Mapping[str, Operation] = {
    "node.list": list_nodes,
    "node.stop": stop_node,
    "node.kill": kill_node,
    "node.start": start_node,
    "node.pause": pause_node,
    "node.resume": resume_node,
    "node.add": add_node,
    "node.remove": remove_node,
    "node.move-controller": move_controller,
}
