"""Idempotent producers: InitProducerId (KIP-98) and DescribeProducers (KIP-664).

Without a transactional id every request gets a new producer id with epoch 0, even if it names an old one:
such a producer raises its epoch by itself (KIP-360). With one, the error is COORDINATOR_NOT_AVAILABLE,
because there is no transaction coordinator. An empty transactional id is INVALID_REQUEST, and so is an id
without epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.network.access import Operation
from kcli.broker.network.authorization import (
    authorize_topics,
    authorize_transactional_id,
    is_any_topic_authorized,
    is_cluster_authorized,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kcli.protocol.messages.init_producer_id import InitProducerIdResponse
from kcli.protocol.topics import check_topic_name

if TYPE_CHECKING:
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest
    from kcli.protocol.messages.init_producer_id import InitProducerIdRequest


NO_PRODUCER_ID = -1
NO_EPOCH = -1


def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Return the next producer id of the block of this node."""
    if request.transactional_id is not None:
        authorize_transactional_id(context, Operation.WRITE, request.transactional_id)
    elif not (
        is_cluster_authorized(context, Operation.IDEMPOTENT_WRITE)
        or is_any_topic_authorized(context, Operation.WRITE)
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id goes with an epoch")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "there is no transaction coordinator")
    return InitProducerIdResponse(producer_id=context.node.producer_ids.take(), producer_epoch=0)


def failed_init_producer_id(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_EPOCH)


def describe_producers(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Return the active producers of each partition. Only errors of a topic have a message, as in Kafka."""
    denied = authorize_topics(context, Operation.READ, (topic.name for topic in request.topics))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _failed(index, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                    if topic.name in denied
                    else _describe(topic.name, index, context)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, error_code=error.code, error_message=error.message, active_producers=[]
    )


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    if topic not in context.node.image.topics:
        try:
            check_topic_name(topic)
        except KafkaError as error:
            return _failed(index, error)
        return _failed(index, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    try:
        partition = context.node.replica_manager.partition(topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, active_producers=[])
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
