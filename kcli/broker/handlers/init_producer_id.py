"""InitProducerId: a producer id for an idempotent producer (KIP-98).

Without a transactional id every request gets a new id with epoch 0, whatever id it says it has: such a
producer raises its epoch by itself (KIP-360). With one, the answer is COORDINATOR_NOT_AVAILABLE: this broker
has no transaction coordinator. An empty transactional id is INVALID_REQUEST, and so is an id without epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

NO_PRODUCER_ID = -1
NO_EPOCH = -1


def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Answer with the next id of this node's block."""
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id goes with an epoch")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no transaction coordinator")
    return InitProducerIdResponse(producer_id=context.broker.producer_ids.take(), producer_epoch=0)


def failed(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    """Answer with an error and no id."""
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_EPOCH)
