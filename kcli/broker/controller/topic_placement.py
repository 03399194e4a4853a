"""Where a topic's replicas go: on whom, in which directory, and who leads first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.replica_placer import Candidate, growth_start, place_replicas
from kcli.broker.controller.result import check_batch_size
from kcli.broker.registrations import UNASSIGNED_DIRECTORY, PartitionRegistration
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from kcli.broker.controller.replication_control import NewTopic, TopicDefaults
    from kcli.broker.metadata_image import MetadataImage, TopicImage

BROKER_DEFAULT = -1
"""As a number of partitions or replicas: what the broker's configuration says."""


def place_new_topic(
    image: MetadataImage, wanted: NewTopic, *, defaults: TopicDefaults, random: Random
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition of a topic that is given by counts."""
    replicas = wanted.replication_factor
    partitions = wanted.partitions
    if replicas < BROKER_DEFAULT or replicas == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"invalid replication factor: {replicas}; it must be above 0, or -1 for the default",
        )
    if partitions < BROKER_DEFAULT or partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"invalid number of partitions: {partitions}; it must be above 0, or -1 for the default",
        )
    partitions = defaults.partitions if partitions == BROKER_DEFAULT else partitions
    # Before placing: a number beyond all bounds must not cost memory.
    check_batch_size(partitions)
    active, fenced = _candidates(image)
    count = max(len(active), 1)
    return _place(
        active,
        fenced,
        partitions=partitions,
        replication_factor=defaults.replication_factor if replicas == BROKER_DEFAULT else replicas,
        start_index=random.randrange(count),
        shift=random.randrange(count),
    )


def place_growth(image: MetadataImage, topic: TopicImage, additional: int) -> list[tuple[int, ...]]:
    """Return the replicas of a topic's additional partitions: they continue the first placement."""
    active, fenced = _candidates(image)
    start = growth_start(active, topic.partitions[0].replicas[0])
    return _place(
        active,
        fenced,
        partitions=additional,
        replication_factor=topic.replication_factor,
        start_index=start,
        shift=start,
        first_partition=len(topic.partitions),
    )


def _place(
    active: Sequence[Candidate],
    fenced: Sequence[int],
    *,
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Place replicas on active brokers, on fenced ones only where those do not suffice, never as leaders."""
    known = len(active) + len(fenced)
    if replication_factor > known:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replication_factor} replicas need as many brokers, of which {known} are registered",
        )
    if not active:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
    placed = place_replicas(
        active,
        partitions=partitions,
        replication_factor=min(replication_factor, len(active)),
        start_index=start_index,
        shift=shift,
        first_partition=first_partition,
    )
    missing = replication_factor - len(active)
    if missing <= 0:
        return placed
    return [
        (*replicas, *(fenced[(index + turn) % len(fenced)] for turn in range(missing)))
        for index, replicas in enumerate(placed, first_partition)
    ]


def _candidates(image: MetadataImage) -> tuple[list[Candidate], list[int]]:
    """Return the brokers that may lead, and those that are fenced and may come back."""
    active = [Candidate(each.node_id, each.rack) for each in image.brokers.values() if each.is_active]
    return active, sorted(each.node_id for each in image.brokers.values() if each.fenced)


def assigned_replicas(image: MetadataImage, wanted: NewTopic) -> list[tuple[int, ...]]:
    """Return the replicas of each partition in order, if the given ones are a whole topic."""
    if wanted.replication_factor != BROKER_DEFAULT or wanted.partitions != BROKER_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "with an assignment, the numbers of partitions and replicas must both be -1",
        )
    assigned: dict[int, tuple[int, ...]] = {}
    expected: int | None = None
    for index, replicas in wanted.assignments:
        if index in assigned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} is assigned more than once"
            )
        check_replicas(image, index, replicas, expected=expected)
        assigned[index] = tuple(replicas)
        expected = len(replicas)
    if set(assigned) != set(range(len(assigned))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without a gap"
        )
    return [assigned[index] for index in range(len(assigned))]


def check_replicas(
    image: MetadataImage, index: int, replicas: Sequence[int], *, expected: int | None
) -> None:
    """Raise `KafkaError` INVALID_REPLICA_ASSIGNMENT unless a new partition may have these replicas."""
    check_brokers(image, index, replicas)
    wrong = None
    if expected is not None and len(replicas) != expected:
        wrong = f"has {len(replicas)} replicas where others have {expected}"
    elif not any(image.broker_is_active(replica) for replica in replicas):
        wrong = "is assigned only to brokers that are fenced or shutting down"
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} {wrong}")


def check_brokers(image: MetadataImage, index: int, replicas: Sequence[int]) -> None:
    """Raise `KafkaError` INVALID_REPLICA_ASSIGNMENT unless these are brokers, up or down, each named once."""
    wrong = None
    unknown = [replica for replica in replicas if replica not in image.brokers]
    if not replicas:
        wrong = "has no replicas"
    elif unknown:
        wrong = f"is assigned to broker {unknown[0]}, which is not registered"
    elif len(set(replicas)) != len(replicas):
        wrong = "is assigned to a broker more than once"
    if wrong is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} {wrong}")


def new_partition(image: MetadataImage, replicas: Sequence[int]) -> PartitionRegistration:
    """Return a partition as it begins: led by the first replica that is there."""
    isr = tuple(replica for replica in replicas if image.broker_is_active(replica))
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr or tuple(replicas[:1]),
        leader=isr[0] if isr else -1,
        directories=tuple(_directory(image, replica) for replica in replicas),
    )


def _directory(image: MetadataImage, node_id: int) -> bytes:
    """Return the log directory of a new replica: only a broker with a single one leaves no choice."""
    broker = image.brokers.get(node_id)
    if broker is not None and len(broker.directories) == 1:
        return broker.directories[0]
    return UNASSIGNED_DIRECTORY
