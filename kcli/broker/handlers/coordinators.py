"""FindCoordinator: no coordinator is there yet, every answer is COORDINATOR_NOT_AVAILABLE (KIP-699, KIP-932).

It is answered and not left out because librdkafka takes the API for the sign of a broker that knows the LZ4
framing: without it a producer set to lz4 sends its batches uncompressed, and says nothing. Clients ask again
and again without telling their users, so the first question of each client is told in the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

_FIRST_BATCHED_VERSION = 4
_FIRST_SHARE_VERSION = 6
_SHARE = 2
_KINDS = {0: "consumer groups", 1: "transactions", 2: "share groups"}
_log = logging.getLogger(__name__)


def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Answer COORDINATOR_NOT_AVAILABLE for every key, INVALID_REQUEST for a type that does not exist."""
    highest = _SHARE if context.api_version >= _FIRST_SHARE_VERSION else _SHARE - 1
    if 0 <= request.key_type <= highest:
        if not context.told_no_coordinator:
            context.told_no_coordinator = True
            _log.warning(
                "client `%s` from %s asks for a coordinator: kcli has no %s yet",
                context.client_id,
                context.peer_address,
                _KINDS[request.key_type],
            )
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this broker coordinates nothing yet")
    else:
        error = KafkaError(ErrorCode.INVALID_REQUEST, f"there is no coordinator type {request.key_type}")
    if context.api_version < _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(
            error_code=error.code, error_message=error.message, node_id=-1, host="", port=-1
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message
            )
            for key in request.coordinator_keys
        ]
    )
