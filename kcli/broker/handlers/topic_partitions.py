"""DescribeTopicPartitions: topics by name, as many partitions at a time as the client or the broker allows.

* An empty list is all topics; names come back in their order, each once.
* Where the limit ends a page, the next cursor names the topic and partition to go on at. A cursor's topic
  must be in the list, if there is one.
* A partition without a leader has leader -1 and no error; an unknown topic that was asked for has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.topic_names import check_topic_name
from kcli.broker.handlers.metadata import TOPIC_OPERATIONS
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kcli.protocol.topics import INTERNAL_TOPICS
from kcli.protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Collection

    from kcli.broker.metadata.metadata_image import MetadataImage, PartitionRegistration, TopicImage
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest


def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Answer with one page."""
    image = context.broker.image
    cursor = request.cursor
    names = _names(request, image)
    limit = context.broker.config.max_request_partition_size_limit
    reachable = image.reachable_brokers(context.listener_name).keys()
    remaining = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if remaining <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(len(topic.partitions), first + remaining)
        response.topics.append(_topic(topic, range(first, end), image, reachable))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        remaining -= max(end - first, 0)
    return response


def failed_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    """Answer every topic asked for with the same error."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=error.code, name=topic.name, topic_id=ZERO_UUID, partitions=[]
            )
            for topic in request.topics
        ]
    )


def _names(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    """Return the names to describe, from the cursor on."""
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a cursor at partition {cursor.partition_index}")
    if cursor is not None and asked and cursor.topic_name not in asked:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the cursor's topic is not asked for: {cursor.topic_name}"
        )
    start = "" if cursor is None else cursor.topic_name
    return sorted(name for name in asked or image.topics if name >= start)


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    topic: TopicImage, indexes: range, image: MetadataImage, reachable: Collection[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], image, reachable) for index in indexes],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    index: int, partition: PartitionRegistration, image: MetadataImage, reachable: Collection[int]
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if partition.leader in reachable else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=image.offline_replicas(partition, reachable),
    )
