"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Version 2 adds the error PRODUCER_FENCED (KIP-588), 4 the error TRANSACTION_ABORTABLE. From 5 each transaction
ends with a new epoch, and the response holds what the producer uses next (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import boolean, i16, i32, i64, ignorable, message, string, v


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: string
    producer_id: i64
    producer_epoch: i16
    committed: boolean


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: Annotated[i64, v("5+"), ignorable] = -1
    producer_epoch: Annotated[i16, v("5+"), ignorable] = -1
