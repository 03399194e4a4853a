"""InitProducerId (key 22): get producer id and epoch for an idempotent or transactional producer (KIP-98).

Version 3 lets a producer keep its id and bump its epoch (KIP-360), 4 adds the error PRODUCER_FENCED
(KIP-588), 5 the error TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.schema.declaration import i16, i32, i64, message, string, v


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdRequest:
    transactional_id: string | None
    transaction_timeout_ms: i32
    producer_id: Annotated[i64, v("3+")] = -1
    producer_epoch: Annotated[i16, v("3+")] = -1


@message(key=22, versions="0-5", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    producer_id: i64 = -1
    producer_epoch: i16
