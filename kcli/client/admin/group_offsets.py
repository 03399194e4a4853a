"""Admin calls about the offsets that groups have committed: read, set, delete.

Topics are named, not numbered: versions from 10 on know topics by id alone, which says nothing of a topic
that was deleted since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kcli.client.admin.coordinator_calls import (
    ask_about_group,
    ask_coordinators,
    ask_coordinators_once,
    forget_if_moved,
    request_once,
)
from kcli.client.admin.group_types import CommittedOffset
from kcli.client.admin.retry import check, error_of, omitted, retry_items
from kcli.client.membership import Generation
from kcli.client.offset_commits import offset_commit
from kcli.client.versions import UnsupportedVersion
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
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
    from kcli.client.metadata import Node

    Partitions: TypeAlias = Collection[TopicPartition] | None
    Offsets: TypeAlias = dict[TopicPartition, CommittedOffset | KafkaError | None]

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
