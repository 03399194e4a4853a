"""Offsets that groups have committed: the admin calls, and the requests that members send as well.

Requests name topics. Versions from 10 on have topic ids alone, which say nothing of a deleted topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kcli.client.admin.driver import (
    ask_about_group,
    ask_coordinators,
    ask_coordinators_once,
    check,
    error_of,
    forget_if_moved,
    omitted,
    request_once,
    retry_items,
)
from kcli.client.admin.types import CommittedOffset, Generation
from kcli.client.network.connection import UnsupportedVersion
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.network.metadata import Node

    OffsetsToCommit: TypeAlias = Mapping[TopicPartition, CommittedOffset]

    Partitions: TypeAlias = Collection[TopicPartition] | None

    Offsets: TypeAlias = dict[TopicPartition, CommittedOffset | KafkaError | None]


R = TypeVar("R")
Topic = TypeVar("Topic", OffsetFetchRequestTopic, OffsetFetchRequestTopics)

LAST_VERSION_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; later ones have their ids alone."""

FIRST_STATIC_VERSION = 7
FIRST_EPOCH_VERSION = 9
"""The first versions of OffsetCommit for static members and for members of the consumer protocol."""

MIN_FETCH_VERSION = 1
"""Version 0 reads offsets from ZooKeeper."""

FIRST_MEMBER_VERSION = 9
"""The first version of OffsetFetch that says which member reads."""

_PARTITION_ERRORS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_OLDEST_ADMIN_COMMIT = 2
_ALL_TOPICS_VERSION = 2
_STABLE_VERSION = 7
_SEVERAL_GROUPS_VERSION = 8


class CommitFailed(KafkaError):
    """The group went on without this member: another member reads its uncommitted records again."""


async def list_group_offsets(
    client: Client,
    groups: Mapping[str, Partitions],
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, Offsets | KafkaError]:
    """Return what each group has committed, in all partitions (None) or in some.

    A requested partition without an offset is None; a group that does not exist has no offsets.
    `require_stable` gets `UNSTABLE_OFFSET_COMMIT` for offsets of an open transaction; brokers before 2.5
    ignore it.
    """

    async def fetch(
        coordinator: Node, wanted: Mapping[str, Partitions], low: int, high: int
    ) -> OffsetFetchResponse:
        response: OffsetFetchResponse = await request_once(
            client,
            coordinator,
            request_class=OffsetFetchRequest,
            build=lambda version: offset_fetch(wanted, version, require_stable=require_stable),
            min_version=low,
            max_version=high,
        )
        return response

    async def ask(coordinator: Node, group_ids: list[str]) -> dict[str, Offsets | KafkaError]:
        wanted = {group_id: groups[group_id] for group_id in group_ids}
        try:
            response = await fetch(coordinator, wanted, _SEVERAL_GROUPS_VERSION, LAST_VERSION_BY_NAME)
        except UnsupportedVersion:
            return {group_id: await ask_alone(coordinator, group_id) for group_id in group_ids}
        return {each.group_id: error_of(each.error_code) or _offsets(each.topics) for each in response.groups}

    async def ask_alone(coordinator: Node, group_id: str) -> Offsets | KafkaError:
        wanted = {group_id: groups[group_id]}
        first = MIN_FETCH_VERSION if groups[group_id] is not None else _ALL_TOPICS_VERSION
        response = await fetch(coordinator, wanted, first, _SEVERAL_GROUPS_VERSION - 1)
        offsets = _offsets(response.topics)
        return error_of(response.error_code) or _error_of_group(offsets) or offsets

    return await ask_coordinators(client, groups, ask=ask, timeout_ms=timeout_ms)


async def alter_group_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Commit offsets for a group, which may be new; one with members refuses: `UNKNOWN_MEMBER_ID`."""

    async def attempt(pending: list[TopicPartition], left_ms: int) -> dict[TopicPartition, KafkaError | None]:
        wanted = {each: offsets[each] for each in pending}
        request = offset_commit(group_id, "", generation=Generation(), offsets=wanted)

        async def ask(
            coordinator: Node, group_ids: list[str]
        ) -> dict[str, dict[TopicPartition, KafkaError | None] | KafkaError]:
            response: OffsetCommitResponse = await request_once(
                client,
                coordinator,
                request_class=OffsetCommitRequest,
                build=lambda version: request,
                min_version=_OLDEST_ADMIN_COMMIT,
                max_version=LAST_VERSION_BY_NAME,
            )
            return {group_id: _partition_errors(response)}

        answers = await ask_coordinators_once(client, [group_id], ask=ask, left_ms=left_ms)
        answer = answers[group_id]
        if isinstance(answer, KafkaError):
            refused: dict[TopicPartition, KafkaError | None] = dict.fromkeys(pending, answer)
            return refused
        for result in answer.values():
            forget_if_moved(client, group_id, result)
        return answer

    return await retry_items(client, offsets, timeout_ms=timeout_ms, attempt=attempt)


async def delete_group_offsets(
    client: Client, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
) -> dict[TopicPartition, KafkaError | None]:
    """Delete a group's offsets; a topic that its members read gets `GROUP_SUBSCRIBED_TO_TOPIC`."""
    wanted = list(partitions)
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in by_topic(wanted).items()
        ],
    )

    async def ask(coordinator: Node) -> dict[TopicPartition, KafkaError | None]:
        response: OffsetDeleteResponse = await request_once(
            client, coordinator, request_class=OffsetDeleteRequest, build=lambda version: request
        )
        check(response.error_code)
        answered = _partition_errors(response)
        return {partition: answered.get(partition, omitted()) for partition in wanted}

    return await ask_about_group(client, group_id, ask=ask, timeout_ms=timeout_ms)


def offset_commit(
    group_id: str, instance_id: str, *, generation: Generation, offsets: OffsetsToCommit
) -> OffsetCommitRequest:
    """Return an OffsetCommit request; generation -1 and no member id mean a consumer outside of groups."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id or None,
        topics=_commit_topics(offsets),
    )


def rows_by_topic(offsets: OffsetsToCommit, row: Callable[..., R]) -> dict[str, list[R]]:
    """Return the offsets of each topic as rows of OffsetCommit or TxnOffsetCommit, whose fields are alike."""
    topics: dict[str, list[R]] = {}
    for (topic, index), committed in offsets.items():
        topics.setdefault(topic, []).append(
            row(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return topics


def _commit_topics(offsets: OffsetsToCommit) -> list[OffsetCommitRequestTopic]:
    topics = rows_by_topic(offsets, OffsetCommitRequestPartition)
    return [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]


def expelled(code: ErrorCode) -> CommitFailed:
    """Return the error of a member that the group went on without."""
    return CommitFailed(
        code,
        f"cannot commit: {code.description}",
        hint="poll more often, or raise `max.poll.interval.ms` or `session.timeout.ms`",
    )


def offset_fetch(
    groups: Mapping[str, Partitions],
    version: int,
    *,
    require_stable: bool = True,
    reader: Generation | None = None,
) -> OffsetFetchRequest:
    """Return an OffsetFetch request; versions below 8 carry a single group.

    With `require_stable`, and if the version can, offsets of open transactions are refused (KIP-447).
    `reader` is the member of the consumer protocol that reads, and its epoch.
    """
    require_stable = require_stable and version >= _STABLE_VERSION
    if version < _SEVERAL_GROUPS_VERSION:
        ((group_id, partitions),) = groups.items()
        topics = _topics(OffsetFetchRequestTopic, partitions)
        return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable)
    entries = [
        OffsetFetchRequestGroup(group_id=group_id, topics=_topics(OffsetFetchRequestTopics, partitions))
        for group_id, partitions in groups.items()
    ]
    if reader is not None:
        for entry in entries:
            entry.member_id, entry.member_epoch = reader.member_id, reader.generation_id
    return OffsetFetchRequest(groups=entries, require_stable=require_stable)


def committed_offsets(response: OffsetFetchResponse) -> dict[TopicPartition, CommittedOffset | None]:
    """Return the offsets of the one group in a response, None where it has none; raise the first error."""
    answer = response.groups[0] if response.groups else response
    check(answer.error_code)
    found: dict[TopicPartition, CommittedOffset | None] = {}
    for partition, committed in _offsets(answer.topics).items():
        if isinstance(committed, KafkaError):
            code = committed.code
            raise KafkaError(code, f"cannot read the committed offset of {partition}: {code.description}")
        found[partition] = committed
    return found


def _topics(cls: type[Topic], partitions: Partitions) -> list[Topic] | None:
    if partitions is None:
        return None
    return [cls(name=topic, partition_indexes=indexes) for topic, indexes in by_topic(partitions).items()]


def _offsets(topics: Sequence[OffsetFetchResponseTopic] | Sequence[OffsetFetchResponseTopics]) -> Offsets:
    found: Offsets = {}
    for topic in topics:
        for entry in topic.partitions:
            committed: CommittedOffset | KafkaError | None = error_of(entry.error_code)
            if committed is None and entry.committed_offset >= 0:
                epoch = entry.committed_leader_epoch
                committed = CommittedOffset(
                    entry.committed_offset, epoch if epoch >= 0 else None, entry.metadata or ""
                )
            found[TopicPartition(topic.name, entry.partition_index)] = committed
    return found


def _error_of_group(offsets: Offsets) -> KafkaError | None:
    """Return the error of a group in version 1, which only its partitions carry (`OffsetFetchResponse`)."""
    for committed in offsets.values():
        if isinstance(committed, KafkaError) and committed.code not in _PARTITION_ERRORS:
            return committed
    return None


def _partition_errors(
    response: OffsetCommitResponse | OffsetDeleteResponse,
) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.name, entry.partition_index): error_of(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }
