"""Admin calls about the offsets that groups have committed: read, set, delete.

Topics are named, not numbered: versions from 10 on know topics by id alone, which says nothing of a topic
that was deleted since.

OffsetCommit of one group: the request, and the error of a member that came too late with it.

OffsetFetch of one group: the request in any version, and what an answer says of each partition.
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
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kcli.client.client import Client
    from kcli.client.network.connection import NodeVersions
    from kcli.client.network.metadata import Node
    from kcli.protocol.messages.offset_fetch import (
        OffsetFetchResponseGroup,
        OffsetFetchResponsePartition,
        OffsetFetchResponsePartitions,
    )


FIRST_STATIC_VERSION = 7
FIRST_EPOCH_VERSION = 9
_LAST_VERSION_BY_NAME = 9


class CommitFailed(KafkaError):
    """The group went on without this member: what it has read since is read again by another."""


def commit_version(versions: NodeVersions, *, first: int = 1) -> int:
    """Return the version to commit in; version 0 writes to ZooKeeper."""
    return versions.choose(OffsetCommitRequest, min_version=first, max_version=_LAST_VERSION_BY_NAME)


def offset_commit(
    group_id: str, instance_id: str, *, generation: Generation, offsets: OffsetsToCommit
) -> OffsetCommitRequest:
    """Return the request; a generation of -1 and no member id are those of a consumer outside of groups."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id or None,
        topics=_commit_topics(offsets),
    )


def _commit_topics(offsets: OffsetsToCommit) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, index), committed in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return [OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()]


def expelled(code: ErrorCode) -> CommitFailed:
    """Return the error of a member that the group has gone on without."""
    return CommitFailed(
        code,
        f"cannot commit: {code.description}",
        hint="poll more often, or raise `max.poll.interval.ms` or `session.timeout.ms`",
    )


if TYPE_CHECKING:
    OffsetsToCommit = Mapping[TopicPartition, CommittedOffset]


Topic = TypeVar("Topic", OffsetFetchRequestTopic, OffsetFetchRequestTopics)

_PARTITION_ERRORS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_OLDEST_COMMIT_VERSION = 2
_LAST_VERSION_WITH_NAMES = 9
_ALL_TOPICS_VERSION = 2
_STABLE_VERSION = 7
_SEVERAL_GROUPS_VERSION = 8


async def list_group_offsets(
    client: Client,
    groups: Mapping[str, Partitions],
    *,
    require_stable: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, Offsets | KafkaError]:
    """Return what each group has committed, in all partitions (None) or in some.

    A partition that was asked for and has no offset is None, and a group that does not exist has none at all.
    `require_stable` answers `UNSTABLE_OFFSET_COMMIT` where a transaction has one that is not settled; brokers
    before 2.5 cannot tell.
    """

    async def ask(coordinator: Node, group_ids: list[str]) -> dict[str, Offsets | KafkaError]:
        try:
            return await _fetch_together(
                client, coordinator, groups=groups, group_ids=group_ids, require_stable=require_stable
            )
        except UnsupportedVersion:
            return {
                group_id: await _fetch_alone(
                    client,
                    coordinator,
                    group_id=group_id,
                    partitions=groups[group_id],
                    require_stable=require_stable,
                )
                for group_id in group_ids
            }

    return await ask_coordinators(client, groups, ask=ask, timeout_ms=timeout_ms)


async def alter_group_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Commit offsets in the name of a group; one that does not exist is made.

    A group that has members refuses each with `UNKNOWN_MEMBER_ID`.
    """

    async def attempt(
        pending: list[TopicPartition], remaining_ms: int
    ) -> dict[TopicPartition, KafkaError | None]:
        request = offset_commit(
            group_id, "", generation=Generation(), offsets={each: offsets[each] for each in pending}
        )

        async def ask(
            coordinator: Node, group_ids: list[str]
        ) -> dict[str, dict[TopicPartition, KafkaError | None] | KafkaError]:
            response: OffsetCommitResponse = await request_once(
                client,
                coordinator,
                request_class=OffsetCommitRequest,
                build=lambda version: request,
                min_version=_OLDEST_COMMIT_VERSION,
                max_version=_LAST_VERSION_WITH_NAMES,
            )
            return {group_id: _partition_errors(response)}

        answers = await ask_coordinators_once(client, [group_id], ask=ask, remaining_ms=remaining_ms)
        answer = answers[group_id]
        if isinstance(answer, KafkaError):
            refused: dict[TopicPartition, KafkaError | None] = dict.fromkeys(pending, answer)
            return refused
        for result in answer.values():
            forget_if_moved(client, group_id, result)
        return answer

    return await retry_items(client, offsets, timeout_ms=timeout_ms, attempt=attempt)


async def delete_group_offsets(
    client: Client,
    group_id: str,
    partitions: Iterable[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Have a group forget its offsets of some partitions; raise if there is no such group.

    A topic that its members read is `GROUP_SUBSCRIBED_TO_TOPIC`.
    """
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


# --- requests and answers --------------------------------------------------------------------------------


async def _fetch_together(
    client: Client,
    coordinator: Node,
    *,
    groups: Mapping[str, Partitions],
    group_ids: list[str],
    require_stable: bool,
) -> dict[str, Offsets | KafkaError]:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id, topics=_topics(OffsetFetchRequestTopics, groups[group_id])
            )
            for group_id in group_ids
        ],
        require_stable=require_stable,
    )
    response: OffsetFetchResponse = await request_once(
        client,
        coordinator,
        request_class=OffsetFetchRequest,
        build=lambda version: request,
        min_version=_SEVERAL_GROUPS_VERSION,
        max_version=_LAST_VERSION_WITH_NAMES,
    )
    return {group.group_id: error_of(group.error_code) or _offsets(group.topics) for group in response.groups}


async def _fetch_alone(
    client: Client, coordinator: Node, *, group_id: str, partitions: Partitions, require_stable: bool
) -> Offsets | KafkaError:
    response: OffsetFetchResponse = await request_once(
        client,
        coordinator,
        request_class=OffsetFetchRequest,
        build=lambda version: OffsetFetchRequest(
            group_id=group_id,
            topics=_topics(OffsetFetchRequestTopic, partitions),
            require_stable=require_stable and version >= _STABLE_VERSION,
        ),
        min_version=1 if partitions is not None else _ALL_TOPICS_VERSION,
        max_version=_SEVERAL_GROUPS_VERSION - 1,
    )
    offsets = _offsets(response.topics)
    return error_of(response.error_code) or _error_of_group(offsets) or offsets


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
    """Version 1 has no field for a group's error: each partition says it (`OffsetFetchResponse`)."""
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


if TYPE_CHECKING:
    Partitions: TypeAlias = Collection[TopicPartition] | None

    Offsets: TypeAlias = dict[TopicPartition, CommittedOffset | KafkaError | None]


MIN_VERSION = 1
"""Version 0 reads offsets from ZooKeeper."""
MAX_VERSION = 9
"""Later ones name topics by id alone."""

FIRST_MEMBER_VERSION = 9
"""The first one that says which member reads."""

_FIRST_STABLE_VERSION = 7
_FIRST_GROUPS_VERSION = 8


def offset_fetch(
    group_id: str,
    partitions: Iterable[TopicPartition],
    version: int,
    *,
    reader: Generation | None = None,
) -> OffsetFetchRequest:
    """Return the request; where the version can, it waits for offsets of open transactions (KIP-447).

    `reader` is the member of the consumer protocol that reads, and its epoch.
    """
    topics = by_topic(partitions)
    require_stable = version >= _FIRST_STABLE_VERSION
    if version < _FIRST_GROUPS_VERSION:
        return OffsetFetchRequest(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ],
            require_stable=require_stable,
        )
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=[
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
    )
    if reader is not None:
        group.member_id, group.member_epoch = reader.member_id, reader.generation_id
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def committed_offsets(response: OffsetFetchResponse) -> dict[TopicPartition, CommittedOffset | None]:
    """Return the offset of each partition, None where there is none; raise `KafkaError` for any error."""
    answer: OffsetFetchResponse | OffsetFetchResponseGroup = response
    if response.groups:
        answer = response.groups[0]
    if answer.error_code:
        raise KafkaError(ErrorCode.of(answer.error_code))
    return {
        TopicPartition(topic.name, row.partition_index): _committed(topic.name, row)
        for topic in answer.topics
        for row in topic.partitions
    }


def _committed(
    topic: str, row: OffsetFetchResponsePartition | OffsetFetchResponsePartitions
) -> CommittedOffset | None:
    if row.error_code:
        code = ErrorCode.of(row.error_code)
        partition = TopicPartition(topic, row.partition_index)
        raise KafkaError(code, f"cannot read the committed offset of {partition}: {code.description}")
    if row.committed_offset < 0:
        return None
    epoch = row.committed_leader_epoch
    return CommittedOffset(row.committed_offset, epoch if epoch >= 0 else None, row.metadata or "")
