"""Actions: what is done to a cluster at once, on the command line and in scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import text, whole
from kcli.broker.faults.moves import move_coordinator, move_leader
from kcli.broker.process.node_operations import NODE_OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.process.cluster import Cluster


async def perform(cluster: Cluster, action: str, options: Mapping[str, Any]) -> None:
    """Do something to a cluster, in the words of `scenario.ACTIONS`. Raises `KcliError`."""
    match action:
        case "move-leader":
            topic, partition = text(options, "topic"), whole(options, "partition")
            move_leader(cluster.controller, topic, partition=partition, node=whole(options, "to"))
        case "move-coordinator":
            move_coordinator(cluster.controller, text(options, "group"), whole(options, "to"))
        case "move-controller":
            await NODE_OPERATIONS["node.move-controller"](cluster, {"node": whole(options, "to")})
        case _:
            await NODE_OPERATIONS[f"node.{action}"](cluster, {"node": whole(options, "node")})
