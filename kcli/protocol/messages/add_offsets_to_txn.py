"""AddOffsetsToTxn (key 25): add a group's partition of `__consumer_offsets` to a transaction (KIP-98).

Version 2 adds the error PRODUCER_FENCED (KIP-588), 4 the error TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from kcli.protocol.schema.declaration import i16, i32, i64, message, string


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: string
    producer_id: i64
    producer_epoch: i16
    group_id: string


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
