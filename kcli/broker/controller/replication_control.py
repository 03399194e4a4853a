"""Topics and their partitions: creation, growth, deletion, adoption.

Each function decides about a list of items and fails them one by one: the response has, in the order of the
request, what was decided or the `KafkaError` that item gets. All records of a call are one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kcli.broker.controller.configuration_control import topic_config_records
from kcli.broker.controller.result import ControllerResult, check_batch_size
from kcli.broker.controller.topic_names import check_topic_name, collision_key
from kcli.broker.controller.topic_placement import (
    BROKER_DEFAULT,
    assigned_replicas,
    check_replicas,
    new_partition,
    place_growth,
    place_new_topic,
)
from kcli.broker.coordinator.group_config import GroupConfig
from kcli.broker.metadata_image import TopicImage
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.metadata_records import RemoveTopicRecord, TopicRecord
from kcli.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from random import Random

    from kcli.broker.metadata_image import MetadataImage, PartitionRegistration
    from kcli.protocol.internal.metadata_records import MetadataRecord


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create: counts, or for each partition its index and replicas; and its configuration.

    `topic_id` is given only for a topic whose data is there already.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """A topic to grow to `count` partitions; `assignments` has the replicas of the new ones, if given."""

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What the node that received a request gives topics: its configuration decides, not the controller's.

    `configs` has the typed configuration of a topic without overrides, `groups` that of a group.
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
) -> ControllerResult[list[TopicImage | KafkaError]]:
    """Create topics; each response is the topic as it begins.

    Error codes are those of `ReplicationControlManager`: 17 name, 36 exists, 37 and 38 counts, 39 and 42
    assignments, 40 configuration, 44 more than one batch can hold.
    """
    taken = _TakenNames(image)
    records: list[MetadataRecord] = []
    outcomes: list[TopicImage | KafkaError] = []
    for wanted in topics:
        try:
            taken.check(wanted.name)
            topic, own = _decide_topic(image, wanted, defaults, random, new_topic_id)
            check_batch_size(len(records) + len(own))
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        taken.add(topic.name)
        records.extend(own)
        outcomes.append(topic)
    return ControllerResult(tuple(records), outcomes)


def delete_topics(
    image: MetadataImage, topic_ids: Iterable[bytes]
) -> ControllerResult[list[TopicImage | KafkaError]]:
    """Delete topics by id; each response is the topic as it was."""
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
    image: MetadataImage, wanted: Sequence[NewPartitions]
) -> ControllerResult[list[int | KafkaError]]:
    """Grow topics; each response is the number of partitions added."""
    records: list[MetadataRecord] = []
    outcomes: list[int | KafkaError] = []
    for growth in wanted:
        try:
            topic = _known_topic(image, growth.topic)
            added = _decide_growth(image, topic, growth)
            check_batch_size(len(records) + len(added))
        except KafkaError as error:
            outcomes.append(error.detached())
            continue
        first = len(topic.partitions)
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
    """Register a topic whose data lies in a node's directories, under the id that is written there.

    Raises `KafkaError` if the name or the id is taken, or the name is not valid.
    """
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
        """Raise `KafkaError` unless a topic may begin under this name."""
        check_topic_name(name)
        if name == METADATA_TOPIC:
            # Its directory would be that of the metadata log itself.
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{name}` is the controller's own")
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


def _known_topic(image: MetadataImage, name: str) -> TopicImage:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic `{name}` does not exist")
    return topic


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
    replication_factor = topic.replication_factor
    if growth.assignments is None:
        assigned = place_growth(image, topic, additional)
    else:
        if len(growth.assignments) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partitions to add, but {len(growth.assignments)} assignments",
            )
        for index, replicas in enumerate(growth.assignments, current):
            check_replicas(image, index, replicas, expected=replication_factor)
        assigned = [tuple(replicas) for replicas in growth.assignments]
    return [new_partition(image, replicas) for replicas in assigned]
