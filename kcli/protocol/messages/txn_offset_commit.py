"""TxnOffsetCommit (key 28): commit offsets of a group in a transaction (KIP-98).

Version 2 adds leader epochs (KIP-320), 3 the member and its generation (KIP-447), 4 the error
TRANSACTION_ABORTABLE. With 5 the group's partition of `__consumer_offsets` joins the transaction without an
AddOffsetsToTxn before (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, i64, ignorable, message, string, struct, v


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: Annotated[i32, v("2+"), ignorable] = -1
    committed_metadata: string | None


@struct
class TxnOffsetCommitRequestTopic:
    name: string
    partitions: list[TxnOffsetCommitRequestPartition]


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    transactional_id: string
    group_id: string
    producer_id: i64
    producer_epoch: i16
    generation_id: Annotated[i32, v("3+")] = -1
    member_id: Annotated[string, v("3+")] = ""
    group_instance_id: Annotated[string | None, v("3+")] = None
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: string
    partitions: list[TxnOffsetCommitResponsePartition]


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
