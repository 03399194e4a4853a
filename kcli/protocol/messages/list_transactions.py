"""ListTransactions (key 66): list the transactional ids that a broker coordinates (KIP-664).

Version 1 adds a filter by duration (KIP-994), 2 one by an expression (KIP-1152).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, i64, message, string, struct, v


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[string]
    producer_id_filters: list[i64]
    duration_filter: Annotated[i64, v("1+")] = -1
    transactional_id_pattern: Annotated[string | None, v("2+")] = None


@struct
class TransactionState:
    transactional_id: string
    producer_id: i64
    transaction_state: string


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]
