"""Offsets in logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

ListOffsets returns the offset for a timestamp (KIP-79):

* -1 is the end: the high watermark, the last stable offset for read_committed, the log end for a replica. -2
  and -4 are the log start; -3 is the record with the largest timestamp (version 7), -4 needs version 8. -5
  (version 9) and -6 (version 11) ask about tiered storage, which does not exist here: offset -1.
* Any other negative timestamp, and a special one before its version, is UNSUPPORTED_VERSION.
* Any other timestamp gives the first record at or after it that the client may read, else offset -1.
* A new leader does not know what is committed until its followers have fetched: an offset that may lie there
  is OFFSET_NOT_AVAILABLE, before version 5 LEADER_NOT_AVAILABLE.
* Version 0 returns a list: the base offsets of the segments last written before the time, newest first.

OffsetForLeaderEpoch (KIP-101, KIP-320) returns, from the epoch cache of the leader, the largest epoch not
above the one asked for and the offset at which the next one begins; for the current epoch that is the log
end. Both are -1 if the epoch is unknown.

DeleteRecords (KIP-107) moves log starts forward. Offset -1 is the high watermark; an offset above it, or
below -1, is OFFSET_OUT_OF_RANGE. A topic that is only compacted refuses with POLICY_VIOLATION. Retention
removes the segments below later. The response waits until the live replicas have followed: until then a new
leader could show the records again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trio.lowlevel import checkpoint

from kcli.broker.network.authorization import authorize_topics
from kcli.broker.network.responses import once_settled
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kcli.protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    FIRST_VERSIONS,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kcli.protocol.topics import INTERNAL_TOPICS, TopicPartition
from kcli.security.acl import Operation
from kcli.storage.log.log_read import Isolation

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

    from kcli.broker.network.request_context import RequestContext
    from kcli.broker.network.responses import DelayedResponse
    from kcli.broker.replication.partition import Partition
    from kcli.broker.replication.replica_manager import ReplicaManager
    from kcli.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest
    from kcli.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest
    from kcli.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )


_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_CONSUMER = -1
"""The replica id of consumers."""
_TOPIC_DENIED = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_NOT_AVAILABLE_FROM = 5


def list_offsets(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Coroutine[None, None, ListOffsetsResponse]:
    """Return the offset of each partition, or its error."""
    denied = authorize_topics(context, Operation.DESCRIBE, (topic.name for topic in request.topics))
    may_see = any(topic.name not in denied for topic in request.topics)
    rows = _rows(request, context, denied, _isolation(request) if may_see else Isolation.HIGH_WATERMARK)
    searches = sum(
        partition.timestamp >= 0 or partition.timestamp == MAX_TIMESTAMP
        for topic in request.topics
        for partition in topic.partitions
    )
    if searches > 1:
        return _list_in_turns(request, rows)
    return _response(request, list(rows))


async def _list_in_turns(
    request: ListOffsetsRequest, rows: Iterator[tuple[int, ListOffsetsPartitionResponse]]
) -> ListOffsetsResponse:
    """Return the response; let others run between partitions, because each search may read megabytes."""
    found = []
    for row in rows:
        found.append(row)
        await checkpoint()
    return _response(request, found)


def _response(
    request: ListOffsetsRequest, rows: Iterable[tuple[int, ListOffsetsPartitionResponse]]
) -> ListOffsetsResponse:
    """Return the response with these rows, each with the number of its topic in the request."""
    topics = [ListOffsetsTopicResponse(name=topic.name, partitions=[]) for topic in request.topics]
    for number, row in rows:
        topics[number].partitions.append(row)
    return ListOffsetsResponse(topics=topics)


def _isolation(request: ListOffsetsRequest) -> Isolation:
    """Return what the client may see: all but consumers see the log end. An unknown level fails them all."""
    if request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown isolation level {request.isolation_level}")
    if request.replica_id != _CONSUMER:
        return Isolation.LOG_END
    is_committed = request.isolation_level == _READ_COMMITTED
    return Isolation.TXN_COMMITTED if is_committed else Isolation.HIGH_WATERMARK


def _rows(
    request: ListOffsetsRequest, context: RequestContext, denied: frozenset[str], isolation: Isolation
) -> Iterator[tuple[int, ListOffsetsPartitionResponse]]:
    """Yield a row for each partition, with the number of its topic; one that is named twice is an error."""
    asked = Counter(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    refused: set[tuple[str, int]] = set()
    for number, topic in enumerate(request.topics):
        for partition in topic.partitions:
            key = topic.name, partition.partition_index
            if topic.name not in denied and asked[key] == 1:
                yield number, _row(topic.name, partition, context, isolation)
            elif topic.name in denied or key not in refused:
                refused.add(key)
                is_denied = topic.name in denied
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.INVALID_REQUEST
                yield number, ListOffsetsPartitionResponse(partition_index=key[1], error_code=code)


def _row(
    topic: str, wanted: ListOffsetsPartition, context: RequestContext, isolation: Isolation
) -> ListOffsetsPartitionResponse:
    response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    version = context.api_version
    if wanted.timestamp < 0 and version and FIRST_VERSIONS.get(wanted.timestamp, 1000) > version:
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    try:
        partition = context.node.replica_manager.leader(
            topic, wanted.partition_index, wanted.current_leader_epoch
        )
        if version == 0:
            response.old_style_offsets = _segment_offsets(
                partition, wanted.timestamp, wanted.max_num_offsets, isolation, context.node.wall_ms()
            )
            return response
        if isolation is not Isolation.LOG_END and not partition.knows_committed_end:
            _check_certain(partition, wanted.timestamp, isolation, version)
        response.timestamp, response.offset, leader_epoch = _find(partition, wanted.timestamp, isolation)
        if version >= 4:
            response.leader_epoch = leader_epoch
    except KafkaError as error:
        response.error_code = error.code
    return response


def _check_certain(partition: Partition, timestamp: int, isolation: Isolation, version: int) -> None:
    """Raise `KafkaError` if a new leader does not know the offset yet: it may go back (KIP-207)."""
    if timestamp in {EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return
    if timestamp != LATEST and _find(partition, timestamp, isolation)[1] >= 0:
        return
    known = version >= _NOT_AVAILABLE_FROM
    code = ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE
    raise KafkaError(code, "the leader is new, and does not know yet what is committed")


def _find(partition: Partition, timestamp: int, isolation: Isolation) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch), each -1 for no record."""
    log = partition.log
    if timestamp == LATEST:
        return -1, partition.limit(isolation), partition.leader_epoch
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return -1, log.log_start_offset, log.leader_epochs.epoch_for(log.log_start_offset)
    if timestamp in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return -1, -1, -1
    is_max = timestamp == MAX_TIMESTAMP
    found = log.offset_of_max_timestamp() if is_max else log.offset_for_timestamp(timestamp)
    if found is None or found[1] >= partition.limit(isolation):
        return -1, -1, -1
    return found


def _segment_offsets(
    partition: Partition, timestamp: int, max_count: int, isolation: Isolation, now_ms: int
) -> list[int]:
    """Return at most `max_count` base offsets of segments, newest first, for version 0."""
    offsets = partition.log.offsets_before(timestamp, max_offsets=max(0, max_count), now_ms=now_ms)
    limit = partition.limit(isolation)
    if any(offset > limit for offset in offsets):
        offsets = [limit, *(offset for offset in offsets if offset <= limit)]
    return sorted(offsets, reverse=True)


def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Return the end of an epoch in each partition, or its error."""
    names = (topic.topic for topic in request.topics)
    denied = authorize_topics(context, Operation.DESCRIBE, names, cluster=Operation.CLUSTER_ACTION)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=wanted.partition, error_code=_TOPIC_DENIED.code)
                    if topic.topic in denied
                    else _end_of_epoch(topic.topic, wanted, context)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_of_epoch(topic: str, wanted: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    response = EpochEndOffset(partition=wanted.partition)
    try:
        partition = context.node.replica_manager.leader(topic, wanted.partition, wanted.current_leader_epoch)
        response.leader_epoch, response.end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        response.error_code = error.code
    return response


NO_LOW_WATERMARK = -1


class PendingDelete:
    """One partition: settled once its low watermark is at `required_offset` or it has another leader."""

    __slots__ = ("key", "required_offset", "result")

    def __init__(
        self, key: TopicPartition, required_offset: int, result: DeleteRecordsPartitionResult
    ) -> None:
        self.key = key
        self.required_offset = required_offset
        self.result = result
        result.error_code = ErrorCode.REQUEST_TIMED_OUT

    def settle(self, manager: ReplicaManager) -> bool:
        result = self.result
        try:
            result.low_watermark = manager.leader(*self.key).low_watermark
        except KafkaError as error:
            result.error_code, result.low_watermark = error.code, NO_LOW_WATERMARK
            return True
        if result.low_watermark < self.required_offset:
            return False
        result.error_code = ErrorCode.NONE
        return True


def delete_records(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | DelayedResponse[DeleteRecordsResponse]:
    """Delete records; return the new low watermark of each partition, or its error.

    If a partition is named twice, its last offset counts.
    """
    denied = authorize_topics(context, Operation.DELETE, (topic.name for topic in request.topics))
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update({each.partition_index: each for each in topic.partitions})
    pending: list[PendingDelete] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=name,
                partitions=[
                    _failed(each, _TOPIC_DENIED) if name in denied else _delete(name, each, context, pending)
                    for each in partitions.values()
                ],
            )
            for name, partitions in wanted.items()
        ]
    )
    return once_settled(
        context.node.replica_manager, response, pending=pending, timeout_ms=request.timeout_ms
    )


def failed_delete_records(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_failed(wanted, error) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _failed(wanted: DeleteRecordsPartition, error: KafkaError) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=error.code
    )


def _delete(
    topic: str, wanted: DeleteRecordsPartition, context: RequestContext, pending: list[PendingDelete]
) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"`{topic}` is the broker's own")
        partition = context.node.replica_manager.leader(topic, wanted.partition_index)
        log_start = partition.delete_records(wanted.offset)
    except KafkaError as error:
        return _failed(wanted, error)
    result = DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=partition.low_watermark
    )
    pending.append(PendingDelete(partition.key, log_start, result))
    return result
