"""DescribeQuorum: who holds the metadata log and how far the copies are (KIP-595, KIP-836, KIP-853).

* There is one such log, `__cluster_metadata` partition 0; anything else is UNKNOWN_TOPIC_OR_PARTITION.
* Every node keeps a copy and may take office, so all are voters and none is an observer. The controller
  writes to the copies itself: all that it has written is committed.
* A voter's endpoint (version 2) is that of the listener that the request came in on: there are no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.describe_quorum import (
    DescribedPartition,
    DescribedTopic,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    ReplicaState,
)
from kcli.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from kcli.broker.controller.quorum_view import QuorumReplica, QuorumView
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.describe_quorum import DescribeQuorumRequest


def describe_quorum(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Answer about the metadata log."""
    broker = context.broker
    asked = [
        (topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)]:
        return _unknown(request)
    view = broker.controller.quorum()
    described = _described(view, broker.wall_ms())
    response = DescribeQuorumResponse(
        topics=[DescribedTopic(topic_name=METADATA_TOPIC, partitions=[described])]
    )
    if context.api_version >= 2:
        for state, replica in zip(described.current_voters, view.replicas, strict=True):
            state.replica_directory_id = replica.directory
        voters = [replica.node_id for replica in view.replicas]
        response.nodes = [
            QuorumNode(
                node_id=registration.node_id,
                listeners=[QuorumListener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
            )
            for registration, endpoint in broker.image.brokers_with_listener(context.listener_name, voters)
        ]
    return response


def failed(request: DescribeQuorumRequest, error: KafkaError) -> DescribeQuorumResponse:
    """Answer with an error."""
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return DescribeQuorumResponse(
        topics=[
            DescribedTopic(
                topic_name=topic.topic_name,
                partitions=[
                    DescribedPartition(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _described(view: QuorumView, now_ms: int) -> DescribedPartition:
    return DescribedPartition(
        partition_index=0,
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.end_offset,
        current_voters=[_replica_state(replica, now_ms) for replica in view.replicas],
    )


def _replica_state(replica: QuorumReplica, now_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.node_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=-1 if replica.heard_ago_ms is None else now_ms - replica.heard_ago_ms,
        last_caught_up_timestamp=-1 if replica.level_ago_ms is None else now_ms - replica.level_ago_ms,
    )
