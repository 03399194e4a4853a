"""Log directories of replicas: their assignment, and the failure of a directory (KIP-858)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.controller.cluster_control import current_broker, fence_broker, leave_partitions
from kcli.broker.controller.result import ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kcli.broker.controller.partition_change import PartitionDecisions
    from kcli.broker.metadata.metadata_image import PartitionRegistration
    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.topics import TopicIdPartition


class DirectoryAssignment(NamedTuple):
    """A replica of a broker, and its log directory."""

    topic_id: bytes
    partition: int
    directory: bytes


def lose_directories(
    decisions: PartitionDecisions, *, node_id: int, epoch: int, offline: Collection[bytes]
) -> ControllerResult[None]:
    """Take the replicas in newly failed log directories offline."""
    broker = current_broker(decisions.image, node_id, epoch)
    lost = {directory for directory in broker.directories if directory in offline}
    if not lost:
        return ControllerResult((), None)
    remaining = [directory for directory in broker.directories if directory not in lost]
    if not remaining:
        # No record can say that a broker has no directory; such a broker is about to stop.
        return fence_broker(decisions, node_id=node_id, epoch=epoch)
    records: list[MetadataRecord] = list(
        leave_partitions(decisions, node_id, lambda each: each.partition.directory_of(node_id) in lost)
    )
    records.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, log_dirs=remaining))
    return ControllerResult(tuple(records), None)


def assign_directories(
    decisions: PartitionDecisions, *, node_id: int, epoch: int, assignments: Sequence[DirectoryAssignment]
) -> ControllerResult[list[KafkaError | None]]:
    """Note the directories of a broker's replicas; the response has an error or None for each, in order.

    A replica in an offline directory goes offline. Errors: 100 and 3 for unknown topics and partitions, 6 for
    a partition that has no replica on the broker.
    """
    broker = current_broker(decisions.image, node_id, epoch)
    records: list[MetadataRecord] = []
    outcomes: list[KafkaError | None] = []
    offline: set[TopicIdPartition] = set()
    for each in assignments:
        try:
            partition = _replica(decisions, node_id, each)
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        outcomes.append(None)
        if partition.directory_of(node_id) != each.directory:
            directories = [
                each.directory if replica == node_id else partition.directory_of(replica)
                for replica in partition.replicas
            ]
            records.append(
                PartitionChangeRecord(
                    topic_id=each.topic_id, partition_id=each.partition, directories=directories
                )
            )
        if not broker.has_online(each.directory):
            offline.add((each.topic_id, each.partition))
    if offline:
        records.extend(
            leave_partitions(decisions, node_id, lambda place: (place.topic.topic_id, place.index) in offline)
        )
    return ControllerResult(tuple(records), outcomes)


def _replica(
    decisions: PartitionDecisions, node_id: int, wanted: DirectoryAssignment
) -> PartitionRegistration:
    topic = decisions.image.topics_by_id.get(wanted.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= wanted.partition < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[wanted.partition]
    if node_id not in partition.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {node_id} has no replica of it")
    return partition
