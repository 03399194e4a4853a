"""Reassignments of partitions: begin, replace, cancel (KIP-455).

A reassignment begins with all replicas in one list, new ones first, and ends when those that stay are in sync
(`partition_change`). A new reassignment of a partition replaces an unfinished one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.broker.controller.partition_change import Assignment, Election
from kcli.broker.controller.replication_control import check_brokers
from kcli.broker.controller.result import MAX_RECORDS_PER_OPERATION, ControllerResult
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.controller.partition_change import PartitionDecisions, Place
    from kcli.broker.metadata.metadata_image import PartitionRegistration
    from kcli.protocol.internal.metadata_records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition and its new replicas; None cancels its reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


def alter_reassignments(
    decisions: PartitionDecisions,
    wanted: Sequence[Reassignment],
    *,
    allow_replication_factor_change: bool = True,
) -> ControllerResult[list[KafkaError | None]]:
    """Begin, replace and cancel reassignments; the response has an error or None for each, in order.

    Errors: 3 for an unknown partition, 39 for invalid replicas, 38 for another replication factor where that
    is not allowed, 85 for cancelling without a reassignment, 44 for more than one batch can hold. Of a
    partition that the request names twice, the last change that is allowed counts.
    """
    records: dict[TopicPartition, PartitionChangeRecord] = {}
    outcomes: list[KafkaError | None] = []
    for each in wanted:
        partition = TopicPartition(each.topic, each.partition)
        try:
            record = _decide(decisions, each, keep_count=not allow_replication_factor_change)
            records.pop(partition, None)
            if record is not None and len(records) == MAX_RECORDS_PER_OPERATION:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many partitions for one request")
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        if record is not None:
            records[partition] = record
        outcomes.append(None)
    return ControllerResult(tuple(records.values()), outcomes)


def _decide(
    decisions: PartitionDecisions, wanted: Reassignment, *, keep_count: bool
) -> PartitionChangeRecord | None:
    place = decisions.place(wanted.topic, wanted.partition)
    if wanted.replicas is None:
        return _cancel(decisions, place)
    check_brokers(decisions.image, wanted.partition, wanted.replicas)
    if keep_count:
        _check_count(place.partition, wanted.replicas)
    assignment = _begin(place.partition, wanted.replicas)
    return decisions.change(place, election=Election.ONLINE, assignment=assignment)


def _begin(partition: PartitionRegistration, target: tuple[int, ...]) -> Assignment:
    """Return the assignment of a reassignment; replicas that an unfinished one added still count as added.

    So a cancel restores the replicas from before both. A replica may be both added and removed until the end.
    """
    original = set(partition.replicas) - set(partition.adding)
    removing = tuple(sorted(set(partition.replicas) - set(target)))
    adding = tuple(sorted({*target, *removing} - original))
    return Assignment((*target, *removing), adding, removing)


def _cancel(decisions: PartitionDecisions, place: Place) -> PartitionChangeRecord | None:
    partition, topic = place.partition, place.topic.name
    if not partition.is_moving:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding)
    if not isr:
        if not decisions.may_elect_unclean(topic):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"stopping the move of `{topic}` partition {place.index} needs an unclean election",
            )
        isr = replicas[:1]
    return decisions.change(place, isr=isr, assignment=Assignment(replicas))


def _check_count(partition: PartitionRegistration, target: tuple[int, ...]) -> None:
    current = len(set(partition.replicas) - set(partition.removing))
    if len(target) != current:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the replication factor would change from {current} to {len(target)}",
        )
