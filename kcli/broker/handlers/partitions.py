"""Replicas and leaders of partitions: AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders.

* Each reassignment begins or is cancelled by itself; the response says that it has begun (KIP-455).
* From version 1 on a request can forbid that the number of replicas changes (KIP-860).
* Reassignments are listed as the image of this node has them; other partitions are left out.
* ElectLeaders (KIP-183, KIP-460) version 0 asks only for preferred elections, and has no error for the
  request as a whole. Without a list every partition is tried; those that need no election are left out of the
  response, but their topics are in it.
* Responses come when the change is in effect on this node, so `timeout_ms` is never reached.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from kcli.broker.controller.election_control import ElectionType
from kcli.broker.controller.reassignment_control import Reassignment
from kcli.broker.network.authorization import authorize_cluster
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcli.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kcli.protocol.topics import TopicPartition
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kcli.broker.metadata.metadata_image import TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
    from kcli.protocol.messages.elect_leaders import ElectLeadersRequest
    from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Begin, replace and cancel reassignments."""
    authorize_cluster(context, Operation.ALTER)
    outcomes = context.node.controller.alter_reassignments(
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
    response = _altered(request, repeat(error))
    response.error_code, response.error_message = error.code, error.message
    response.allow_replication_factor_change = True
    return response


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Return the reassignments of the partitions asked for, or all."""
    authorize_cluster(context, Operation.DESCRIBE)
    image = context.node.image
    if request.topics is None:
        return _listed((topic, range(len(topic.partitions))) for topic in image.topics.values())
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        # A partition that is asked for twice is returned once.
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return _listed((image.topics[name], indexes) for name, indexes in asked.items() if name in image.topics)


def _altered(
    request: AlterPartitionReassignmentsRequest, outcomes: Iterable[KafkaError | None]
) -> AlterPartitionReassignmentsResponse:
    remaining = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        # Kafka answers a request without topics with the field's default.
        allow_replication_factor_change=request.allow_replication_factor_change or not request.topics,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_outcome(each.partition_index, next(remaining)) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _outcome(partition: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    row = ReassignablePartitionResponse(partition_index=partition)
    if error is not None:
        row.error_code, row.error_message = error.code, error.message
    return row


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


def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Elect leaders, each partition by itself."""
    try:
        return _elect(request, context)
    except KafkaError as error:
        if context.api_version > 0:
            raise
        # Version 0 has no error for the whole request.
        rows = [
            ReplicaElectionResult(
                topic=each.topic, partition_result=[_result(index, error) for index in each.partitions]
            )
            for each in request.topic_partitions or ()
        ]
        return ElectLeadersResponse(replica_election_results=rows)


def _elect(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    authorize_cluster(context, Operation.ALTER)
    if request.topic_partitions == []:
        return ElectLeadersResponse(replica_election_results=[])
    if request.election_type not in set(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election type {request.election_type}")
    broker = context.node
    wanted: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        wanted = [(topic.name, range(len(topic.partitions))) for topic in broker.image.topics.values()]
    else:
        wanted = [(each.topic, each.partitions) for each in request.topic_partitions]
    outcomes = iter(
        broker.controller.elect_leaders(
            [TopicPartition(topic, partition) for topic, partitions in wanted for partition in partitions],
            type=ElectionType(request.election_type),
        )
    )
    results = []
    for topic, partitions in wanted:
        rows = [_result(partition, next(outcomes)) for partition in partitions]
        if request.topic_partitions is None:
            rows = [each for each in rows if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=rows))
    return ElectLeadersResponse(replica_election_results=results)


def _result(partition: int, error: KafkaError | None) -> PartitionResult:
    row = PartitionResult(partition_id=partition)
    if error is not None:
        row.error_code, row.error_message = error.code, error.message
    return row
