"""Requests of the group APIs, with defaults for what a test does not care about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GROUP = "group"


def find(*keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    """For version 4 and later; `key` is the first of them for those before."""
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


def find_one(key: str = GROUP, key_type: int = 0) -> FindCoordinatorRequest:
    """For versions up to 3."""
    return FindCoordinatorRequest(key=key, key_type=key_type)


def join(group: str = GROUP, member: str = "", **changes: Any) -> JoinGroupRequest:
    """Join with the `range` assignor; `protocols` gives names and metadata instead."""
    protocols: Mapping[str, bytes] = changes.pop("protocols", {"range": b"metadata"})
    fields: dict[str, Any] = {
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
    }
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        **(fields | changes),
    )


def sync(
    group: str = GROUP,
    member: str = "",
    generation: int = 1,
    assignments: Mapping[str, bytes] | None = None,
    **changes: Any,
) -> SyncGroupRequest:
    """Sync, as the leader if there are assignments."""
    return SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=data)
            for name, data in (assignments or {}).items()
        ],
        **changes,
    )


def heartbeat(
    group: str = GROUP, member: str = "", generation: int = 1, instance: str | None = None
) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, member_id=member, generation_id=generation, group_instance_id=instance
    )


def leave(group: str = GROUP, *members: str | tuple[str, str]) -> LeaveGroupRequest:
    """For version 3 and later; a pair is a member id and an instance id."""
    identities = [(each, None) if isinstance(each, str) else each for each in members]
    return LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=name, group_instance_id=instance) for name, instance in identities],
    )


def leave_alone(group: str, member: str) -> LeaveGroupRequest:
    """For versions up to 2."""
    return LeaveGroupRequest(group_id=group, member_id=member)


def commit(
    offsets: Mapping[tuple[str | bytes, int], int],
    group: str = GROUP,
    member: str = "",
    generation: int = -1,
    metadata: str | None = "",
    **changes: Any,
) -> OffsetCommitRequest:
    """Commit offsets by topic, as a name or an id, and partition."""
    topics: dict[str | bytes, OffsetCommitRequestTopic] = {}
    for (topic, index), offset in offsets.items():
        by = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
        row = topics.setdefault(topic, OffsetCommitRequestTopic(partitions=[], **by))
        row.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=list(topics.values()),
        **changes,
    )


def txn_commit(
    offsets: Mapping[tuple[str, int], int],
    group: str = GROUP,
    metadata: str | None = "",
    **changes: Any,
) -> TxnOffsetCommitRequest:
    """Commit offsets by topic and partition in the transaction of producer 7."""
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, index), offset in offsets.items():
        row = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
        row.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    fields: dict[str, Any] = {"transactional_id": "tid", "producer_id": 7, "producer_epoch": 0}
    return TxnOffsetCommitRequest(group_id=group, topics=list(topics.values()), **(fields | changes))


def committed(response: Any) -> dict[tuple[str | bytes, int], int]:
    """The errors of a response to OffsetCommit or TxnOffsetCommit."""
    return {
        (topic.name or topic.topic_id, row.partition_index): row.error_code
        for topic in response.topics
        for row in topic.partitions
    }


def fetch_one(
    partitions: Mapping[str, Sequence[int]] | None, group: str = GROUP, **changes: Any
) -> OffsetFetchRequest:
    """For versions up to 7; None asks for all."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes))
            for name, indexes in partitions.items()
        ]
    return OffsetFetchRequest(group_id=group, topics=topics, **changes)


def fetch(**groups: Mapping[str | bytes, Sequence[int]] | None) -> OffsetFetchRequest:
    """For version 8 and later: what of each group."""
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=None
                if partitions is None
                else [
                    OffsetFetchRequestTopics(
                        partition_indexes=list(indexes),
                        **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}),
                    )
                    for topic, indexes in partitions.items()
                ],
            )
            for group, partitions in groups.items()
        ]
    )


def fetched(topics: Any) -> dict[tuple[str | bytes, int], tuple[int, int]]:
    """The offsets and errors of a group in an OffsetFetch response."""
    return {
        (topic.name or topic.topic_id, row.partition_index): (row.committed_offset, row.error_code)
        for topic in topics
        for row in topic.partitions
    }


def list_groups(states: Sequence[str] = (), types: Sequence[str] = ()) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


def describe(*groups: str, operations: bool = False) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations)


def delete(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(groups))


def delete_offsets(partitions: Mapping[str, Sequence[int]], group: str = GROUP) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in partitions.items()
        ],
    )


def codes(value: object) -> set[int]:
    """All error codes anywhere in a response."""
    if isinstance(value, list):
        return set().union(*map(codes, value)) if value else set()
    found = set()
    for name in getattr(type(value), "__slots__", ()):
        field = getattr(value, name)
        found |= {field} if name == "error_code" else codes(field)
    return found
