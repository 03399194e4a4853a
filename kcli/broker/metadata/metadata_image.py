"""MetadataImage: the cluster at one offset of the metadata log. MetadataDelta: the changes between two.

An image never changes: `metadata_replay` makes the next one from records that are in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kcli.broker.metadata.registrations import (
    UNASSIGNED_DIRECTORY,
    BrokerRegistration,
    Endpoint,
    LeaderRecoveryState,
    PartitionRegistration,
    TopicImage,
)
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.internal.metadata_records import METADATA_VERSION, NEWEST_METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kcli.protocol.internal.security_records import SecurityRecord
    from kcli.protocol.records.control_records import ControlRecordType

__all__ = [
    "EMPTY_IMAGE",
    "BrokerRegistration",
    "ConfigResource",
    "Endpoint",
    "LeaderRecoveryState",
    "MetadataDelta",
    "MetadataImage",
    "PartitionRegistration",
    "QuotaEntity",
    "TopicImage",
    "delta_between",
    "quota_entity",
]

ConfigResource = tuple[int, str]
"""Type and name of a configured resource; the name is empty for the default of all brokers."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names of the entity of a quota, sorted by type; the name of a type's default is None."""

USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of entities that a quota can be for."""
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
BYTE_RATES = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
"""The quotas that brokers enforce, in bytes a second."""

NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""An empty mapping that stays empty."""


def _nothing() -> Mapping[Any, Any]:
    return NOTHING


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at `offset`, the last applied one (-1 for none), in the controller epoch `epoch`.

    `topics` is by name, `topics_by_id` by 16-byte id, `configs` by resource, `client_quotas` by entity.
    `features` has the finalized levels above 0, `disabled_features` the names set to 0. The next block of
    producer ids begins at `next_producer_id`. `quorum` has Kafka's control records about the voters of the
    quorum, by type. `security` has the records of credentials, access control lists
    and the like, by class and identity: nothing here acts on them, but Apache Kafka shall find them again.
    """

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=_nothing)
    topics: Mapping[str, TopicImage] = field(default_factory=_nothing)
    topics_by_id: Mapping[bytes, TopicImage] = field(default_factory=_nothing)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=_nothing)
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=_nothing)
    features: Mapping[str, int] = field(default_factory=_nothing)
    disabled_features: frozenset[str] = frozenset()
    quorum: Mapping[ControlRecordType, bytes] = field(default_factory=_nothing)
    security: Mapping[tuple[object, ...], SecurityRecord] = field(default_factory=_nothing)
    next_producer_id: int = 0
    offset: int = -1
    epoch: int = 0

    @property
    def metadata_version(self) -> int:
        """The level of `metadata.version`, the newest in a new cluster."""
        return self.features.get(METADATA_VERSION, NEWEST_METADATA_VERSION)

    def config(self, type: int, name: str) -> Mapping[str, str]:
        """Return the configuration of a resource, empty if it has none."""
        return self.configs.get((type, name), NOTHING)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the overrides of a topic, empty if it has none."""
        return self.config(ConfigResourceType.TOPIC, name)

    def broker_is_active(self, node_id: int) -> bool:
        """Return whether a broker is registered, not fenced and not shutting down."""
        broker = self.brokers.get(node_id)
        return broker is not None and broker.is_active

    def brokers_with_listener(
        self, listener_name: str, node_ids: Iterable[int] | None = None
    ) -> list[tuple[BrokerRegistration, Endpoint]]:
        """Return the brokers with this listener, fenced too, by ascending id; `node_ids` selects some."""
        wanted = self.brokers.keys() if node_ids is None else self.brokers.keys() & set(node_ids)
        brokers = [self.brokers[node_id] for node_id in sorted(wanted)]
        return [
            (broker, endpoint)
            for broker in brokers
            if (endpoint := broker.endpoint(listener_name)) is not None
        ]

    def reachable_brokers(self, listener_name: str) -> dict[int, tuple[BrokerRegistration, Endpoint]]:
        """Return the unfenced brokers with this listener, by id."""
        return {
            broker.node_id: (broker, endpoint)
            for broker, endpoint in self.brokers_with_listener(listener_name)
            if not broker.fenced
        }

    def directory_for(self, node_id: int) -> bytes:
        """Return the log directory of a new replica, which is certain only on a node with a single one."""
        broker = self.brokers.get(node_id)
        if broker is not None and len(broker.directories) == 1:
            return broker.directories[0]
        return UNASSIGNED_DIRECTORY

    def offline_replicas(self, partition: PartitionRegistration, reachable: Collection[int]) -> list[int]:
        """Return the replicas on brokers that are not `reachable`, and those in offline log directories."""
        return [
            replica
            for replica in partition.replicas
            if replica not in reachable
            or not self.brokers[replica].has_online(partition.directory_of(replica))
        ]


EMPTY_IMAGE = MetadataImage()


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The changes between two images. A name that was deleted and created again is in two lists.

    `deleted_topics` are the former images, the other lists have the new ones. `changed_partitions` has the
    changed partitions of created and changed topics, by topic id. `changed_security` has the keys of
    `MetadataImage.security`: the class of a record and what identifies it.
    """

    created_topics: tuple[TopicImage, ...] = ()
    changed_topics: tuple[TopicImage, ...] = ()
    deleted_topics: tuple[TopicImage, ...] = ()
    changed_partitions: Mapping[bytes, frozenset[int]] = field(default_factory=_nothing)
    changed_configs: frozenset[ConfigResource] = frozenset()
    changed_quotas: frozenset[QuotaEntity] = frozenset()
    changed_brokers: frozenset[int] = frozenset()
    changed_features: frozenset[str] = frozenset()
    changed_security: frozenset[tuple[object, ...]] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == MetadataDelta()

    @classmethod
    def from_nothing(cls, image: MetadataImage) -> MetadataDelta:
        """Return the delta from an empty image, for a node that starts."""
        return delta_between(EMPTY_IMAGE, image)


def quota_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(parts.items()))


def delta_between(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return the changes between any two images."""
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
        changed_quotas=frozenset(_changed_keys(before.client_quotas, after.client_quotas)),
        changed_brokers=frozenset(_changed_keys(before.brokers, after.brokers)),
        changed_features=frozenset(_changed_keys(before.features, after.features)),
        changed_security=frozenset(_changed_keys(before.security, after.security)),
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
