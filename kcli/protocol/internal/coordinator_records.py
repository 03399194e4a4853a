"""The records in which coordinators keep their state: `__consumer_offsets` and `__transaction_state`.

    key    i16 type     body in the classic form
    value  i16 version  body; no value (a tombstone) deletes what the key names

One class per published schema, named as published: `<Name>Key` and `<Name>Value` carry the same type. Fields,
defaults and versions are the schemas'. Each is written in the version that Apache Kafka 4.3 writes and
read in all. Bytes behind a body are ignored, as Kafka does. Types that a newer Kafka adds raise
`UnknownRecordType` and are to be passed over, here also those of share and streams groups (9 to 15, 17 on).

The oldest form of a committed offset, type 0 of `__consumer_offsets`: only read, and only in version 0.

Its key has the fields of `OffsetCommitKey`. Kafka has classes of its own for it, and reads no other version.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from kcli.protocol.schema.declaration import (
    DecodeError,
    bytes_,
    codec,
    fresh,
    i8,
    i16,
    i32,
    i64,
    ignorable,
    message_info,
    record,
    string,
    struct,
    tag,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from kcli.protocol.corruption import Buffer

_NUMBER = Struct(">h")


class UnknownRecordType(DecodeError):
    """A record of a type that is not known here: from a newer Kafka, or of another kind of group."""

    def __init__(self, type: int) -> None:
        super().__init__(f"a coordinator's record of unknown type: {type}")
        self.type = type


@record(type=1, versions="0")
class OffsetCommitKey:
    """The offset of a group in one partition. Type 0 has the same fields and was written long ago."""

    group: string
    topic: string
    partition: i32


@record(type=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    """Where a group goes on. An `expire_timestamp` of -1 leaves expiry to the broker's retention."""

    offset: i64
    leader_epoch: Annotated[i32, v("3+"), ignorable] = -1
    metadata: string
    commit_timestamp: i64
    expire_timestamp: Annotated[i64, v("1"), ignorable] = -1
    topic_id: Annotated[uuid, v("4+"), tag(0, "4+"), ignorable] = ZERO_UUID


@record(type=2, versions="0")
class GroupMetadataKey:
    """A classic group."""

    group: string


@struct
class MemberMetadata:
    """A member of a classic group, with its metadata for the group's protocol."""

    member_id: string
    group_instance_id: Annotated[string | None, v("3+"), ignorable] = None
    client_id: string
    client_host: string
    rebalance_timeout: Annotated[i32, v("1+"), ignorable] = -1
    session_timeout: i32
    subscription: bytes_
    assignment: bytes_


@record(type=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A generation of a classic group. Without members the group is empty."""

    protocol_type: string
    generation: i32
    protocol: string | None
    leader: string | None
    current_state_timestamp: Annotated[i64, v("2+"), ignorable] = -1
    members: list[MemberMetadata]


@record(type=3, versions="0")
class ConsumerGroupMetadataKey:
    """A group of the consumer protocol."""

    group_id: string


@record(type=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The group's epoch, and a hash of what is known of the topics it reads (KIP-1101)."""

    epoch: i32
    metadata_hash: Annotated[i64, tag(0)] = 0


@record(type=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    """The topics of a group, before Kafka 4.1; the hash in its metadata has come in its place."""

    group_id: string


@struct
class PartitionMetadata:
    """The racks of a partition's replicas."""

    partition: i32
    racks: list[string]


@struct
class TopicMetadata:
    """A topic as the group last saw it."""

    topic_id: uuid
    topic_name: string
    num_partitions: i32
    partition_metadata: list[PartitionMetadata]


@record(type=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics that a group reads."""

    topics: list[TopicMetadata]


@record(type=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    """A member of a group."""

    group_id: string
    member_id: string


@struct
class ClassicProtocol:
    """An assignor that a member of the classic protocol offers, and its metadata."""

    name: string
    metadata: bytes_


@struct
class ClassicMemberMetadata:
    """What a member has that still uses the classic protocol."""

    session_timeout_ms: i32 = 0
    supported_protocols: list[ClassicProtocol] = fresh(list)


@record(type=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """What a member said of itself. Without classic metadata it speaks the consumer protocol.

    That is always stated: where old bytes lack the field, it is there and empty.
    """

    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None
    rebalance_timeout_ms: i32 = -1
    server_assignor: string | None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)]


@record(type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    """The target assignment of a group."""

    group_id: string


@record(type=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target was computed, and when that was done (KIP-1263)."""

    assignment_epoch: i32
    assignment_timestamp: Annotated[i64, tag(0), ignorable] = 0


@record(type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    """The target assignment of one member."""

    group_id: string
    member_id: string


@struct
class TargetPartitions:
    """Partitions of a topic that a member is to get (published as `TopicPartition`)."""

    topic_id: uuid
    partitions: list[i32]


@record(type=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member is to get."""

    topic_partitions: list[TargetPartitions]


@record(type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    """The current assignment of one member."""

    group_id: string
    member_id: string


@struct
class CurrentPartitions:
    """Partitions of a topic that a member has (published as `TopicPartitions`).

    `assignment_epochs`, unless empty or None, says for each in which epoch the member got it.
    """

    topic_id: uuid
    partitions: list[i32]
    assignment_epochs: Annotated[list[i32] | None, tag(0)] = fresh(list)


@record(type=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member has, how far it came, and what it must still give up."""

    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: list[CurrentPartitions]
    partitions_pending_revocation: list[CurrentPartitions]


@record(type=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    """A regular expression that members of a group subscribe with."""

    group_id: string
    regular_expression: string


@record(type=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that an expression matched in a version of the metadata."""

    topics: list[string]
    version: i64
    timestamp: i64


@record(type=0, versions="0")
class TransactionLogKey:
    """A transactional id; the one kind of record in its topic."""

    transactional_id: string


@struct
class PartitionsSchema:
    """Partitions of a topic that take part in a transaction."""

    topic: string
    partition_ids: list[i32]


@record(type=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    """The producer of a transactional id, and its transaction."""

    producer_id: i64
    previous_producer_id: Annotated[i64, v("1+"), tag(0, "1+")] = -1
    next_producer_id: Annotated[i64, v("1+"), tag(1, "1+")] = -1
    producer_epoch: i16
    next_producer_epoch: Annotated[i16, v("1+"), tag(3, "1+")] = -1
    transaction_timeout_ms: i32
    transaction_status: i8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: i64
    transaction_start_timestamp_ms: i64
    client_transaction_version: Annotated[i16, v("1+"), tag(2, "1+")] = 0


# --- bytes -----------------------------------------------------------------------------------------

GROUP_RECORDS: dict[int, tuple[type[Any], type[Any]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
TRANSACTION_RECORDS: dict[int, tuple[type[Any], type[Any]]] = {0: (TransactionLogKey, TransactionLogValue)}


class DecodedRecord(NamedTuple):
    """A key and its value, None for a tombstone, and the version the value was in, then -1."""

    key: Any
    value: Any
    value_version: int


def written_version(value: object) -> int:
    """Return the version in which Apache Kafka 4.3 writes a value.

    An offset with an expiry of its own needs version 1, the only one with a field for it.
    """
    match value:
        case OffsetCommitValue() if value.expire_timestamp != -1:
            return 1
        case GroupMetadataValue():
            return 3
        case _:
            return message_info(type(value)).max_version


def encode_key(key: object) -> bytes:
    """Return the bytes of a `…Key`."""
    return _NUMBER.pack(message_info(type(key)).key) + codec(type(key), 0).encode(key)


def encode_value(value: object, version: int | None = None) -> bytes:
    """Return the bytes of a `…Value`, in a version of its own choice or the given one."""
    if version is None:
        version = written_version(value)
    return _NUMBER.pack(version) + codec(type(value), version).encode(value)


def decode_record(key: Buffer, value: Buffer | None) -> DecodedRecord:
    """Return what a record of `__consumer_offsets` says.

    Raises `UnknownRecordType`, or `DecodeError` for damage and for versions that are not known.
    """
    return _decode(GROUP_RECORDS, key, value)


def decode_transaction_record(key: Buffer, value: Buffer | None) -> DecodedRecord:
    """Return what a record of `__transaction_state` says; raise as `decode_record` does."""
    return _decode(TRANSACTION_RECORDS, key, value)


def _decode(
    classes: dict[int, tuple[type[Any], type[Any]]], key: Buffer, value: Buffer | None
) -> DecodedRecord:
    number = _read_number(key, "the key")
    found = classes.get(number)
    if found is None:
        raise UnknownRecordType(number)
    key_class, value_class = found
    decoded_key, _ = codec(key_class, 0).decode(key, _NUMBER.size)
    if value is None:
        return DecodedRecord(decoded_key, None, -1)
    version = _read_number(value, "the value")
    info = message_info(value_class)
    if not info.min_version <= version <= info.max_version:
        raise DecodeError(f"unknown version of a coordinator's record: {value_class.__name__} {version}")
    decoded_value, _ = codec(value_class, version).decode(value, _NUMBER.size)
    return DecodedRecord(decoded_key, decoded_value, version)


def _read_number(data: Buffer, what: str) -> int:
    if len(data) < _NUMBER.size:
        raise DecodeError(f"{what} of a coordinator's record is cut short")
    (number,) = _NUMBER.unpack_from(data)
    return int(number)


@record(type=0, versions="0")
class LegacyOffsetCommitValue:
    """Where a group goes on."""

    offset: i64
    metadata: string
    commit_timestamp: i64
