"""DeleteRecords: move the log start of partitions forward (KIP-107).

Offset -1 stands for the high watermark; beyond it, or below -1, is OFFSET_OUT_OF_RANGE. A topic that is only
compacted refuses: its records go by key (POLICY_VIOLATION). The segments wholly below go with the next
retention run. The answer waits until the replicas that are alive have followed: until then one that became
leader could show the records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.delayed_response import once_settled
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from kcli.broker.delayed_response import DelayedResponse
    from kcli.broker.replication.partition import PartitionId
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest

NO_LOW_WATERMARK = -1


class PendingDelete:
    """One partition: settled when its low watermark is at `required_offset`, or it is not led here."""

    __slots__ = ("key", "required_offset", "result")

    def __init__(self, key: PartitionId, required_offset: int, result: DeleteRecordsPartitionResult) -> None:
        self.key = key
        self.required_offset = required_offset
        self.result = result
        result.error_code = ErrorCode.REQUEST_TIMED_OUT

    def settle(self, manager: ReplicaManager) -> bool:
        """Write into the result how far it has come; return whether that is all the way."""
        result = self.result
        try:
            result.low_watermark = manager.leader(*self.key).low_watermark
        except KafkaError as error:
            result.error_code, result.low_watermark = error.code, NO_LOW_WATERMARK
            return True
        if result.low_watermark < self.required_offset:
            return False
        result.error_code = ErrorCode.NONE
        return True


def delete_records(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | DelayedResponse[DeleteRecordsResponse]:
    """Answer each partition on its own, with its new low watermark."""
    pending: list[PendingDelete] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, wanted, context, pending) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    return once_settled(
        context.broker.replica_manager, response, pending=pending, timeout_ms=request.timeout_ms
    )


def failed(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """Answer with the same error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_failed(wanted, error) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _failed(wanted: DeleteRecordsPartition, error: KafkaError) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
    )


def _delete(
    topic: str,
    wanted: DeleteRecordsPartition,
    context: RequestContext,
    pending: list[PendingDelete],
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{topic}` is the broker's own")
        partition = context.broker.replica_manager.leader(topic, wanted.partition_index)
        log_start = partition.delete_records(wanted.offset)
    except KafkaError as error:
        return _failed(wanted, error)
    result = DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=partition.low_watermark
    )
    pending.append(PendingDelete(partition.key, log_start, result))
    return result
