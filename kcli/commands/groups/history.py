"""GroupHistory: what the records of `__consumer_offsets` tell about one group, now and over time. Pure.

Records come in the order of the log. The last one of each key is the group as it is; those before it, as far
as compaction has left them, are its history. Coordinators know more than they write: who has a session, and
which members have rejoined, is nowhere in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from kcli.protocol.internal.coordinator_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentPartitions,
    DecodedRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetPartitions,
)
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition

Value = TypeVar("Value")

TopicNames = Callable[[bytes], str]
"""Gives the name of a topic by its id, or the id as text."""


class CommitEvent(NamedTuple):
    """An offset that was committed, or, if it is None, deleted."""

    at_ms: int
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    metadata: str = ""


class PastMember(NamedTuple):
    """A member of a generation."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] = {}


class GenerationEvent(NamedTuple):
    """A generation, or an epoch of the consumer protocol; `number` None: the group was deleted."""

    at_ms: int
    number: int | None
    assignor: str | None
    leader: str | None
    members: tuple[PastMember, ...]


Event = CommitEvent | GenerationEvent


@dataclass(slots=True)
class ConsumerState:
    """What the records say of a group of the consumer protocol (KIP-848)."""

    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, list[TargetPartitions]] = field(default_factory=dict)
    current: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class GroupHistory:
    """One group. Offsets and members are the latest ones; events are those before, if they are kept."""

    group: str
    keeps_generations: bool = True
    keeps_commits: bool = True
    offsets: dict[TopicPartition, CommitEvent] = field(default_factory=dict)
    classic: GroupMetadataValue | None = None
    consumer: ConsumerState | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        """Tell whether there is such a group, or was deleted."""
        return bool(self.offsets) or self.classic is not None or self.consumer is not None

    @property
    def generations(self) -> list[GenerationEvent]:
        """Return the generations over time."""
        return [event for event in self.events if isinstance(event, GenerationEvent)]

    def apply(self, record: DecodedRecord, timestamp_ms: int) -> None:
        """Take the next record of this group."""
        key, value = record.key, record.value
        match key:
            case OffsetCommitKey():
                self._apply_offset(key, value, timestamp_ms)
            case GroupMetadataKey():
                self.classic = value
                self._add(_classic_generation(value, timestamp_ms))
            case ConsumerGroupMetadataKey() if value is None:
                self.consumer = None
                self._add(GenerationEvent(timestamp_ms, None, None, None, ()))
            case _:
                self._apply_consumer(record, timestamp_ms)

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None, now_ms: int) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self.offsets.pop(partition, None)
            self._add(CommitEvent(now_ms, *partition, None))
            return
        epoch = value.leader_epoch if value.leader_epoch >= 0 else None
        commit = CommitEvent(value.commit_timestamp, *partition, value.offset, epoch, value.metadata)
        self.offsets[partition] = commit
        self._add(commit)

    def _apply_consumer(self, record: DecodedRecord, timestamp_ms: int) -> None:
        key, value = record.key, record.value
        if self.consumer is None:
            if value is None:  # what compaction left of a group that is no more
                return
            self.consumer = ConsumerState()
        state = self.consumer
        match key:
            case ConsumerGroupMetadataKey():
                state.epoch = value.epoch
                self._add(GenerationEvent(timestamp_ms, value.epoch, None, None, past_members(state)))
            case ConsumerGroupTargetAssignmentMetadataKey():
                state.target_epoch = 0 if value is None else value.assignment_epoch
            case ConsumerGroupMemberMetadataKey():
                put(state.members, key.member_id, value)
            case ConsumerGroupTargetAssignmentMemberKey():
                put(state.targets, key.member_id, None if value is None else value.topic_partitions)
            case ConsumerGroupCurrentMemberAssignmentKey():
                put(state.current, key.member_id, value)

    def _add(self, event: Event) -> None:
        is_commit = isinstance(event, CommitEvent)
        if self.keeps_commits if is_commit else self.keeps_generations:
            self.events.append(event)


def put(values: dict[str, Value], name: str, value: Value | None) -> None:
    """Set a value, or remove it if it is None."""
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def group_of(record: DecodedRecord) -> str:
    """Return the group that a record is about."""
    has_group = isinstance(record.key, OffsetCommitKey | GroupMetadataKey)
    group: str = record.key.group if has_group else record.key.group_id
    return group


def past_members(state: ConsumerState) -> tuple[PastMember, ...]:
    """Return the members of a group of the consumer protocol; epochs do not tell what they had."""
    return tuple(
        PastMember(
            member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(member.subscribed_topic_names),
        )
        for member_id, member in state.members.items()
    )


def _classic_generation(value: GroupMetadataValue | None, timestamp_ms: int) -> GenerationEvent:
    if value is None:
        return GenerationEvent(timestamp_ms, None, None, None, ())
    at_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else timestamp_ms
    members = tuple(classic_member(member, value.protocol_type) for member in value.members)
    return GenerationEvent(at_ms, value.generation, value.protocol, value.leader, members)


def classic_member(member: MemberMetadata, protocol_type: str) -> PastMember:
    """Return a member of a classic group; other protocols than the consumers' keep theirs to themselves."""
    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] = {}
    if protocol_type == PROTOCOL_TYPE:
        try:
            topics = decode_subscription(member.subscription).topics
            assignment = decode_assignment(member.assignment).partitions
        except DecodeError:
            topics, assignment = (), {}
    return PastMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        {topic: tuple(sorted(ids)) for topic, ids in assignment.items()},
    )


def named_assignment(
    entries: list[TargetPartitions] | list[CurrentPartitions], names: TopicNames
) -> dict[str, tuple[int, ...]]:
    """Return an assignment by topic ids as one by names."""
    return {names(entry.topic_id): tuple(sorted(entry.partitions)) for entry in entries}
