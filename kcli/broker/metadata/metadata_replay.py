"""Applies the records of the metadata log: an image and a batch make the next image and a delta.

An image never changes; the next one shares all parts that the records did not touch. `apply` is pure, so a
replay of the log makes the same image that the controller has.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.metadata.metadata_image import (
    EMPTY_IMAGE,
    NOTHING,
    MetadataDelta,
    MetadataImage,
    delta_between,
    quota_entity,
)
from kcli.broker.metadata.registrations import BrokerRegistration, Endpoint, PartitionRegistration, TopicImage
from kcli.errors import KcliError
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.internal.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
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
    from collections.abc import Iterable, Mapping, Sequence

    from kcli.protocol.internal.metadata_records import MetadataRecord
    from kcli.protocol.internal.security_records import SecurityRecord
    from kcli.protocol.records.control_records import ControlRecordType


class MetadataBatch(NamedTuple):
    """One batch of the metadata log: the records of one decision, none for a control record.

    `quorum` has the control records about the voters of the quorum, by type.
    """

    last_offset: int
    epoch: int
    records: Sequence[MetadataRecord | SecurityRecord]
    quorum: Mapping[ControlRecordType, bytes] = NOTHING


class InvalidMetadata(KcliError):
    """A record does not fit the records before it: the metadata log is damaged."""


def apply(
    image: MetadataImage,
    records: Iterable[MetadataRecord | SecurityRecord],
    *,
    last_offset: int | None = None,
    epoch: int | None = None,
) -> tuple[MetadataImage, MetadataDelta]:
    """Return the image after one batch of records, and the changes.

    `last_offset` is the offset of the batch's last record, by default without a gap after the image's offset;
    `epoch` is the batch's epoch. Raises `InvalidMetadata` for a record that does not fit.
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
    """Return the image of a log without unfinished transactions (KIP-868). Raises `InvalidMetadata`."""
    draft = _Draft(EMPTY_IMAGE)
    offset, epoch = -1, 0
    transaction: list[MetadataRecord | SecurityRecord] | None = None
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
        if batch.quorum:
            draft.quorum = MappingProxyType({**draft.quorum, **batch.quorum})
        offset, epoch = batch.last_offset, batch.epoch
    return draft.finish(offset=offset, epoch=epoch)[0]


class _Draft:
    """An image being changed: each part is copied when a record first touches it."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = dict(image.brokers)
        self._topics: dict[bytes, tuple[str, dict[int, PartitionRegistration]]] = {}
        self._removed: set[bytes] = set()
        self._configs = dict(image.configs)
        self._quotas = dict(image.client_quotas)
        self.quorum = image.quorum
        self._security: dict[tuple[object, ...], SecurityRecord] | None = None
        self._features = {**dict.fromkeys(image.disabled_features, 0), **image.features}
        self._next_producer_id = image.next_producer_id

    def apply(self, record: MetadataRecord | SecurityRecord) -> None:  # one case per record type
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
            case ClientQuotaRecord():
                self._set_quota(record)
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
            case BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord():
                raise InvalidMetadata(f"a {type(record).__name__} cannot stand alone")
            case _:
                self._keep(record)

    def finish(self, *, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        image = self._image
        topics, topics_by_id = self._finish_topics()
        features = {name: level for name, level in self._features.items() if level != 0}
        after = MetadataImage(
            brokers=_share(image.brokers, self._brokers),
            topics=topics,
            topics_by_id=topics_by_id,
            configs=_share(image.configs, self._configs),
            client_quotas=_share(image.client_quotas, self._quotas),
            features=_share(image.features, features),
            disabled_features=frozenset(self._features.keys() - features.keys()),
            quorum=self.quorum,
            security=image.security if self._security is None else MappingProxyType(self._security),
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
                forgotten = PartitionChangeRecord(
                    topic_id=topic_id, eligible_leader_replicas=[], last_known_elr=[]
                )
                for index, partition in partitions.items():
                    if partition.elr or partition.last_known_elr:
                        partitions[index] = partition.merge(forgotten)

    def _remove_topic(self, topic_id: bytes) -> None:
        self._partitions(topic_id)
        name, _ = self._topics.pop(topic_id)
        self._configs.pop((ConfigResourceType.TOPIC, name), None)
        self._removed.add(topic_id)

    def _set_config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        config = dict(self._configs.pop(key, NOTHING))
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        if config:
            self._configs[key] = MappingProxyType(config)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity({each.entity_type: each.entity_name for each in record.entity})
        values = dict(self._quotas.pop(entity, NOTHING))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._quotas[entity] = MappingProxyType(values)

    def _keep(self, record: SecurityRecord) -> None:
        from kcli.protocol.internal.security_records import identity, removed_class  # Few logs have any.

        if self._security is None:
            self._security = dict(self._image.security)
        removed = removed_class(record)
        if removed is None:
            self._security[(type(record), *identity(record))] = record
        else:
            self._security.pop((removed, *identity(record)), None)

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
    """Return the former mapping if nothing in it changed, so later comparisons are by identity."""
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
