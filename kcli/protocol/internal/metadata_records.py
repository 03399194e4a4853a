"""The records of the metadata log, as Apache Kafka in KRaft mode writes them (KIP-631).

The value of a log record is a frame around the record's own fields:

    frame version  unsigned varint  1
    type           unsigned varint  the number in the class's declaration
    version        unsigned varint
    body           the fields, always in the flexible form

Field order, names, defaults and versions are the published schemas'. Records are written in the newest
version that the cluster's `metadata.version` has, and read in all. In a change record a field with its
default value means no change.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

from kcli.protocol.schema.declaration import (
    DecodeError,
    boolean,
    codec,
    f64,
    fresh,
    i8,
    i16,
    i32,
    i64,
    message_info,
    nullable,
    reason_of_failure,
    record,
    string,
    struct,
    tag,
    u16,
    uuid,
    v,
)
from kcli.protocol.schema.unsigned_varint import decode_unsigned_varint, encode_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.protocol.corruption import Buffer
    from kcli.protocol.internal.security_records import SecurityRecord

FRAME_VERSION = 1

METADATA_VERSION = "metadata.version"
"""The feature whose level says which versions of records the log may have."""
NEWEST_METADATA_VERSION = 30
"""Level 4.3-IV0."""

NO_LEADER = -1
"""The leader of a partition without a leader."""
LEADER_UNCHANGED = -2
"""In a change record: leader and leader epoch do not change."""


@struct
class BrokerEndpoint:
    """A listener of a broker or controller."""

    name: string
    host: string
    port: u16
    security_protocol: i16


@struct
class BrokerFeature:
    """The levels of a feature that a broker or controller supports."""

    name: string
    min_supported_version: i16
    max_supported_version: i16


@record(type=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord:
    """A broker registers. Its epoch is the offset of this record; it is fenced until a later record."""

    broker_id: i32
    is_migrating_zk_broker: Annotated[boolean, v("2+")] = False
    incarnation_id: uuid
    broker_epoch: i64
    end_points: list[BrokerEndpoint] = fresh(list)
    features: list[BrokerFeature] = fresh(list)
    rack: string | None = None
    fenced: boolean = True
    in_controlled_shutdown: Annotated[boolean, v("1+")] = False
    log_dirs: Annotated[list[uuid], v("3+"), tag(0, "3+")] = fresh(list)
    cordoned_log_dirs: Annotated[list[uuid] | None, v("4+"), tag(1, "4+")] = None


@record(type=1, versions="0", flexible="0+")
class UnregisterBrokerRecord:
    broker_id: i32
    broker_epoch: i64


@record(type=2, versions="0", flexible="0+")
class TopicRecord:
    """A topic is created. Its partitions follow in records of their own."""

    name: string
    topic_id: uuid


@record(type=3, versions="0-2", flexible="0+")
class PartitionRecord:
    """A partition is created, or replaced as a whole."""

    partition_id: i32 = -1
    topic_id: uuid
    replicas: list[i32] = fresh(list)
    isr: list[i32] = fresh(list)
    removing_replicas: list[i32] = fresh(list)
    adding_replicas: list[i32] = fresh(list)
    leader: i32 = NO_LEADER
    leader_recovery_state: Annotated[i8, tag(0)] = 0
    leader_epoch: i32 = -1
    partition_epoch: i32 = -1
    directories: Annotated[list[uuid], v("1+")] = fresh(list)
    eligible_leader_replicas: Annotated[list[i32] | None, v("2+"), tag(1, "2+")] = None
    last_known_elr: Annotated[list[i32] | None, v("2+"), tag(2, "2+")] = None


@record(type=4, versions="0", flexible="0+")
class ConfigRecord:
    """One configuration of a resource is set, or with a null value removed."""

    resource_type: i8
    resource_name: string
    name: string
    value: string | None


@record(type=5, versions="0-2", flexible="0+")
class PartitionChangeRecord:
    """A partition changes: each field that differs from its default replaces the former value.

    Every change increases the partition epoch by one; a change with a leader increases the leader epoch.
    """

    partition_id: i32 = -1
    topic_id: uuid
    isr: Annotated[list[i32] | None, tag(0)] = None
    leader: Annotated[i32, tag(1)] = LEADER_UNCHANGED
    replicas: Annotated[list[i32] | None, tag(2)] = None
    removing_replicas: Annotated[list[i32] | None, tag(3)] = None
    adding_replicas: Annotated[list[i32] | None, tag(4)] = None
    leader_recovery_state: Annotated[i8, tag(5)] = -1
    directories: Annotated[list[uuid] | None, v("1+"), tag(8, "1+")] = None
    eligible_leader_replicas: Annotated[list[i32] | None, v("2+"), tag(6, "2+")] = None
    last_known_elr: Annotated[list[i32] | None, v("2+"), tag(7, "2+")] = None


@record(type=7, versions="0", flexible="0+")
class FenceBrokerRecord:
    """A broker is fenced: it may not lead or be in sync."""

    id: i32
    epoch: i64


@record(type=8, versions="0", flexible="0+")
class UnfenceBrokerRecord:
    id: i32
    epoch: i64


@record(type=9, versions="0", flexible="0+")
class RemoveTopicRecord:
    """A topic is deleted, with its partitions and its configuration."""

    topic_id: uuid


@record(type=12, versions="0", flexible="0+")
class FeatureLevelRecord:
    """The level of a feature in the cluster; 0 is without it."""

    name: string
    feature_level: i16


@struct
class EntityData:
    """One part of a quota's entity. The name None is the default of the type."""

    entity_type: string
    entity_name: string | None


@record(type=14, versions="0", flexible="0+")
class ClientQuotaRecord:
    entity: list[EntityData]
    key: string
    value: f64
    remove: boolean


@record(type=15, versions="0", flexible="0+")
class ProducerIdsRecord:
    """A broker gets a block of producer ids; the next block begins at `next_producer_id`."""

    broker_id: i32
    broker_epoch: i64 = -1
    next_producer_id: i64


@record(type=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord:
    """A broker's registration changes: `fenced` is 1 to fence it, -1 to unfence it, 0 for no change."""

    broker_id: i32
    broker_epoch: i64
    fenced: Annotated[i8, tag(0)] = 0
    in_controlled_shutdown: Annotated[i8, v("1+"), tag(1, "1+")] = 0
    log_dirs: Annotated[list[uuid], v("2+"), tag(2, "2+")] = fresh(list)
    cordoned_log_dirs: Annotated[list[uuid] | None, v("3+"), nullable("3+"), tag(3, "3+")] = None


@record(type=20, versions="0", flexible="0+")
class NoOpRecord:
    """Changes nothing; shows that the leader of the log is alive."""


@record(type=23, versions="0", flexible="0+")
class BeginTransactionRecord:
    """The following records take effect at the end of the transaction, or not at all."""

    name: Annotated[string | None, tag(0)] = None


@record(type=24, versions="0", flexible="0+")
class EndTransactionRecord:
    """All records since the beginning take effect."""


@record(type=25, versions="0", flexible="0+")
class AbortTransactionRecord:
    """No record since the beginning takes effect."""

    reason: Annotated[string | None, tag(0)] = None


@record(type=27, versions="0", flexible="0+")
class RegisterControllerRecord:
    controller_id: i32
    incarnation_id: uuid
    zk_migration_ready: boolean
    end_points: list[BrokerEndpoint] = fresh(list)
    features: list[BrokerFeature] = fresh(list)


@record(type=28, versions="0", flexible="0+")
class ClearElrRecord:
    """Clears the eligible leader replicas of a topic, or with an empty name of all topics."""

    topic_name: string


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | NoOpRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

METADATA_RECORDS: dict[int, type[Any]] = {message_info(cls).key: cls for cls in MetadataRecord.__args__}


_ADDED: Mapping[type[Any], tuple[tuple[int, int, dict[str, Any]], ...]] = {
    RegisterBrokerRecord: (
        (30, 4, {"cordoned_log_dirs": None}),
        (17, 3, {"log_dirs": []}),
        (8, 2, {"is_migrating_zk_broker": False}),
    ),
    PartitionRecord: (
        (23, 2, {"eligible_leader_replicas": None, "last_known_elr": None}),
        (17, 1, {"directories": []}),
    ),
    PartitionChangeRecord: (
        (23, 2, {"eligible_leader_replicas": None, "last_known_elr": None}),
        (17, 1, {"directories": None}),
    ),
    BrokerRegistrationChangeRecord: ((30, 3, {"cordoned_log_dirs": None}), (17, 2, {"log_dirs": []})),
}
"""Versions by record: the level of `metadata.version` that has one, and its new fields without a value."""


def encode_metadata_record(
    value: MetadataRecord | SecurityRecord, metadata_version: int = NEWEST_METADATA_VERSION
) -> bytes:
    """Return the value of a log record, in the newest version that a level of `metadata.version` has.

    Fields that are newer are left out (class `MetadataVersion`).
    """
    info = message_info(type(value))
    version = info.max_version
    if metadata_version < NEWEST_METADATA_VERSION:
        for level, added_in, without in _ADDED.get(type(value), ()):
            if metadata_version < level:
                version = added_in - 1
                value = copy(value)
                for name, nothing in without.items():
                    setattr(value, name, nothing)
    frame = bytes(
        encode_unsigned_varint(FRAME_VERSION)
        + encode_unsigned_varint(info.key)
        + encode_unsigned_varint(version)
    )
    return frame + codec(type(value), version).encode(value)


def decode_metadata_record(data: Buffer) -> MetadataRecord | SecurityRecord:
    """Return the record in a log record's value; raise `DecodeError` if it is malformed or unknown."""
    classes = METADATA_RECORDS
    if len(data) > 1 and data[1] not in classes:  # The type, which is below 128.
        from kcli.protocol.internal.security_records import SECURITY_RECORDS  # Few logs have any.

        classes = SECURITY_RECORDS
    value, _ = decode_framed(data, classes)
    return value  # type: ignore[no-any-return]  # one of the classes


def decode_framed(data: Buffer, classes: Mapping[int, type[Any]]) -> tuple[Any, int]:
    """Return the framed record, one of `classes` by type, and its version; raise `DecodeError`."""
    try:
        frame_version, position = decode_unsigned_varint(data, 0)
        key, position = decode_unsigned_varint(data, position)
        version, position = decode_unsigned_varint(data, position)
    except (IndexError, ValueError) as error:
        raise DecodeError(f"malformed frame of a metadata record: {reason_of_failure(error)}") from error
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"unknown frame version of a metadata record: {frame_version}")
    cls = classes.get(key)
    if cls is None or not message_info(cls).min_version <= version <= message_info(cls).max_version:
        raise DecodeError(f"unknown metadata record: type {key}, version {version}")
    value, end = codec(cls, version).decode(data, position)
    if end != len(data):
        raise DecodeError(f"a {cls.__name__} has {len(data) - end} bytes too many")
    return value, version
