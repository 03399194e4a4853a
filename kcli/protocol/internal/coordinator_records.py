"""Records of `__consumer_offsets` and `__transaction_state`, in which coordinators keep their state.

    key    i16 type     body in the classic form
    value  i16 version  body; no value (a tombstone) deletes the state of the key

One class per published schema, with its name: `<Name>Key` and `<Name>Value` have the same type. Fields,
defaults and versions are the schemas'. Values are written in the version that Apache Kafka 4.3 writes, and
read in all. Bytes behind a body are ignored, as Kafka does. Unknown types raise `UnknownRecordType`, also
those of share and streams groups (9 to 15, 17 on); readers skip them.
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
    """A record of an unknown type: of a newer Kafka, or of a share or streams group."""

    def __init__(self, type: int) -> None:
        super().__init__(f"a coordinator's record of unknown type: {type}")
        self.type = type


@record(type=1, versions="0")
class OffsetCommitKey:
    """The committed offset of a group in one partition. Type 0, the oldest form, has the same fields."""

    group: string
    topic: string
    partition: i32


@record(type=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    """A committed offset. An `expire_timestamp` of -1 leaves expiry to the broker's retention."""

    offset: i64
    leader_epoch: Annotated[i32, v("3+"), ignorable] = -1
    metadata: string
    commit_timestamp: i64
    expire_timestamp: Annotated[i64, v("1"), ignorable] = -1
    topic_id: Annotated[uuid, v("4+"), tag(0, "4+"), ignorable] = ZERO_UUID


@record(type=2, versions="0")
class GroupMetadataKey:
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
    """A generation of a classic group."""

    protocol_type: string
    generation: i32
    protocol: string | None
    leader: string | None
    current_state_timestamp: Annotated[i64, v("2+"), ignorable] = -1
    members: list[MemberMetadata]


@record(type=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: string


@record(type=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    """The group's epoch, and a hash of the metadata of its topics (KIP-1101)."""

    epoch: i32
    metadata_hash: Annotated[i64, tag(0)] = 0


@record(type=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    """The topics of a group before Kafka 4.1, which replaced them with the metadata hash."""

    group_id: string


@struct
class PartitionMetadata:
    """The racks of a partition's replicas."""

    partition: i32
    racks: list[string]


@struct
class TopicMetadata:
    """A topic when the group last computed its assignment."""

    topic_id: uuid
    topic_name: string
    num_partitions: i32
    partition_metadata: list[PartitionMetadata]


@record(type=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    """The topics that a group subscribes to."""

    topics: list[TopicMetadata]


@record(type=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: string
    member_id: string


@struct
class ClassicProtocol:
    """An assignor that a member of the classic protocol offers, and its metadata."""

    name: string
    metadata: bytes_


@struct
class ClassicMemberMetadata:
    """The classic protocol's data of a member that still speaks it."""

    session_timeout_ms: i32 = 0
    supported_protocols: list[ClassicProtocol] = fresh(list)


@record(type=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    """The subscription of a member, which speaks the consumer protocol unless it has classic metadata.

    The classic metadata is always written; if old bytes lack the field, it is present and empty.
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
    group_id: string


@record(type=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target was computed, and when that was done (KIP-1263)."""

    assignment_epoch: i32
    assignment_timestamp: Annotated[i64, tag(0), ignorable] = 0


@record(type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: string
    member_id: string


@struct
class TargetPartitions:
    """Partitions of a topic in a target assignment (published as `TopicPartition`)."""

    topic_id: uuid
    partitions: list[i32]


@record(type=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TargetPartitions]


@record(type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: string
    member_id: string


@struct
class CurrentPartitions:
    """Partitions of a topic that a member owns (published as `TopicPartitions`).

    `assignment_epochs`, unless empty or None, has the epoch in which the member got each partition.
    """

    topic_id: uuid
    partitions: list[i32]
    assignment_epochs: Annotated[list[i32] | None, tag(0)] = fresh(list)


@record(type=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    """The partitions and epoch of a member, its state, and the partitions it must still revoke."""

    member_epoch: i32
    previous_member_epoch: i32
    state: i8
    assigned_partitions: list[CurrentPartitions]
    partitions_pending_revocation: list[CurrentPartitions]


@record(type=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    """A regular expression in the subscriptions of a group."""

    group_id: string
    regular_expression: string


@record(type=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    """The topics that an expression matched, and the version of the metadata image."""

    topics: list[string]
    version: i64
    timestamp: i64


@record(type=0, versions="0")
class TransactionLogKey:
    transactional_id: string


@struct
class PartitionsSchema:
    """Partitions of a topic in a transaction."""

    topic: string
    partition_ids: list[i32]


@record(type=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    """The producer and the transaction of a transactional id."""

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
    """A key, its value and the value's version; None and -1 for a tombstone."""

    key: Any
    value: Any
    value_version: int


def written_version(value: object) -> int:
    """Return the version in which Apache Kafka 4.3 writes a value.

    Only version 1 has a field for the expiry of an offset.
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
    """Return the bytes of a `…Value` in the given version, by default in `written_version`."""
    if version is None:
        version = written_version(value)
    return _NUMBER.pack(version) + codec(type(value), version).encode(value)


def decode_record(key: Buffer, value: Buffer | None) -> DecodedRecord:
    """Return a decoded record of `__consumer_offsets`.

    Raises `UnknownRecordType`, or `DecodeError` for malformed bytes and unknown versions.
    """
    return _decode(GROUP_RECORDS, key, value)


def decode_transaction_record(key: Buffer, value: Buffer | None) -> DecodedRecord:
    """Return a decoded record of `__transaction_state`; raise as `decode_record` does."""
    return _decode(TRANSACTION_RECORDS, key, value)


def _decode(
    classes: dict[int, tuple[type[Any], type[Any]]], key: Buffer, value: Buffer | None
) -> DecodedRecord:
    number = read_version(key, "key")
    found = classes.get(number)
    if found is None:
        raise UnknownRecordType(number)
    key_class, value_class = found
    decoded_key = read_message(key_class, 0, key, number, "key")
    if value is None:
        return DecodedRecord(decoded_key, None, -1)
    version = read_version(value, "value")
    info = message_info(value_class)
    if not info.min_version <= version <= info.max_version:
        raise DecodeError(f"unknown version of a coordinator's record: {value_class.__name__} {version}")
    decoded_value = read_message(value_class, version, value, version, "value")
    return DecodedRecord(decoded_key, decoded_value, version)


def read_version(data: Buffer, name: str) -> int:
    """Return the number at the start of a key or value. Raises `DecodeError` with Kafka's text."""
    if len(data) < _NUMBER.size:
        raise DecodeError(f"Could not read version from {name}'s buffer.")
    (number,) = _NUMBER.unpack_from(data)
    return int(number)


def read_message(cls: type[Any], version: int, data: Buffer, shown_version: int, name: str) -> Any:  # noqa: ANN401  # any of the classes
    """Return the message behind the number at the start of data. Raises `DecodeError` with Kafka's text."""
    try:
        return codec(cls, version).decode(data, _NUMBER.size)[0]
    except DecodeError as error:
        what = f"Could not read record with version {shown_version} from {name}'s buffer"
        raise DecodeError(f"{what} due to: {error.reason}.") from error


@record(type=0, versions="0")
class LegacyOffsetCommitValue:
    """A committed offset of type 0, which is only read.

    Its key has the fields of `OffsetCommitKey`. Kafka has separate classes for it, and reads version 0 only.
    """

    offset: i64
    metadata: string
    commit_timestamp: i64
