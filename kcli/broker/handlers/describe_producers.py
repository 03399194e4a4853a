"""DescribeProducers: the producers that partitions keep state of (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest


def describe_producers(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Answer each partition on its own, and once."""
    seen: set[tuple[str, int]] = set()

    def is_new(topic: str, index: int) -> bool:
        before = len(seen)
        seen.add((topic, index))
        return len(seen) > before

    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(topic.name, index, context)
                    for index in topic.partition_indexes
                    if is_new(topic.name, index)
                ],
            )
            for topic in request.topics
        ]
    )


def failed(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """Answer with the same error for every partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_failed(index, error) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, error_code=error.code, error_message=error.message, active_producers=[]
    )


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        partition = context.broker.replica_manager.leader(topic, index)
    except KafkaError as error:
        return _failed(index, error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_first_offset,
            )
            for producer in partition.log.active_producers()
        ],
    )
