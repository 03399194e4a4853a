"""DescribeTransactions (key 65): describe transactions that a broker coordinates (KIP-664)."""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, i64, message, string, struct


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[string]


@struct
class TopicData:
    topic: string
    partitions: list[i32]


@struct
class TransactionState:
    error_code: i16 = 0
    transactional_id: string
    transaction_state: string = ""
    transaction_timeout_ms: i32 = 0
    transaction_start_time_ms: i64 = 0
    """-1 without a transaction."""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    topics: list[TopicData]
    """Without the partitions that already have their marker."""


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: i32 = 0
    transaction_states: list[TransactionState]
