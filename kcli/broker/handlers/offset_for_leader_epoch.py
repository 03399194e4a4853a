"""OffsetForLeaderEpoch: where a leader epoch ends in a partition's log (KIP-101, KIP-320).

Answered by the leader from its epoch cache: the largest epoch not above the one asked for, and the offset at
which the next one begins; for the current epoch the log end. Both are -1 when nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import KafkaError
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from kcli.broker.request_context import RequestContext
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(topic.topic, wanted, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def failed(request: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    """Answer with the same error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=wanted.partition, error_code=error.code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(topic: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.broker.replica_manager.leader(
            topic, wanted.partition, wanted.current_leader_epoch
        )
        response.leader_epoch, response.end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        response.error_code = error.code
    return response
