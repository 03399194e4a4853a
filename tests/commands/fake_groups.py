"""FakeGroups: the fake cluster with consumer groups, and their admin calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kcli.client import admin
from kcli.client.admin import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupMember,
    MemberToRemove,
    Node,
    TopicPartition,
)
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from tests.commands.fake_cluster import FakeCluster, unknown

COORDINATOR = Node(1, "broker-1", 9092)


@dataclass
class FakeGroup:
    """A group as its coordinator describes it, and its offsets."""

    description: GroupDescription
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)


def member(client: str, *partitions: str, **more: object) -> GroupMember:
    """A member with partitions like `orders-0`, subscribed to their topics."""
    assignment = partitions_of(*partitions)
    topics = tuple(sorted({topic for topic, _ in assignment}))
    found = GroupMember(f"{client}-id", None, client, "/10.0.0.1", assignment, topics)
    return found._replace(**more)  # type: ignore[arg-type]


def partitions_of(*names: str) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names)
    )


class FakeGroups(FakeCluster):
    """Groups by name, and the brokers that do not list theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, FakeGroup] = {}
        self.silent: dict[int, KcliError] = {}
        self.reasons: list[str] = []
        self.timestamps: dict[tuple[str, int], list[int]] = {}

    def add_group(
        self, name: str, *members: GroupMember, state: str = "", type: str = admin.CLASSIC, **offsets: int
    ) -> FakeGroup:
        """Add a group; `orders_0=5` commits an offset."""
        is_modern = type == admin.CONSUMER
        description = GroupDescription(
            name,
            type,
            "consumer" if members else "",
            state or ("Stable" if members else "Empty"),
            ("uniform" if is_modern else "range") if members else "",
            COORDINATOR,
            members,
            7 if is_modern else None,
            7 if is_modern else None,
        )
        group = FakeGroup(description)
        for partition, offset in offsets.items():
            (target,) = partitions_of(partition.replace("_", "-"))
            group.offsets[target] = CommittedOffset(offset, 0)
        self.groups[name] = group
        return group

    async def describe_topics(
        self, client: object, names: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, admin.TopicDescription | KafkaError]:
        return {name: self._describe(name) if name in self.topics else unknown() for name in names}

    async def metadata(self, topics: Collection[str], *, timeout_ms: int | None = None) -> FakeGroups:
        """Replace `Client.metadata`."""
        return self

    def leader_of(self, partition: TopicPartition) -> int | None:
        topic = self.topics.get(partition.topic)
        if topic is None or partition.partition in topic.leaderless:
            return None
        return topic.assignments[partition.partition][0]

    async def list_offsets(
        self,
        client: object,
        timestamps: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, admin.OffsetAndTimestamp | KafkaError]:
        results: dict[TopicPartition, admin.OffsetAndTimestamp | KafkaError] = {}
        for partition, wanted in timestamps.items():
            if partition.topic not in self.topics:
                results[partition] = unknown()
                continue
            start, end = self.topics[partition.topic].offsets.get(partition.partition, (0, 0))
            if wanted < 0:
                results[partition] = admin.OffsetAndTimestamp(
                    {admin.LATEST: end, admin.EARLIEST: start}[wanted]
                )
                continue
            later = [n for n, at in enumerate(self.timestamps.get(partition, ())) if at >= wanted]
            results[partition] = admin.OffsetAndTimestamp(start + later[0] if later else -1)
        return results

    async def first_timestamps(
        self,
        client: object,
        positions: Mapping[tuple[str, int], int],
        ends: Mapping[tuple[str, int], int],
        timeout_ms: int | None = None,
    ) -> dict[tuple[str, int], int | None]:
        """Replace `kcli.commands.groups.records.first_timestamps`."""
        found: dict[tuple[str, int], int | None] = {}
        for (topic, partition), position in positions.items():
            start, _ = self.topics[topic].offsets[partition]
            found[topic, partition] = self.timestamps[topic, partition][position - start]
        return found

    async def list_groups(
        self,
        client: object,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        timeout_ms: int | None = None,
    ) -> GroupListings:
        listings = [
            GroupListing(name, group.protocol_type, group.state, group.type)
            for name, group in ((name, fake.description) for name, fake in self.groups.items())
            if (not states or group.state in states) and (not types or group.type in types)
        ]
        return GroupListings(tuple(listings), self.silent)

    async def describe_groups(
        self, client: object, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, GroupDescription | KafkaError]:
        return {
            name: self.groups[name].description
            if name in self.groups
            else KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")
            for name in group_ids
        }

    async def delete_groups(
        self, client: object, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        return {name: self._delete(name) for name in group_ids}

    def _delete(self, name: str) -> KafkaError | None:
        if name not in self.groups:
            return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.groups[name].description.members:
            return KafkaError(ErrorCode.NON_EMPTY_GROUP)
        del self.groups[name]
        return None

    async def remove_members(
        self,
        client: object,
        group_id: str,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
        timeout_ms: int | None = None,
    ) -> dict[MemberToRemove, KafkaError | None]:
        if group_id not in self.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        self.reasons.append(reason)
        group = self.groups[group_id]
        there = {
            MemberToRemove("" if each.instance_id else each.member_id, each.instance_id): each
            for each in group.description.members
        }
        gone = [there[each] for each in (there if members is None else members) if each in there]
        left = tuple(each for each in group.description.members if each not in gone)
        group.description = group.description._replace(members=left, state="Stable" if left else "Empty")
        return {
            each: None if each in there else KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            for each in (there if members is None else members)
        }

    async def list_group_offsets(
        self,
        client: object,
        groups: Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, dict[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError]:
        return {name: dict(self.groups[name].offsets) if name in self.groups else {} for name in groups}

    async def alter_group_offsets(
        self,
        client: object,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        if group_id not in self.groups:
            self.add_group(group_id)
        group = self.groups[group_id]
        if group.description.members:
            return dict.fromkeys(offsets, KafkaError(ErrorCode.UNKNOWN_MEMBER_ID))
        group.offsets.update(offsets)
        return dict.fromkeys(offsets, None)

    async def delete_group_offsets(
        self,
        client: object,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        if group_id not in self.groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self.groups[group_id]
        read = {topic for each in group.description.members for topic in each.subscribed_topics}
        results: dict[TopicPartition, KafkaError | None] = {}
        for partition in partitions:
            if partition.topic in read:
                results[partition] = KafkaError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            elif partition.partition >= len(self.topics[partition.topic].assignments):
                results[partition] = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                group.offsets.pop(partition, None)
                results[partition] = None
        return results
