"""Produce (key 0): append record batches to partitions.

Versions 0 and 1 carry records of magic 0, version 2 of magic 1, later versions exactly one batch of magic 2.
Version 1 adds the throttle time, 2 the append time, 3 transactions (KIP-98), 5 the log start offset, 7 zstd
(KIP-110), 8 errors of single records (KIP-467), 10 the new leader (KIP-951). From 12 a transaction may begin
with its first write (KIP-890); from 13 topics have ids instead of names (KIP-516).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    fresh,
    i16,
    i32,
    i64,
    ignorable,
    message,
    records_,
    string,
    struct,
    tag,
    uuid,
    v,
)
from kcli.protocol.uuids import ZERO_UUID


@struct
class PartitionProduceData:
    index: i32
    records: records_ | None


@struct
class TopicProduceData:
    name: Annotated[string, v("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, v("13+"), ignorable] = ZERO_UUID
    partition_data: list[PartitionProduceData]


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    transactional_id: Annotated[string | None, v("3+")] = None
    acks: i16
    timeout_ms: i32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: i32
    batch_index_error_message: string | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class PartitionProduceResponse:
    index: i32
    error_code: i16 = 0
    base_offset: i64
    log_append_time_ms: Annotated[i64, v("2+"), ignorable] = -1
    log_start_offset: Annotated[i64, v("5+"), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], v("8+"), ignorable] = fresh(list)
    error_message: Annotated[string | None, v("8+"), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, v("10+"), tag(0)] = fresh(LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    name: Annotated[string, v("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, v("13+"), ignorable] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: i32
    host: string
    port: i32
    rack: string | None = None


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Annotated[i32, v("1+"), ignorable] = 0
    node_endpoints: Annotated[list[NodeEndpoint], v("10+"), tag(0)] = fresh(list)
