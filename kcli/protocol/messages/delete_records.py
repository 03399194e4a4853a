"""DeleteRecords (key 21): move the log start offset of partitions forward (KIP-107)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, i64, message, string, struct


@struct
class DeleteRecordsPartition:
    partition_index: i32
    offset: i64


@struct
class DeleteRecordsTopic:
    name: string
    partitions: list[DeleteRecordsPartition]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic]
    timeout_ms: i32


@struct
class DeleteRecordsPartitionResult:
    partition_index: i32
    low_watermark: i64
    error_code: i16 = 0


@struct
class DeleteRecordsTopicResult:
    name: string
    partitions: list[DeleteRecordsPartitionResult]


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult]
