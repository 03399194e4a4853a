"""DescribeProducers (key 61): list the producers of partitions, to find hanging transactions (KIP-664)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, i64, message, string, struct


@struct
class TopicRequest:
    name: string
    partition_indexes: list[i32]


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    topics: list[TopicRequest]


@struct
class ProducerState:
    producer_id: i64
    producer_epoch: i32
    last_sequence: i32 = -1
    last_timestamp: i64 = -1
    coordinator_epoch: i32
    current_txn_start_offset: i64 = -1


@struct
class PartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState]


@struct
class TopicResponse:
    name: string
    partitions: list[PartitionResponse]


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    throttle_time_ms: i32 = 0
    topics: list[TopicResponse]
