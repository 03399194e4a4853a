"""Moves: a leader, a coordinator or the controller goes to another node because somebody says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.errors import KcliError, nearest_hint
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import GROUP_METADATA_TOPIC, partition_for

if TYPE_CHECKING:
    from kcli.broker.controller.controller import Controller


def move_leader(controller: Controller, topic: str, *, partition: int, node: int) -> None:
    """Make a replica the leader, and the preferred one so that it stays.

    Raises `KcliError` if the node has no replica or is not in sync.
    """
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
        (error,) = controller.elect_leaders([(topic, partition)], type=ElectionType.PREFERRED)
    if error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED:
        raise KafkaError(error.code, f"cannot move the leader: {error.message}")


def move_coordinator(controller: Controller, group: str, node: int) -> None:
    """Make a node the coordinator of a group: the leader of its partition. Raises `KcliError`."""
    topic = controller.image.topics.get(GROUP_METADATA_TOPIC)
    if topic is None:
        raise KcliError(f"there is no `{GROUP_METADATA_TOPIC}` yet: no group has been used")
    move_leader(controller, topic.name, partition=partition_for(group, len(topic.partitions)), node=node)
