"""MetadataImage: what the cluster is at one offset of the metadata log; MetadataDelta: what a batch changed.

An image never changes: `apply` makes the next one from records that the log already holds, and shares
whatever they left alone. Applying is pure, so replaying the log gives the image the controller has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.registrations import (
    BrokerRegistration,
    Endpoint,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from kcli.errors import KcliError
from kcli.protocol.config_kinds import ConfigResourceType
from kcli.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kcli.protocol.metadata_records import MetadataRecord

__all__ = [
    "EMPTY_IMAGE",
    "BrokerRegistration",
    "ConfigResource",
    "Endpoint",
    "InvalidMetadata",
    "LeaderRecoveryState",
    "MetadataBatch",
    "MetadataDelta",
    "MetadataImage",
    "PartitionRegistration",
    "TopicImage",
    "apply",
    "delta_between",
    "replay",
]

ConfigResource = tuple[int, str]
"""Type and name of what a configuration belongs to; the name of all brokers' default is empty."""


class MetadataBatch(NamedTuple):
    """One batch of the metadata log: the records of one decision, none for a control record."""

    last_offset: int
    epoch: int
    records: Sequence[MetadataRecord]


class InvalidMetadata(KcliError):
    """A record that cannot follow those before it: the metadata log is damaged."""


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return _NOTHING


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at `offset`, the last one applied (-1 for none), of the term `epoch`.

    `topics` is by name, `topics_by_id` by the 16 bytes of the id, `configs` by resource; `features` holds
    the finalized levels above 0; the next block of producer ids begins at `next_producer_id`.
    """

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=_nothing)
    topics: Mapping[str, TopicImage] = field(default_factory=_nothing)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=_nothing)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=_nothing)
    features: Mapping[str, int] = field(default_factory=_nothing)
    next_producer_id: int = 0
    offset: int = -1
    epoch: int = 0

    def config(self, type: int, name: str) -> Mapping[str, str]:
        """Return a resource's own configuration, empty if it has none."""
        return self.configs.get((type, name), _NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return a topic's overrides, empty if it has none."""
        return self.config(ConfigResourceType.TOPIC, name)

    def broker_is_active(self, node_id: int) -> bool:
        """True if the broker is registered, not fenced and not shutting down."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.is_active

    def brokers_with_listener(
        self, listener_name: str, node_ids: Iterable[int] | None = None
    ) -> list[tuple[BrokerRegistration, Endpoint]]:
        """Return the brokers that have a listener, fenced ones too, and where it is, by ascending id.

        `node_ids` asks for these only; an id that nobody has is left out.
        """
        wanted = self.brokers.keys() if node_ids is None else self.brokers.keys() & set(node_ids)
        brokers = [self.brokers[node_id] for node_id in sorted(wanted)]
        return [
            (broker, endpoint)
            for broker in brokers
            if (endpoint := broker.endpoint(listener_name)) is not None
        ]

    def reachable_brokers(self, listener_name: str) -> dict[int, tuple[BrokerRegistration, Endpoint]]:
        """Return the brokers that clients of a listener can use, by ascending id.

        The first of them is the one that clients are told is the controller: every broker takes what is
        for the controller.
        """
        return {
            broker.node_id: (broker, endpoint)
            for broker, endpoint in self.brokers_with_listener(listener_name)
            if not broker.fenced
        }


EMPTY_IMAGE = MetadataImage()


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What lies between two images. A name deleted and created again is in both lists, with two ids.

    `deleted_topics` are as they were, the others as they are; `changed_partitions` has the partitions of
    created and changed topics that differ, by topic id.
    """

    created_topics: tuple[TopicImage, ...] = ()
    changed_topics: tuple[TopicImage, ...] = ()
    deleted_topics: tuple[TopicImage, ...] = ()
    changed_partitions: Mapping[bytes, frozenset[int]] = field(default_factory=_nothing)
    changed_configs: frozenset[ConfigResource] = frozenset()
    changed_brokers: frozenset[int] = frozenset()
    changed_features: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if nothing changed that anyone could see."""
        return self == MetadataDelta()

    @classmethod
    def from_nothing(cls, image: MetadataImage) -> MetadataDelta:
        """Return the delta from an empty image: what a node that starts has to catch up with."""
        return delta_between(EMPTY_IMAGE, image)


def apply(
    image: MetadataImage,
    records: Iterable[MetadataRecord],
    *,
    last_offset: int | None = None,
    epoch: int | None = None,
) -> tuple[MetadataImage, MetadataDelta]:
    """Return the image after one batch of records, and what they changed.

    `last_offset` is the offset of the batch's last record (default: they follow the image's own offset
    without a gap), `epoch` the batch's term. Raises `InvalidMetadata` for a record that does not fit.
    """
    draft = _Draft(image)
    count = 0
    for record in records:
        draft.apply(record)
        count += 1
    return draft.finish(
        offset=image.offset + count if last_offset is None else last_offset,
        epoch=image.epoch if epoch is None else epoch,
    )


def replay(batches: Iterable[MetadataBatch]) -> MetadataImage:
    """Return the image that a whole log makes, transactions (KIP-868) included.

    What an unfinished transaction holds has no effect. Raises `InvalidMetadata` for a log that cannot be.
    """
    draft = _Draft(EMPTY_IMAGE)
    offset, epoch = -1, 0
    transaction: list[MetadataRecord] | None = None
    for batch in batches:
        for record in batch.records:
            match record:
                case BeginTransactionRecord():
                    transaction = []
                case AbortTransactionRecord():
                    transaction = None
                case EndTransactionRecord():
                    for held in transaction or ():
                        draft.apply(held)
                    transaction = None
                case _ if transaction is not None:
                    transaction.append(record)
                case _:
                    draft.apply(record)
        offset, epoch = batch.last_offset, batch.epoch
    return draft.finish(offset=offset, epoch=epoch)[0]


def delta_between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return what changed between two images, however far apart."""
    ids = before.topics_by_id
    changed = [t for i, t in after.topics_by_id.items() if i in ids and ids[i] is not t and ids[i] != t]
    created = [topic for topic_id, topic in after.topics_by_id.items() if topic_id not in ids]
    partitions = {topic.topic_id: frozenset(range(len(topic.partitions))) for topic in created}
    partitions.update({t.topic_id: frozenset(_changed_partitions(ids[t.topic_id], t)) for t in changed})
    return MetadataDelta(
        created_topics=tuple(created),
        changed_topics=tuple(changed),
        deleted_topics=tuple(topic for i, topic in ids.items() if i not in after.topics_by_id),
        changed_partitions=MappingProxyType(partitions),
        changed_configs=frozenset(_changed_keys(before.configs, after.configs)),
        changed_brokers=frozenset(_changed_keys(before.brokers, after.brokers)),
        changed_features=frozenset(_changed_keys(before.features, after.features)),
    )


def _changed_partitions(before: TopicImage, after: TopicImage) -> Iterator[int]:
    old = before.partitions
    for index, partition in enumerate(after.partitions):
        if index >= len(old) or old[index] != partition:
            yield index


def _changed_keys(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[Any]:
    if before is after:
        return
    for key in {**before, **after}:
        if before.get(key) != after.get(key):
            yield key


class _Draft:
    """An image being changed: each part is copied when the first record touches it."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = dict(image.brokers)
        self._topics: dict[bytes, tuple[str, dict[int, PartitionRegistration]]] = {}
        self._removed: set[bytes] = set()
        self._configs = dict(image.configs)
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id

    def apply(self, record: MetadataRecord) -> None:  # one case per record type
        match record:
            case TopicRecord():
                self._topics[record.topic_id] = (record.name, {})
            case PartitionRecord():
                partitions = self._partitions(record.topic_id)
                partitions[record.partition_id] = PartitionRegistration.from_record(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._brokers[record.broker_id] = _registration(record)
            case UnregisterBrokerRecord():
                self._brokers.pop(record.broker_id, None)
            case BrokerRegistrationChangeRecord():
                self._change_broker(record)
            case FenceBrokerRecord():
                self._brokers[record.id] = replace(self._broker(record.id), fenced=True)
            case UnfenceBrokerRecord():
                self._brokers[record.id] = replace(self._broker(record.id), fenced=False)
            case FeatureLevelRecord():
                self._features[record.name] = record.feature_level
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case NoOpRecord() | RegisterControllerRecord():
                pass
            case _:
                raise InvalidMetadata(f"a {type(record).__name__} cannot stand alone")

    def finish(self, *, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        image = self._image
        topics, topics_by_id = self._finish_topics()
        features = {name: level for name, level in self._features.items() if level != 0}
        after = MetadataImage(
            brokers=_share(image.brokers, self._brokers),
            topics=topics,
            topics_by_id=topics_by_id,
            configs=_share(image.configs, self._configs),
            features=_share(image.features, features),
            next_producer_id=self._next_producer_id,
            offset=offset,
            epoch=epoch,
        )
        return after, self._delta(after)

    def _delta(self, after: MetadataImage) -> MetadataDelta:
        """Compare only the topics that a record touched: a cluster may have many others."""
        touched = [*self._topics, *self._removed]
        ids = self._image.topics_by_id
        before = replace(self._image, topics_by_id={i: ids[i] for i in touched if i in ids})
        ids = after.topics_by_id
        return delta_between(before, replace(after, topics_by_id={i: ids[i] for i in touched if i in ids}))

    def _finish_topics(self) -> tuple[Mapping[str, TopicImage], Mapping[bytes, TopicImage]]:
        image = self._image
        if not self._topics and not self._removed:
            return image.topics, image.topics_by_id
        by_name, by_id = dict(image.topics), dict(image.topics_by_id)
        for topic_id in self._removed:
            if (gone := by_id.pop(topic_id, None)) is not None:
                del by_name[gone.name]
        for topic_id, (name, partitions) in self._topics.items():
            if not partitions or max(partitions) != len(partitions) - 1:
                raise InvalidMetadata(
                    f"the partitions of topic `{name}` are not numbered from 0 without a gap"
                )
            ordered = tuple(partitions[index] for index in range(len(partitions)))
            by_id[topic_id] = by_name[name] = TopicImage(name, topic_id, ordered)
        return MappingProxyType(by_name), MappingProxyType(by_id)

    def _partitions(self, topic_id: bytes) -> dict[int, PartitionRegistration]:
        """Return the changeable partitions of a topic."""
        if topic_id not in self._topics:
            topic = None if topic_id in self._removed else self._image.topics_by_id.get(topic_id)
            if topic is None:
                raise InvalidMetadata("a record is about a topic id that no topic has")
            self._topics[topic_id] = (topic.name, dict(enumerate(topic.partitions)))
        return self._topics[topic_id][1]

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions(record.topic_id)
        if record.partition_id not in partitions:
            raise InvalidMetadata(f"a record is about partition {record.partition_id}, which its topic lacks")
        partitions[record.partition_id] = partitions[record.partition_id].merge(record)

    def _clear_elr(self, topic_name: str) -> None:
        names = {topic_id: topic.name for topic_id, topic in self._image.topics_by_id.items()}
        names |= {topic_id: name for topic_id, (name, _) in self._topics.items()}
        for topic_id in names.keys() - self._removed:
            if topic_name in {"", names[topic_id]}:
                partitions = self._partitions(topic_id)
                for index, partition in partitions.items():
                    partitions[index] = replace(partition, elr=(), last_known_elr=())

    def _remove_topic(self, topic_id: bytes) -> None:
        self._partitions(topic_id)
        name, _ = self._topics.pop(topic_id)
        self._configs.pop((ConfigResourceType.TOPIC, name), None)
        self._removed.add(topic_id)

    def _set_config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        config = dict(self._configs.pop(key, _NOTHING))
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        if config:
            self._configs[key] = MappingProxyType(config)

    def _broker(self, node_id: int) -> BrokerRegistration:
        if node_id not in self._brokers:
            raise InvalidMetadata(f"a record is about broker {node_id}, which is not registered")
        return self._brokers[node_id]

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id)
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        self._brokers[record.broker_id] = replace(broker, **changes)


def _share(before: Mapping[Any, Any], after: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return the former mapping if nothing in it changed, so that later comparisons are by identity."""
    return before if before == after else MappingProxyType(after)


def _registration(record: RegisterBrokerRecord) -> BrokerRegistration:
    return BrokerRegistration(
        node_id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation=record.incarnation_id,
        endpoints=tuple(
            Endpoint(each.name, each.host, each.port, each.security_protocol) for each in record.end_points
        ),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=tuple(record.log_dirs),
        features=tuple(
            (each.name, each.min_supported_version, each.max_supported_version) for each in record.features
        ),
    )
