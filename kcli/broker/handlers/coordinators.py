"""FindCoordinator: no coordinator is there yet, every answer is COORDINATOR_NOT_AVAILABLE (KIP-699, KIP-932).

It is answered and not left out because librdkafka takes the API for the sign of a broker that knows the LZ4
framing: without it a producer set to lz4 sends its batches uncompressed, and says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest

_FIRST_BATCHED_VERSION = 4
_FIRST_SHARE_VERSION = 6
_SHARE = 2


def find_coordinator(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    """Answer COORDINATOR_NOT_AVAILABLE for every key, INVALID_REQUEST for a type that does not exist."""
    highest = _SHARE if context.api_version >= _FIRST_SHARE_VERSION else _SHARE - 1
    if 0 <= request.key_type <= highest:
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
