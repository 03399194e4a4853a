"""The start of a process that hosts all nodes: they went down in one moment, and come up in one.

Were each of them to register as if it alone had died, the first would be out of every in-sync set before the
second had a chance. What all of them had in sync when the process ended they still have, so nobody leaves:
every partition loses its leader, and gets its preferred one back when all are there, in a higher epoch.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.controller.cluster_control import current_broker, leave_partitions
from kcli.broker.controller.partition_decisions import PartitionDecisions
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.internal.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kcli.broker.controller.controller import Controller
    from kcli.protocol.internal.metadata_records import MetadataRecord

_NO_DEFAULTS = MappingProxyType[str, Any]({})


def nodes_went_down(controller: Controller, *, returning: Collection[int]) -> None:
    """Note that every node went down, and that only those `returning` come up with this start.

    The others leave what they are in sync with. Raises `KafkaError`.
    """
    controller.commit(all_went_down(PartitionDecisions(controller.image)))
    for node_id in controller.image.brokers.keys() - set(returning):
        leaving = leave_partitions(PartitionDecisions(controller.image), node_id)
        controller.commit(ControllerResult(tuple(leaving), None))


def nodes_came_up(
    controller: Controller, epochs: Mapping[int, int], defaults: Mapping[str, Any] = _NO_DEFAULTS
) -> None:
    """Let the nodes of a start lead, given with their epochs. Raises `KafkaError`.

    `defaults` are the typed configurations of topics.
    """
    controller.commit(all_came_up(PartitionDecisions(controller.image, defaults), epochs=epochs))


def all_went_down(decisions: PartitionDecisions) -> ControllerResult[None]:
    """Fence every broker; what they are in sync with they stay in sync with."""
    image = decisions.image
    records: list[MetadataRecord] = [
        PartitionChangeRecord(partition_id=place.index, topic_id=place.topic.topic_id, leader=NO_LEADER)
        for place in decisions.partitions()
        if place.partition.leader != NO_LEADER
    ]
    records.extend(
        BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=1)
        for broker in image.brokers.values()
        if not broker.fenced
    )
    return ControllerResult(tuple(records), None)


def all_came_up(decisions: PartitionDecisions, *, epochs: Mapping[int, int]) -> ControllerResult[None]:
    """Unfence brokers, given with their epochs, and elect leaders among all of them."""
    records: list[MetadataRecord] = [
        BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=-1)
        for node_id, epoch in epochs.items()
        if current_broker(decisions.image, node_id, epoch).fenced
    ]
    with_them = decisions.with_coming(*epochs)
    for place in decisions.partitions():
        if place.partition.leader == NO_LEADER:
            change = with_them.change(place.topic, place.index)
            records.extend([] if change is None else [change])
    return ControllerResult(tuple(records), None)
