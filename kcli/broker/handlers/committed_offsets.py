"""OffsetCommit, OffsetFetch, OffsetDelete: the committed offsets of groups.

* Each unknown partition gets an error of its own, and the coordinator gets the rest of the request, if any.
* Version 0 of commit and fetch was about ZooKeeper; it is served like version 1.
* From version 10 on topics are given by id (KIP-848): an unknown id is UNKNOWN_TOPIC_ID, and a fetch of all
  offsets leaves out deleted topics.
* OffsetFetch answers once the offsets it has read are committed, because a new leader might lack them
  otherwise. With `require_stable` (KIP-447), which every newer client sets, a partition whose next offset an
  open transaction has written gets UNSTABLE_OFFSET_COMMIT.
* OffsetFetch asks for all partitions with null. From version 8 on it asks for several groups, each with an
  error of its own; before version 2 the error is in every partition.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.network.authorization import authorize_group, authorize_topics
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kcli.security.acl import Operation

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kcli.broker.coordinator.group_coordinator import GroupCoordinator
    from kcli.broker.coordinator.runtime.shard_host import CoordinatorResponse
    from kcli.broker.metadata.metadata_image import MetadataImage, TopicImage
    from kcli.broker.network.request_context import RequestContext
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequest
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

NO_OFFSET = -1
ERRORS_ABOVE_FROM = 2
GROUPS_FROM = 8
TOPIC_IDS_FROM = 10

Topic = TypeVar(
    "Topic", "OffsetCommitRequestTopic", "OffsetDeleteRequestTopic", "TxnOffsetCommitRequestTopic"
)
Refused = list[tuple[Any, list[int], ErrorCode]]
"""Topics of a request, their refused partitions, and the error."""


def offset_commit(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | CoordinatorResponse:
    """Store offsets; the response waits until they are stored."""
    authorize_group(context, Operation.READ, request.group_id)
    version = context.api_version
    image = context.node.image
    if version >= TOPIC_IDS_FROM:
        found = [image.topics_by_id.get(topic.topic_id) for topic in request.topics]
        known, refused = existing_partitions(context, request.topics, found, ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        found = [image.topics.get(topic.name) for topic in request.topics]
        for topic, existing in zip(request.topics, found, strict=True):
            if existing is not None:
                # The id is stored with the offset, even if the client gave a name.
                topic.topic_id = existing.topic_id
        known, refused = existing_partitions(context, request.topics, found)
    if not known:
        return _with_refused_commits(OffsetCommitResponse(topics=[]), refused)
    if refused:
        request = copy(request)
        request.topics = known
    response: OffsetCommitResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id,
        lambda shard, now, token: shard.offset_commit(now, token, request, version),
        (lambda response: _with_refused_commits(response, refused)) if refused else None,
    )
    return response


def failed_offset_commit(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    refused: Refused = [
        (topic, [each.partition_index for each in topic.partitions], error.code) for topic in request.topics
    ]
    return _with_refused_commits(OffsetCommitResponse(topics=[]), refused)


def _with_refused_commits(response: OffsetCommitResponse, refused: Refused) -> OffsetCommitResponse:
    topics = {(topic.topic_id, topic.name): topic for topic in response.topics}
    for topic, indexes, error in refused:
        row = topics.get((topic.topic_id, topic.name))
        if row is None:
            row = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
            topics[topic.topic_id, topic.name] = row
            response.topics.append(row)
        row.partitions += [
            OffsetCommitResponsePartition(partition_index=index, error_code=error) for index in indexes
        ]
    return response


def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | CoordinatorResponse:
    """Delete the offsets of partitions that no member of the group reads (KIP-496)."""
    authorize_group(context, Operation.DELETE, request.group_id)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    image = context.node.image
    found = [image.topics.get(topic.name) for topic in request.topics]
    known, refused = existing_partitions(context, request.topics, found)
    if refused:
        request = copy(request)
        request.topics = known
    response: OffsetDeleteResponse | CoordinatorResponse = context.node.groups.ask_for(
        request.group_id,
        lambda shard, now, token: shard.offset_delete(now, token, request),
        (lambda response: _with_refused_deletions(response, refused)) if refused else None,
    )
    return response


def _with_refused_deletions(response: OffsetDeleteResponse, refused: Refused) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE:
        return response
    topics = {topic.name: topic for topic in response.topics}
    for topic, indexes, error in refused:
        row = topics.get(topic.name)
        if row is None:
            row = topics[topic.name] = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
            response.topics.append(row)
        row.partitions += [
            OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in indexes
        ]
    return response


def existing_partitions(
    context: RequestContext,
    topics: list[Topic],
    images: list[TopicImage | None],
    unknown: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
) -> tuple[list[Topic], Refused]:
    """Split a request: the partitions that exist and are allowed, by names instead of ids, and the others."""
    names = [topic.name if found is None else found.name for topic, found in zip(topics, images, strict=True)]
    is_by_id = unknown is ErrorCode.UNKNOWN_TOPIC_ID
    denied = authorize_topics(context, Operation.READ, filter(None, names) if is_by_id else names)
    known: list[Topic] = []
    refused: Refused = []
    for topic, found, name in zip(topics, images, names, strict=True):
        if name in denied or found is None:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in denied else unknown
            refused.append((topic, [each.partition_index for each in topic.partitions], code))
            continue
        topic.name = found.name
        count = len(found.partitions)
        missing = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        if missing:
            refused.append((topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic = copy(topic)
            topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if topic.partitions:
            known.append(topic)
    return known, refused


def offset_fetch(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]:
    """Return the committed offsets of each group."""
    asked = request.groups if context.api_version >= GROUPS_FROM else [_as_group(request)]
    groups = [_fetch(group, context, require_stable=request.require_stable) for group in asked]
    waits = [context.node.groups.unsettled(group.group_id) for group in groups]
    if any(wait is not None for wait in waits):
        return _fetch_settled(request, groups, waits, context)
    return _fetched(request, groups, context.api_version)


async def _fetch_settled(
    request: OffsetFetchRequest,
    groups: list[OffsetFetchResponseGroup],
    waits: list[CoordinatorResponse | None],
    context: RequestContext,
) -> OffsetFetchResponse:
    for position, wait in enumerate(waits):
        error = None if wait is None else await context.node.groups.wait(wait)
        if error is not None:
            groups[position] = _failed_group(groups[position].group_id, error)
    return _fetched(request, groups, context.api_version)


def _fetched(
    request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup], version: int
) -> OffsetFetchResponse:
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code and version < ERRORS_ABOVE_FROM:
        return _failed_everywhere(request, group.error_code)
    return OffsetFetchResponse(error_code=group.error_code, topics=[_as_topic(each) for each in group.topics])


def failed_offset_fetch(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    response = _failed_everywhere(request, error.code)
    response.error_code = error.code
    response.groups = [_failed_group(group.group_id, error) for group in request.groups]
    return response


def _failed_everywhere(request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _fetch(
    request: OffsetFetchRequestGroup, context: RequestContext, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    runtime = context.node.groups
    try:
        authorize_group(context, Operation.DESCRIBE, request.group_id)
        shard = runtime.shard(runtime.partition_for(request.group_id))
        if context.api_version < TOPIC_IDS_FROM:
            group = shard.offset_fetch(request, require_stable=require_stable)
        else:
            group = _fetch_by_id(shard, request, context.node.image, require_stable=require_stable)
    except KafkaError as error:
        return _failed_group(request.group_id, error)
    has_names = context.api_version < TOPIC_IDS_FROM
    names = (topic.name for topic in group.topics if has_names or topic.name)
    denied = authorize_topics(context, Operation.DESCRIBE, names)
    if denied and request.topics is None:
        group.topics = [topic for topic in group.topics if topic.name not in denied]
    elif denied:
        for topic in group.topics:
            if topic.name in denied:
                topic.partitions = [
                    _no_offset(each.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for each in topic.partitions
                ]
    return group


def _fetch_by_id(
    shard: GroupCoordinator, request: OffsetFetchRequestGroup, image: MetadataImage, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    unknown: list[OffsetFetchRequestTopics] = []
    if request.topics is not None:
        known: list[OffsetFetchRequestTopics] = []
        for topic in request.topics:
            found = image.topics_by_id.get(topic.topic_id)
            if found is None:
                unknown.append(topic)
            else:
                topic.name = found.name
                known.append(topic)
        request.topics = known
    group = shard.offset_fetch(request, require_stable=require_stable)
    if group.error_code:
        return group
    if request.topics is None:
        group.topics = [row for row in group.topics if row.name in image.topics]
        for row in group.topics:
            row.topic_id = image.topics[row.name].topic_id
    group.topics += [
        OffsetFetchResponseTopics(
            topic_id=topic.topic_id,
            partitions=[_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes],
        )
        for topic in unknown
    ]
    return group


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )


def _failed_group(group_id: str, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=error.code)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the one group of an older request."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _as_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """Return a topic as older responses have it."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=each.partition_index,
                committed_offset=each.committed_offset,
                committed_leader_epoch=each.committed_leader_epoch,
                metadata=each.metadata,
                error_code=each.error_code,
            )
            for each in topic.partitions
        ],
    )
