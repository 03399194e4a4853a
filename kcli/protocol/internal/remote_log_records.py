"""Records of `__remote_log_metadata`: segments in tiered storage (KIP-405); they are only read here.

Framed like the records of the metadata log (`metadata_records`), one class per published schema. `text_of`
prints them as Kafka's own classes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from kcli.protocol.internal.metadata_records import decode_framed
from kcli.protocol.schema.declaration import (
    DecodeError,
    boolean,
    bytes_,
    i8,
    i32,
    i64,
    message_info,
    record,
    string,
    struct,
    tag,
    uuid,
)
from kcli.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.protocol.corruption import Buffer

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


@struct
class TopicIdPartitionEntry:
    name: string
    id: uuid
    partition: i32


@struct
class RemoteLogSegmentIdEntry:
    topic_id_partition: TopicIdPartitionEntry
    id: uuid


@struct
class SegmentLeaderEpochEntry:
    """The start offset of a leader epoch in a segment."""

    leader_epoch: i32
    offset: i64


@record(type=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord:
    """A segment is copied."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: i64
    end_offset: i64
    broker_id: i32
    max_timestamp_ms: i64
    event_timestamp_ms: i64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: i32
    custom_metadata: bytes_ | None = None
    remote_log_segment_state: i8
    txn_index_empty: Annotated[boolean, tag(0)] = False


@record(type=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord:
    """A segment's state changed."""

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: i32
    event_timestamp_ms: i64
    custom_metadata: bytes_ | None = None
    remote_log_segment_state: i8


@record(type=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord:
    topic_id_partition: TopicIdPartitionEntry
    broker_id: i32
    event_timestamp_ms: i64
    remote_partition_delete_state: i8


RemoteLogRecord = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
)

_CLASSES: dict[int, type[Any]] = {message_info(cls).key: cls for cls in RemoteLogRecord.__args__}


def decode_remote_log_record(data: Buffer) -> tuple[RemoteLogRecord, int]:
    """Return the record in a value, and its version; raise `DecodeError` if it is malformed or not known."""
    return decode_framed(data, _CLASSES)


def text_of(value: RemoteLogRecord) -> str:
    """Return a record in the words of Kafka's class for it. Raises `DecodeError` for an unknown state."""
    match value:
        case RemoteLogSegmentMetadataRecord():
            epochs = sorted((entry.leader_epoch, entry.offset) for entry in value.segment_leader_epochs)
            return (
                f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment(value.remote_log_segment_id)}, "
                f"startOffset={value.start_offset}, endOffset={value.end_offset}, "
                f"brokerId={value.broker_id}, "
                f"maxTimestampMs={value.max_timestamp_ms}, eventTimestampMs={value.event_timestamp_ms}, "
                f"segmentLeaderEpochs={{{', '.join(f'{epoch}={offset}' for epoch, offset in epochs)}}}, "
                f"segmentSizeInBytes={value.segment_size_in_bytes}, "
                f"customMetadata={_custom(value.custom_metadata)}, "
                f"state={_state(SEGMENT_STATES, value.remote_log_segment_state)}, "
                f"txnIdxEmpty={'true' if value.txn_index_empty else 'false'}}}"
            )
        case RemoteLogSegmentMetadataUpdateRecord():
            return (
                "RemoteLogSegmentMetadataUpdate{"
                f"remoteLogSegmentId={_segment(value.remote_log_segment_id)}, "
                f"customMetadata={_custom(value.custom_metadata)}, "
                f"state={_state(SEGMENT_STATES, value.remote_log_segment_state)}, "
                f"eventTimestampMs={value.event_timestamp_ms}, brokerId={value.broker_id}}}"
            )
        case RemotePartitionDeleteMetadataRecord():
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(value.topic_id_partition)}, "
                f"state={_state(PARTITION_STATES, value.remote_partition_delete_state)}, "
                f"eventTimestampMs={value.event_timestamp_ms}, brokerId={value.broker_id}}}"
            )


def _segment(entry: RemoteLogSegmentIdEntry) -> str:
    partition = _partition(entry.topic_id_partition)
    return f"RemoteLogSegmentId{{topicIdPartition={partition}, id={uuid_to_text(entry.id)}}}"


def _partition(entry: TopicIdPartitionEntry) -> str:
    return f"{uuid_to_text(entry.id)}:{entry.name}-{entry.partition}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise DecodeError(f"unknown state of a remote segment: {number}")
    return names[number]
