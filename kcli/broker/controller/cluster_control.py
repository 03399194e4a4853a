"""Brokers that come and go: registration, fencing, controlled shutdown (KIP-631).

A broker registers at every start and gets its epoch, the offset of the registration; requests with an older
epoch are stale. It is fenced until it has caught up. A node that registers again without having been fenced
died and came back: its partitions lose their leader, and get it back in a higher leader epoch when the node
is unfenced.

The nodes of a process go down in one moment and come up in one. If they registered one after the other, the
first would leave every ISR before the second returned. So none leaves: every partition loses its leader, and
gets its preferred leader back when all nodes are up, in a higher epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.controller.feature_control import UNSERVED_FEATURES
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import (
    NO_LEADER,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kcli.broker.controller.partition_change import PartitionDecisions, Place
    from kcli.broker.metadata.metadata_image import BrokerRegistration, Endpoint, MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationRequest:
    """A node that starts. After an unclean stop it may have lost records."""

    node_id: int
    incarnation: bytes
    endpoints: Sequence[Endpoint]
    directories: Sequence[bytes]
    rack: str | None = None
    had_clean_stop: bool = True


def register_broker(
    decisions: PartitionDecisions,
    request: BrokerRegistrationRequest,
    *,
    features: Mapping[str, tuple[int, int]],
) -> ControllerResult[int]:
    """Register a node; the response is its broker epoch.

    `features` has the lowest and highest supported level by name. Raises `KafkaError` INVALID_REGISTRATION if
    the node does not support the cluster's feature levels, or has a directory of another node.
    """
    image, node_id = decisions.image, request.node_id
    _check_features(image, node_id, features)
    _check_directories(image, node_id, request.directories)
    records: list[MetadataRecord] = []
    former = image.brokers.get(node_id)
    if former is not None and former.incarnation != request.incarnation:
        if decisions.keeps_eligible_leaders and not request.had_clean_stop:
            records.extend(leave_partitions(decisions, node_id, lost_records=True))
        elif not former.fenced:
            records.extend(leave_partitions(decisions, node_id))
    registration = RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=request.incarnation,
        broker_epoch=image.offset + len(records) + 1,
        end_points=[each.to_record() for each in request.endpoints],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in sorted(features.items())
        ],
        rack=request.rack,
        log_dirs=list(request.directories),
    )
    return ControllerResult((*records, registration), registration.broker_epoch)


def unfence_broker(decisions: PartitionDecisions, *, node_id: int, epoch: int) -> ControllerResult[None]:
    """Let a caught-up broker lead; leaderless partitions elect it where it may lead."""
    if not current_broker(decisions.image, node_id, epoch).fenced:
        return ControllerResult((), None)
    return all_came_up(decisions, epochs={node_id: epoch})


def fence_broker(decisions: PartitionDecisions, *, node_id: int, epoch: int) -> ControllerResult[None]:
    """Remove a broker from every ISR in which it is not alone, and from its leaderships."""
    if current_broker(decisions.image, node_id, epoch).fenced:
        return ControllerResult((), None)
    records: list[MetadataRecord] = list(leave_partitions(decisions, node_id))
    records.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=1))
    return ControllerResult(tuple(records), None)


def begin_controlled_shutdown(
    decisions: PartitionDecisions, *, node_id: int, epoch: int
) -> ControllerResult[None]:
    """Take a broker's leaderships away, so that it can stop unnoticed (KIP-841)."""
    records: list[MetadataRecord] = []
    if not current_broker(decisions.image, node_id, epoch).in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, in_controlled_shutdown=1)
        )
    records.extend(leave_partitions(decisions, node_id))
    return ControllerResult(tuple(records), None)


def unregister_broker(
    decisions: PartitionDecisions, *, node_id: int, only_fenced: bool = False
) -> ControllerResult[None]:
    """Forget a broker; partitions with only this one in sync wait for a broker with the same id.

    With `only_fenced` one that runs is refused: POLICY_VIOLATION.
    """
    broker = _registered(decisions.image, node_id)
    if only_fenced and not broker.fenced:
        is_last = all(other.fenced for other in decisions.image.brokers.values() if other is not broker)
        what = "the only node that runs" if is_last else "running"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"node {node_id} is {what}: stop it first")
    records: list[MetadataRecord] = list(leave_partitions(decisions, node_id))
    records.append(UnregisterBrokerRecord(broker_id=node_id, broker_epoch=broker.epoch))
    return ControllerResult(tuple(records), None)


def leave_partitions(
    decisions: PartitionDecisions,
    node_id: int,
    concerns: Callable[[Place], bool] = lambda _: True,
    *,
    lost_records: bool = False,
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes to an absent broker's partitions; with `lost_records` it is not eligible either."""
    without = decisions.with_going(node_id)
    unclean = frozenset({node_id}) if lost_records else frozenset[int]()
    for place in decisions.partitions():
        partition = place.partition
        members = {partition.leader, *partition.isr, *(partition.elr if lost_records else ())}
        if node_id in members and concerns(place):
            isr = [replica for replica in partition.isr if replica != node_id]
            change = without.change(place, isr=isr, unclean=unclean)
            if change is not None:
                yield change


def all_went_down(decisions: PartitionDecisions) -> ControllerResult[None]:
    """Fence every broker; all keep their places in the ISRs."""
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
    """Unfence brokers, given with their epochs, and elect leaders among them."""
    records: list[MetadataRecord] = [
        BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=-1)
        for node_id, epoch in epochs.items()
        if current_broker(decisions.image, node_id, epoch).fenced
    ]
    with_them = decisions.with_coming(*epochs)
    for place in decisions.partitions():
        if place.partition.leader == NO_LEADER:
            change = with_them.change(place)
            records.extend([] if change is None else [change])
    return ControllerResult(tuple(records), None)


def current_broker(image: MetadataImage, node_id: int, epoch: int) -> BrokerRegistration:
    """Return a broker; raise `KafkaError` for an old epoch or an unknown broker."""
    broker = _registered(image, node_id)
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is at epoch {broker.epoch}, not at {epoch}"
        )
    return broker


def _registered(image: MetadataImage, node_id: int) -> BrokerRegistration:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {node_id} is not registered")
    return broker


def _check_features(image: MetadataImage, node_id: int, features: Mapping[str, tuple[int, int]]) -> None:
    for name, level in image.features.items():
        lowest, highest = features.get(name, (0, 0))
        if name not in UNSERVED_FEATURES and not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"node {node_id} does not support the cluster's `{name}` level {level}",
                hint="copy the directories of its topics to a new log directory, and start with `--adopt`",
            )


def _check_directories(image: MetadataImage, node_id: int, directories: Sequence[bytes]) -> None:
    if len(set(directories)) != len(directories):
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"node {node_id} names a log directory twice")
    for other in image.brokers.values():
        if other.node_id != node_id and not set(directories).isdisjoint(other.directories):
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION, f"node {node_id} has a log directory of node {other.node_id}"
            )
