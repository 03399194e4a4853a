"""AlterPartitionReassignments, ListPartitionReassignments: partitions on the move (KIP-455, KIP-860).

* Each partition is moved, or its move is stopped, by itself; an answer says that the move has begun.
* From version 1 on a request may forbid that the number of replicas changes.
* Moves are listed as this node's image has them; what does not move, or does not exist, is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.reassignment_control import Reassignment
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.broker.metadata.metadata_image import TopicImage
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
    from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Begin, replace and stop moves."""
    outcomes = context.broker.controller.alter_reassignments(
        [
            Reassignment(
                topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas)
            )
            for topic in request.topics
            for each in topic.partitions
        ],
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    return _altered(request, outcomes)


def failed_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """Answer the request as a whole, and every partition, with the same error."""
    count = sum(len(topic.partitions) for topic in request.topics)
    response = _altered(request, [error] * count)
    response.error_code, response.error_message = error.code, error.message
    return response


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Answer with the moves of the partitions that are asked about, or with all."""
    image = context.broker.image
    if request.topics is None:
        return _listed((topic, range(len(topic.partitions))) for topic in image.topics.values())
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        # What is asked for twice is answered once.
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return _listed((image.topics[name], indexes) for name, indexes in asked.items() if name in image.topics)


def failed_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, error: KafkaError
) -> ListPartitionReassignmentsResponse:
    """Answer with an error."""
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, topics=[])


def _altered(
    request: AlterPartitionReassignmentsRequest, outcomes: Iterable[KafkaError | None]
) -> AlterPartitionReassignmentsResponse:
    remaining = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_outcome(each.partition_index, next(remaining)) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _outcome(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=partition)
    return ReassignablePartitionResponse(
        partition_index=partition, error_code=error.code, error_message=error.message
    )


def _listed(wanted: Iterable[tuple[TopicImage, Iterable[int]]]) -> ListPartitionReassignmentsResponse:
    topics = []
    for topic, indexes in wanted:
        moving = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(topic.partitions[index].replicas),
                adding_replicas=list(topic.partitions[index].adding),
                removing_replicas=list(topic.partitions[index].removing),
            )
            for index in indexes
            if 0 <= index < len(topic.partitions) and topic.partitions[index].is_moving
        ]
        if moving:
            topics.append(OngoingTopicReassignment(name=topic.name, partitions=moving))
    return ListPartitionReassignmentsResponse(topics=topics)
