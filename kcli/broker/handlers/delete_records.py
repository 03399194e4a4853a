"""DeleteRecords: move the log start of partitions forward (KIP-107).

Offset -1 stands for the high watermark; beyond it, or below -1, is OFFSET_OUT_OF_RANGE. A topic that is only
compacted refuses: its records go by key (POLICY_VIOLATION). The segments wholly below go with the next
retention run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal_topics import INTERNAL_TOPICS
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest

NO_LOW_WATERMARK = -1


def delete_records(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Answer each partition on its own, with its new low watermark."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
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
    topic: str, wanted: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{topic}` is the broker's own")
        partition = context.broker.replica_manager.leader(topic, wanted.partition_index)
        low_watermark = partition.delete_records(wanted.offset)
    except KafkaError as error:
        return _failed(wanted, error)
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
