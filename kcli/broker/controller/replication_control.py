"""Topics and partitions: creation with placement, growth, deletion, adoption.

Each function decides about a list of items one by one: the response has the outcome or a `KafkaError` for
each, in order. All records of a call are one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.assignors.replica_placer import Candidate, growth_start, place_replicas
from kcli.broker.config.group_definitions import GroupConfig
from kcli.broker.controller.configuration_control import topic_config_records
from kcli.broker.controller.result import ControllerResult, check_batch_size
from kcli.broker.metadata.metadata_image import PartitionRegistration, TopicImage
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import RemoveTopicRecord, TopicRecord
from kcli.protocol.topics import METADATA_TOPIC, check_topic_name, collision_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.metadata_records import MetadataRecord

BROKER_DEFAULT = -1
"""As a number of partitions or replicas: the default of the broker's configuration."""


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
    # Checked before placing: a huge number must not cost memory.
    check_batch_size(partitions)
    candidates = _candidates(image)
    count = max(len(candidates.active), 1)
    return _place(
        candidates,
        partitions=partitions,
        replication_factor=defaults.replication_factor if replicas == BROKER_DEFAULT else replicas,
        start_index=random.randrange(count),
        shift=random.randrange(count),
    )


def place_growth(image: MetadataImage, topic: TopicImage, additional: int) -> list[tuple[int, ...]]:
    """Return the replicas of a topic's additional partitions, continuing its first placement."""
    candidates = _candidates(image)
    start = growth_start(candidates.active, topic.partitions[0].replicas[0])
    return _place(
        candidates,
        partitions=additional,
        replication_factor=topic.replication_factor,
        start_index=start,
        shift=start,
        first_partition=len(topic.partitions),
    )


class _Candidates(NamedTuple):
    """The brokers that may lead, and the fenced ones that may come back."""

    active: list[Candidate]
    fenced: list[int]


def _candidates(image: MetadataImage) -> _Candidates:
    active = [Candidate(each.node_id, each.rack) for each in image.brokers.values() if each.is_active]
    return _Candidates(active, sorted(each.node_id for each in image.brokers.values() if each.fenced))


def _place(
    candidates: _Candidates,
    *,
    partitions: int,
    replication_factor: int,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """Place replicas on active brokers; on fenced ones only if needed, and never as leaders."""
    active, fenced = candidates
    known = len(active) + len(fenced)
    if replication_factor > known:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"a replication factor of {replication_factor} needs as many brokers; registered: {known}",
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


def assigned_replicas(image: MetadataImage, wanted: NewTopic) -> list[tuple[int, ...]]:
    """Return the replicas of each partition in order, if the given ones form a whole topic."""
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
    """Raise `KafkaError` INVALID_REPLICA_ASSIGNMENT unless these are distinct known brokers."""
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
    """Return a new partition, led by the first active replica."""
    isr = tuple(replica for replica in replicas if image.broker_is_active(replica))
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr or tuple(replicas[:1]),
        leader=isr[0] if isr else -1,
        directories=tuple(image.directory_for(replica) for replica in replicas),
    )


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, by counts or by the replicas of each index. `topic_id` is for existing data."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic that gets `count` partitions; `assignments` has the replicas of the new ones, if given."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """Defaults from the configuration of the node that got the request, not of the controller's.

    `configs` is the typed configuration of a topic without overrides, `groups` that of a group.
    """

    partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, Any] = field(default_factory=dict)
    groups: GroupConfig = field(default_factory=GroupConfig)


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    defaults: TopicDefaults,
    random: Random,
    new_topic_id: Callable[[], bytes],
    check_room: Callable[[int, int], None] = lambda logs, pending: None,
) -> ControllerResult[list[TopicImage | KafkaError]]:
    """Create topics; each response is the new topic.

    Errors are those of `ReplicationControlManager`: 17 name, 36 exists, 37 and 38 counts, 39 and 42
    assignments, 40 configuration, 44 more than one batch can hold, and those of `check_room`.
    """
    logs = 0
    taken = _TakenNames(image)
    records: list[MetadataRecord] = []
    outcomes: list[TopicImage | KafkaError] = []
    for wanted in topics:
        try:
            taken.check(wanted.name)
            topic, own = _decide_topic(image, wanted, defaults, random, new_topic_id)
            check_batch_size(len(records) + len(own))
            own_logs = sum([len(partition.replicas) for partition in topic.partitions])
            check_room(own_logs, logs)
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        taken.add(topic.name)
        logs += own_logs
        records.extend(own)
        outcomes.append(topic)
    return ControllerResult(tuple(records), outcomes)


def delete_topics(
    image: MetadataImage, topic_ids: Iterable[bytes]
) -> ControllerResult[list[TopicImage | KafkaError]]:
    """Delete topics by id; each response is the former topic."""
    records: list[MetadataRecord] = []
    outcomes: list[TopicImage | KafkaError] = []
    for topic_id in topic_ids:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            outcomes.append(KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        records.append(RemoveTopicRecord(topic_id=topic_id))
        outcomes.append(topic)
    return ControllerResult(tuple(records), outcomes)


def create_partitions(
    image: MetadataImage,
    wanted: Sequence[NewPartitions],
    *,
    check_room: Callable[[int, int], None] = lambda logs, pending: None,
) -> ControllerResult[list[int | KafkaError]]:
    """Add partitions; each response is the number added."""
    logs = 0
    records: list[MetadataRecord] = []
    outcomes: list[int | KafkaError] = []
    for growth in wanted:
        try:
            topic = image.topics.get(growth.topic)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{growth.topic}` does not exist"
                )
            added = _decide_growth(image, topic, growth)
            check_batch_size(len(records) + len(added))
            own_logs = sum([len(partition.replicas) for partition in added])
            check_room(own_logs, logs)
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        first = len(topic.partitions)
        logs += own_logs
        records.extend(each.to_record(topic.topic_id, first + i) for i, each in enumerate(added))
        outcomes.append(len(added))
    return ControllerResult(tuple(records), outcomes)


def adopt_topic(
    image: MetadataImage,
    *,
    name: str,
    topic_id: bytes,
    partitions: int,
    node_id: int,
    configs: Mapping[str, str] | None = None,
) -> ControllerResult[TopicImage]:
    """Register a topic whose data is on a node. Raises `KafkaError` for a taken or invalid name or id."""
    if topic_id in image.topics_by_id:
        other = image.topics_by_id[topic_id].name
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic `{other}` already has this id")
    _TakenNames(image).check(name)
    replicas = [new_partition(image, (node_id,)) for _ in range(partitions)]
    topic = TopicImage(name, topic_id, tuple(replicas))
    check_batch_size(1 + partitions)
    own = topic_config_records(name, configs or {}, defaults={})
    return ControllerResult(tuple(_topic_records(topic, own)), topic)


def _decide_topic(
    image: MetadataImage,
    wanted: NewTopic,
    defaults: TopicDefaults,
    random: Random,
    new_topic_id: Callable[[], bytes],
) -> tuple[TopicImage, list[MetadataRecord]]:
    config_records = topic_config_records(wanted.name, wanted.configs, defaults=defaults.configs)
    if wanted.assignments:
        assigned = assigned_replicas(image, wanted)
    else:
        assigned = place_new_topic(image, wanted, defaults=defaults, random=random)
    partitions = tuple(new_partition(image, replicas) for replicas in assigned)
    topic = TopicImage(wanted.name, wanted.topic_id or new_topic_id(), partitions)
    return topic, _topic_records(topic, config_records)


def _topic_records(topic: TopicImage, configs: Iterable[MetadataRecord]) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)]
    records.extend(configs)
    records.extend(each.to_record(topic.topic_id, index) for index, each in enumerate(topic.partitions))
    return records


class _TakenNames:
    """The names that a new topic cannot have."""

    def __init__(self, image: MetadataImage) -> None:
        self._names = set(image.topics)
        self._by_key: dict[str, str] | None = None

    def check(self, name: str) -> None:
        """Raise `KafkaError` unless a topic with this name may be created."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            # Its directory would be that of the metadata log.
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{name}` is reserved for the controller")
        if name in self._names:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic `{name}` already exists")
        if "." not in name and "_" not in name:
            return
        if self._by_key is None:
            self._by_key = {collision_key(each): each for each in self._names if "." in each or "_" in each}
        if (other := self._by_key.get(collision_key(name))) is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name `{name}` differs from `{other}` only in `.` and `_`",
            )

    def add(self, name: str) -> None:
        self._names.add(name)
        self._by_key = None


def _decide_growth(
    image: MetadataImage, topic: TopicImage, growth: NewPartitions
) -> list[PartitionRegistration]:
    current = len(topic.partitions)
    if growth.count <= current:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"topic `{topic.name}` already has {current} partitions, {growth.count} is not more",
        )
    additional = growth.count - current
    check_batch_size(additional)
    if growth.assignments is None:
        assigned = place_growth(image, topic, additional)
    else:
        if len(growth.assignments) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partitions to add, but {len(growth.assignments)} assignments",
            )
        for index, replicas in enumerate(growth.assignments, current):
            check_replicas(image, index, replicas, expected=topic.replication_factor)
        assigned = [tuple(replicas) for replicas in growth.assignments]
    return [new_partition(image, replicas) for replicas in assigned]
