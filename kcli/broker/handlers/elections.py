"""ElectLeaders: elections on demand, preferred or unclean (KIP-183, KIP-460).

* Version 0 asks for preferred elections only, and has no error for the request as a whole.
* Without a list of partitions every partition is tried, and those whose leader is the wanted one already are
  left out of the answer; topics are named even so.
* Answers come when the new leaders are in effect on this node, so `timeout_ms` is never reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.controller.election_control import ElectionType
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.elect_leaders import ElectLeadersRequest


def elect_leaders(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Elect leaders, each partition by itself."""
    if request.election_type not in set(ElectionType):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no election type {request.election_type}")
    broker = context.broker
    wanted: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        wanted = [(topic.name, range(len(topic.partitions))) for topic in broker.image.topics.values()]
    else:
        wanted = [(each.topic, each.partitions) for each in request.topic_partitions]
    outcomes = iter(
        broker.controller.elect_leaders(
            [(topic, partition) for topic, partitions in wanted for partition in partitions],
            type=ElectionType(request.election_type),
        )
    )
    results = []
    for topic, partitions in wanted:
        answers = [_result(partition, next(outcomes)) for partition in partitions]
        if request.topic_partitions is None:
            answers = [each for each in answers if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=answers))
    return ElectLeadersResponse(replica_election_results=results)


def failed_elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """Answer the request, and every partition that it names, with the same error."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[_result(partition, error) for partition in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _result(partition: int, error: KafkaError | None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=partition)
    return PartitionResult(partition_id=partition, error_code=error.code, error_message=error.message)
