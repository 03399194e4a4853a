"""GroupHistory: what the records of `__consumer_offsets` tell about a group, now and over time. Pure.

Records come in the order of the log. The last one of each key is the current state; the earlier ones that
compaction has left are the history. A coordinator does not write which members have sessions or have
rejoined.
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
"""Returns the name of a topic by its id, or the id as text."""


class CommitEvent(NamedTuple):
    """A committed offset; None: the offset was deleted."""

    at_ms: int
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    metadata: str = ""


class PastMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] = ()
    assignment: Mapping[str, tuple[int, ...]] = {}
    session_timeout_ms: int | None = None

    @classmethod
    def of_classic(cls, member: MemberMetadata, protocol_type: str) -> PastMember:
        """Return a member of a classic group. Only the consumers' protocol tells topics and partitions."""
        topics: tuple[str, ...] = ()
        assignment: Mapping[str, tuple[int, ...]] = {}
        if protocol_type == PROTOCOL_TYPE:
            try:
                topics = decode_subscription(member.subscription).topics
                assignment = decode_assignment(member.assignment).partitions
            except DecodeError:
                topics, assignment = (), {}
        return cls(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            topics,
            {topic: tuple(sorted(ids)) for topic, ids in assignment.items()},
            member.session_timeout,
        )


class GenerationEvent(NamedTuple):
    """A generation or an epoch (KIP-848); `number` None: the group was deleted."""

    at_ms: int
    number: int | None
    assignor: str | None
    leader: str | None
    members: tuple[PastMember, ...]

    @classmethod
    def of_classic(cls, value: GroupMetadataValue | None, timestamp_ms: int) -> GenerationEvent:
        if value is None:
            return cls(timestamp_ms, None, None, None, ())
        at_ms = value.current_state_timestamp if value.current_state_timestamp >= 0 else timestamp_ms
        members = tuple(PastMember.of_classic(member, value.protocol_type) for member in value.members)
        return cls(at_ms, value.generation, value.protocol, value.leader, members)


Event = CommitEvent | GenerationEvent


@dataclass(slots=True)
class ConsumerState:
    """The state of a group of the consumer protocol (KIP-848) in its records."""

    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, Any] = field(default_factory=dict)
    targets: dict[str, list[TargetPartitions]] = field(default_factory=dict)
    current: dict[str, Any] = field(default_factory=dict)

    def past_members(self) -> tuple[PastMember, ...]:
        """Return the members without assignments, which an epoch's record does not tell."""
        return tuple(
            PastMember(
                member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(member.subscribed_topic_names),
            )
            for member_id, member in self.members.items()
        )


@dataclass(slots=True)
class GroupHistory:
    """A group: its latest offsets and members, and the events before, if they are kept."""

    group: str
    keeps_generations: bool = True
    keeps_commits: bool = True
    commits_since_ms: int = 0
    offsets: dict[TopicPartition, CommitEvent] = field(default_factory=dict)
    classic: GroupMetadataValue | None = None
    consumer: ConsumerState | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        return bool(self.offsets) or self.classic is not None or self.consumer is not None

    @property
    def generations(self) -> list[GenerationEvent]:
        return [event for event in self.events if isinstance(event, GenerationEvent)]

    @property
    def commits(self) -> list[CommitEvent]:
        return [event for event in self.events if isinstance(event, CommitEvent)]

    def apply(self, record: DecodedRecord, timestamp_ms: int) -> None:
        key, value = record.key, record.value
        match key:
            case OffsetCommitKey():
                self._apply_offset(key, value, timestamp_ms)
            case GroupMetadataKey():
                self.classic = value
                self._add(GenerationEvent.of_classic(value, timestamp_ms))
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
            if value is None:  # a remnant of a deleted group
                return
            self.consumer = ConsumerState()
        state = self.consumer
        match key:
            case ConsumerGroupMetadataKey():
                state.epoch = value.epoch
                self._add(GenerationEvent(timestamp_ms, value.epoch, None, None, state.past_members()))
            case ConsumerGroupTargetAssignmentMetadataKey():
                state.target_epoch = 0 if value is None else value.assignment_epoch
            case ConsumerGroupMemberMetadataKey():
                put(state.members, key.member_id, value)
            case ConsumerGroupTargetAssignmentMemberKey():
                put(state.targets, key.member_id, None if value is None else value.topic_partitions)
            case ConsumerGroupCurrentMemberAssignmentKey():
                put(state.current, key.member_id, value)

    def _add(self, event: Event) -> None:
        if isinstance(event, CommitEvent):
            is_kept = self.keeps_commits and event.at_ms >= self.commits_since_ms
        else:
            is_kept = self.keeps_generations
        if is_kept:
            self.events.append(event)


def put(values: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def group_of(record: DecodedRecord) -> str:
    has_group = isinstance(record.key, OffsetCommitKey | GroupMetadataKey)
    group: str = record.key.group if has_group else record.key.group_id
    return group


def named_assignment(
    entries: list[TargetPartitions] | list[CurrentPartitions], names: TopicNames
) -> dict[str, tuple[int, ...]]:
    """Return an assignment with the names of topics instead of their ids."""
    return {names(entry.topic_id): tuple(sorted(entry.partitions)) for entry in entries}
