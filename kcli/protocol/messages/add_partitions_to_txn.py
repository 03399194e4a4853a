"""AddPartitionsToTxn (key 24): add partitions to a transaction, or verify that they are in it.

Clients use versions 0 to 3, for one transaction (KIP-98). Brokers use 4 and 5, for several, and may only
verify (KIP-890). Version 2 adds the error PRODUCER_FENCED (KIP-588), 5 the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import (
    boolean,
    fresh,
    i16,
    i32,
    i64,
    ignorable,
    message,
    string,
    struct,
    v,
)


@struct
class AddPartitionsToTxnTopic:
    name: string
    partitions: list[i32]


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: string
    producer_id: i64
    producer_epoch: i16
    verify_only: boolean = False
    topics: list[AddPartitionsToTxnTopic]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: Annotated[list[AddPartitionsToTxnTransaction], v("4+")] = fresh(list)
    v3_and_below_transactional_id: Annotated[string, v("0-3")] = ""
    v3_and_below_producer_id: Annotated[i64, v("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[i16, v("0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], v("0-3")] = fresh(list)


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: i32
    partition_error_code: i16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    name: string
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    transactional_id: string
    topic_results: list[AddPartitionsToTxnTopicResult]


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, v("4+"), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], v("4+")] = fresh(list)
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], v("0-3")] = fresh(list)
