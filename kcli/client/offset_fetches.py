"""OffsetFetch of one group: the request in any version, and what an answer says of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.admin.group_types import CommittedOffset
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.membership import Generation
    from kcli.protocol.messages.offset_fetch import (
        OffsetFetchResponse,
        OffsetFetchResponseGroup,
        OffsetFetchResponsePartition,
        OffsetFetchResponsePartitions,
    )

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
