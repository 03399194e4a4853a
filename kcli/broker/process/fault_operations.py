"""The operations behind `kcli broker fault`, and the actions that scenarios share with the command line.

Actions take effect at once: they start and stop nodes, and move a leader, a coordinator or the controller.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kcli.broker.config.option_values import text, whole
from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.faults.fault import MARKER_KINDS, RequestFault
from kcli.broker.process.node_operations import NODE_OPERATIONS
from kcli.errors import KcliError, nearest_hint
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import GROUP_METADATA_TOPIC, INTERNAL_TOPICS, TopicPartition, partition_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.controller.controller import Controller
    from kcli.broker.faults.fault import ActiveFault
    from kcli.broker.process.cluster import Cluster
    from kcli.broker.process.control_server import Operation


def move_leader(controller: Controller, topic: str, *, partition: int, node: int) -> None:
    """Make an in-sync replica the leader and the preferred leader, so that it stays. Raises `KcliError`."""
    known = controller.image.topics.get(topic)
    if known is None:
        raise KcliError(f"there is no topic `{topic}`", hint=nearest_hint(topic, controller.image.topics))
    if not 0 <= partition < len(known.partitions):
        last = len(known.partitions) - 1
        raise KcliError(f"there is no partition {partition} of `{topic}`", hint=f"the last one is {last}")
    registration = known.partitions[partition]
    if node not in registration.replicas:
        raise KcliError(
            f"node {node} has no replica of `{topic}` partition {partition}",
            hint=f"its replicas are {', '.join(map(str, registration.replicas))}",
        )
    if node not in registration.isr:
        raise KcliError(f"node {node} is not in sync with the leader of `{topic}` partition {partition}")
    if registration.adding or registration.removing:
        raise KcliError(f"`{topic}` partition {partition} is being reassigned")
    others = tuple(replica for replica in registration.replicas if replica != node)
    (error,) = controller.alter_reassignments([Reassignment(topic, partition, (node, *others))])
    if error is None:
        (error,) = controller.elect_leaders([TopicPartition(topic, partition)], type=ElectionType.PREFERRED)
    if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED:
        raise KafkaError(error.code, f"cannot move the leader: {error.message}")


def move_coordinator(controller: Controller, group: str, node: int) -> None:
    """Make a node the coordinator of a group: the leader of the group's partition. Raises `KcliError`."""
    topic = controller.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is None:
        raise KcliError(f"there is no `{GROUP_METADATA_TOPIC}` yet: no group has been used")
    move_leader(controller, topic.name, partition=partition_for(group, len(topic.partitions)), node=node)


async def perform(cluster: Cluster, action: str, options: Mapping[str, Any]) -> None:
    """Perform one of `scenario.ACTIONS` on a cluster. Raises `KcliError`."""
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


async def list_faults(cluster: Cluster, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the active faults, oldest first."""
    return [_described(active) for active in cluster.faults.active]


async def add_fault(cluster: Cluster, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Begin the fault `kind` with the other arguments as its options."""
    options = {name: value for name, value in arguments.items() if name != "kind"}
    active = cluster.faults.add(text({"kind": "", **arguments}, "kind"), **options)
    return {**_described(active), "warning": _no_such_topic(getattr(active.fault, "topic", None), cluster)}


def _no_such_topic(pattern: str | None, cluster: Cluster) -> str | None:
    """Return a warning if no topic matches: it may be created later, or the name is a typo."""
    if pattern is None or cluster.election.controller is None:
        return None
    topics = {*cluster.controller.image.topics, *INTERNAL_TOPICS}
    if any(fnmatchcase(name, pattern) for name in topics):
        return None
    if {*"*?["} & {*pattern}:
        return f"no topic matches `{pattern}` now"
    nearest = nearest_hint(pattern, topics)
    return f"no topic `{pattern}` exists now" + (f", {nearest}" if nearest else "")


async def clear_faults(cluster: Cluster, arguments: Mapping[str, Any]) -> list[int]:
    """Clear the faults `numbers`, or every fault; return the numbers of the cleared faults."""
    numbers = arguments.get("numbers")
    if not numbers:
        cleared = [active.number for active in cluster.faults.active]
        cluster.faults.clear_all()
        return cleared
    known = [cluster.faults.active_fault(whole({"number": each}, "number", least=1)) for each in numbers]
    for active in dict.fromkeys(known):
        cluster.faults.clear(active.number)
    return sorted({active.number for active in known})


def _moving(action: str) -> Operation:
    async def move(cluster: Cluster, arguments: Mapping[str, Any]) -> None:
        await perform(cluster, action, arguments)

    return move


def _described(active: ActiveFault) -> dict[str, Any]:
    fault = active.fault
    counts = isinstance(fault, RequestFault) or fault.kind in MARKER_KINDS
    return {
        "number": active.number,
        "kind": fault.kind,
        "fault": str(fault),
        "hits": active.hits if counts else None,
        "left": active.left if counts else None,
    }


FAULT_OPERATIONS: Mapping[str, Operation] = {
    "fault.list": list_faults,
    "fault.add": add_fault,
    "fault.clear": clear_faults,
    "fault.move-leader": _moving("move-leader"),
    "fault.move-coordinator": _moving("move-coordinator"),
    "fault.move-controller": _moving("move-controller"),
}
