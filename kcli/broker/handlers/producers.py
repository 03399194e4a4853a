"""Producers: InitProducerId (KIP-98) and DescribeProducers (KIP-664).

Without a transactional id every request gets a new producer id with epoch 0, even if it names an old one:
such a producer raises its epoch by itself (KIP-360). With one, the coordinator of the transactional id fences
the former session of the producer. An empty transactional id is INVALID_REQUEST, and so is a producer id
without epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.describe_producers import DescribeProducersRequest
    from kcli.protocol.messages.init_producer_id import InitProducerIdRequest


NO_PRODUCER_ID = -1
NO_EPOCH = -1
FENCED_FROM = 4
"""The first version of InitProducerId that knows PRODUCER_FENCED."""


def init_producer_id(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | CoordinatorResponse:
    """Return a producer id of the block of this node, or the next epoch of a transactional id."""
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
        return _init_transactional(request, request.transactional_id, context)
    return InitProducerIdResponse(producer_id=context.node.producer_ids.take(), producer_epoch=0)


def _init_transactional(
    request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> InitProducerIdResponse | CoordinatorResponse:
    """Begin a session of a transactional id; the response waits until it is replicated."""
    # Only transactional producers need these modules.
    from kcli.broker.coordinator.transaction.transaction import Producer
    from kcli.broker.handlers.transactions import known_code

    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    version = context.api_version

    def shape(reply: Producer | KafkaError) -> InitProducerIdResponse:
        if isinstance(reply, KafkaError):
            code = known_code(reply.code, version, FENCED_FROM)
            return failed_init_producer_id(request, KafkaError(code, reply.message))
        return InitProducerIdResponse(producer_id=reply.producer_id, producer_epoch=reply.epoch)

    try:
        response: InitProducerIdResponse | CoordinatorResponse = context.node.transactions.ask_for(
            transactional_id,
            lambda shard, now, token: shard.init_producer(
                now, token, transactional_id, timeout_ms=request.transaction_timeout_ms, expected=expected
            ),
            shape,
        )
    except KafkaError as error:
        return shape(error)
    return response


def failed_init_producer_id(request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_EPOCH)


def describe_producers(
    request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Return the active producers of each partition. Only errors of a topic have a message, as in Kafka."""
    topics = []
    for topic in request.topics:
        error = _refusal(topic.name, context)
        partitions = [
            _describe(topic.name, index, context) if error is None else _failed(index, error)
            for index in topic.partition_indexes
        ]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _refusal(topic: str, context: RequestContext) -> KafkaError | None:
    """Return why nothing is told about a topic, None if something is."""
    try:
        check_topic_name(topic)
    except KafkaError as error:
        return error.detached()
    if authorize_topics(context, Operation.READ, (topic,)):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic not in context.node.image.topics:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _failed(index: int, error: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index, error_code=error.code, error_message=error.message, active_producers=[]
    )


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
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
