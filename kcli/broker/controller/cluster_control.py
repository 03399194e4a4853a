"""Brokers: registration, fencing, unfencing (KIP-631).

A broker registers with every start and gets an epoch, the offset of its registration; whoever quotes an
older one is stale. It is fenced until it has caught up. A new registration of a node that had not been
fenced is that node's death and rebirth: its partitions lose their leader first and get it back, in a higher
leader epoch, when it is unfenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.partition_change import Election, next_state
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.metadata_records import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kcli.broker.metadata_image import (
        BrokerRegistration,
        Endpoint,
        MetadataImage,
        PartitionRegistration,
        TopicImage,
    )
    from kcli.protocol.metadata_records import MetadataRecord


def register_broker(
    image: MetadataImage,
    *,
    node_id: int,
    incarnation: bytes,
    endpoints: Sequence[Endpoint],
    directories: Sequence[bytes],
    features: Mapping[str, tuple[int, int]],
    rack: str | None = None,
) -> ControllerResult[int]:
    """Register a node that starts; the response is its broker epoch.

    `features` gives the lowest and highest level that the node supports, by name. Raises `KafkaError`
    INVALID_REGISTRATION if it does not support what the cluster works at.
    """
    for name, level in image.features.items():
        lowest, highest = features.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise KafkaError(
                ErrorCode.INVALID_REGISTRATION,
                f"node {node_id} does not support the cluster's `{name}` level {level}",
            )
    records: list[MetadataRecord] = []
    former = image.brokers.get(node_id)
    if former is not None and former.incarnation != incarnation and not former.fenced:
        records.extend(leave_partitions(image, node_id))
    epoch = image.offset + len(records) + 1
    records.append(
        RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=incarnation,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in sorted(features.items())
            ],
            rack=rack,
            log_dirs=list(directories),
        )
    )
    return ControllerResult(tuple(records), epoch)


def unfence_broker(image: MetadataImage, *, node_id: int, epoch: int) -> ControllerResult[None]:
    """Let a caught-up broker lead; partitions without a leader that it is in sync with elect it."""
    broker = _current_broker(image, node_id, epoch)
    if not broker.fenced:
        return ControllerResult((), None)
    records: list[MetadataRecord] = [
        BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=-1)
    ]
    records.extend(
        _changes(
            image,
            lambda partition: partition.leader == NO_LEADER and node_id in partition.isr,
            is_acceptable=lambda replica: replica == node_id or image.broker_is_active(replica),
        )
    )
    return ControllerResult(tuple(records), None)


def fence_broker(image: MetadataImage, *, node_id: int, epoch: int) -> ControllerResult[None]:
    """Take a broker out of every in-sync set it is not alone in, and its leaderships away."""
    broker = _current_broker(image, node_id, epoch)
    if broker.fenced:
        return ControllerResult((), None)
    records: list[MetadataRecord] = list(leave_partitions(image, node_id))
    records.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=1))
    return ControllerResult(tuple(records), None)


def leave_partitions(image: MetadataImage, node_id: int) -> Iterator[PartitionChangeRecord]:
    """Yield the changes to the partitions of a broker that is no longer there."""
    return _changes(
        image,
        lambda partition: partition.leader == node_id or node_id in partition.isr,
        is_acceptable=lambda replica: replica != node_id and image.broker_is_active(replica),
        leaving=node_id,
    )


def _changes(
    image: MetadataImage,
    concerns: Callable[[PartitionRegistration], bool],
    *,
    is_acceptable: Callable[[int], bool],
    leaving: int | None = None,
) -> Iterator[PartitionChangeRecord]:
    for topic, index, partition in _partitions(image):
        if concerns(partition):
            change = next_state(
                partition,
                topic_id=topic.topic_id,
                partition_id=index,
                is_acceptable=is_acceptable,
                election=Election.ONLINE,
                isr=[replica for replica in partition.isr if replica != leaving],
            )
            if change is not None:
                yield change


def _partitions(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            yield topic, index, partition


def _current_broker(image: MetadataImage, node_id: int, epoch: int) -> BrokerRegistration:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {node_id} is not registered")
    if broker.epoch != epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH, f"node {node_id} is at epoch {broker.epoch}, not at {epoch}"
        )
    return broker
