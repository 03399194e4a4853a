"""OffsetCommit of one group: the request, and the error of a member that came too late with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.client.admin.group_types import CommittedOffset
    from kcli.client.membership import Generation
    from kcli.client.versions import NodeVersions
    from kcli.protocol.topics import TopicPartition

    Offsets = Mapping[TopicPartition, CommittedOffset]

FIRST_STATIC_VERSION = 7
FIRST_EPOCH_VERSION = 9
_LAST_VERSION_BY_NAME = 9


class CommitFailed(KafkaError):
    """The group went on without this member: what it has read since is read again by another."""


def commit_version(versions: NodeVersions, *, first: int = 1) -> int:
    """Return the version to commit in; version 0 writes to ZooKeeper."""
    return versions.choose(OffsetCommitRequest, min_version=first, max_version=_LAST_VERSION_BY_NAME)


def offset_commit(
    group_id: str, instance_id: str, *, generation: Generation, offsets: Offsets
) -> OffsetCommitRequest:
    """Return the request; a generation of -1 and no member id are those of a consumer outside of groups."""
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id or None,
        topics=_topics(offsets),
    )


def _topics(offsets: Offsets) -> list[OffsetCommitRequestTopic]:
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
