"""ConsumerGroup: members, epochs and assignments of a group whose partitions the broker assigns (KIP-848).

    epoch          goes up with every change of what members want or of the topics they read
    target_epoch   the epoch that `targets` were computed for
    member epoch   the last target that the member has reached (`ConsumerMember`)

This is hard state: it changes only in `apply`, record by record. The exceptions are the fields about
staleness. Invariants: a partition has at most one owner; every entry of `static_members` is a member; every
expression in `regexes` is one that a member subscribes with (Kafka class `ConsumerGroup`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.coordinator.consumer.member import ConsumerMember
from kcli.broker.coordinator.consumer.topic_regex import ResolvedRegex
from kcli.broker.coordinator.effects import CoordinatorRecord
from kcli.broker.coordinator.group import committed_at
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)
from kcli.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from kcli.protocol.messages.list_groups import ListedGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.assignors.server_assignors import Partitions
    from kcli.broker.coordinator.consumer.member import Owned
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.coordinator_records import OffsetCommitValue
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
    from kcli.protocol.topics import TopicIdPartition


class ConsumerGroupRecords(NamedTuple):
    """The records of one consumer group (types 3 to 8 and 16); `ConsumerGroup.apply` reads them.

    Unordered values are written sorted, so that equal states are equal bytes.
    """

    group_id: str

    def member(self, member: ConsumerMember) -> CoordinatorRecord:
        """Return the record of a member's subscription and client."""
        classic = None
        if member.classic is not None:
            classic = ClassicMemberMetadata(
                session_timeout_ms=member.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in member.classic.protocols
                ],
            )
        value = ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=classic,
        )
        return CoordinatorRecord(self._member_key(member.member_id), value)

    def epoch(self, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        """Return the record of the group's epoch and the hash of its topics at that epoch."""
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=self.group_id), value)

    def target(self, member_id: str, target: Mapping[bytes, frozenset[int]]) -> CoordinatorRecord:
        value = ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TargetPartitions(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        )
        return CoordinatorRecord(self._target_key(member_id), value)

    def target_epoch(self, epoch: int, wall_ms: int) -> CoordinatorRecord:
        """Return the record of the epoch that the target was computed for, and when."""
        key = ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id)
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        )
        return CoordinatorRecord(key, value)

    def assignment(self, member: ConsumerMember) -> CoordinatorRecord:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_current(member.assigned),
            partitions_pending_revocation=_current(member.revoking),
        )
        return CoordinatorRecord(self._assignment_key(member.member_id), value)

    def regex(self, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.wall_ms
        )
        return CoordinatorRecord(self._regex_key(regex), value)

    def member_tombstones(self, member_id: str) -> list[CoordinatorRecord]:
        """Return the records that delete a member, in the order that Kafka requires when it reads them."""
        return [
            CoordinatorRecord(self._assignment_key(member_id), None),
            CoordinatorRecord(self._target_key(member_id), None),
            CoordinatorRecord(self._member_key(member_id), None),
        ]

    def regex_tombstone(self, regex: str) -> CoordinatorRecord:
        return CoordinatorRecord(self._regex_key(regex), None)

    def topics_tombstone(self) -> CoordinatorRecord:
        """Return the record that deletes the record of topics that Kafka wrote before 4.1."""
        return CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=self.group_id), None)

    def tombstones(self, member_ids: Iterable[str], regexes: Iterable[str]) -> list[CoordinatorRecord]:
        """Return the records that delete the whole group, in the order that Kafka requires."""
        member_ids = sorted(member_ids)
        return [
            *(CoordinatorRecord(self._assignment_key(member_id), None) for member_id in member_ids),
            *(CoordinatorRecord(self._target_key(member_id), None) for member_id in member_ids),
            CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group_id), None),
            *(CoordinatorRecord(self._member_key(member_id), None) for member_id in member_ids),
            *(self.regex_tombstone(regex) for regex in sorted(regexes)),
            self.topics_tombstone(),
            CoordinatorRecord(ConsumerGroupMetadataKey(group_id=self.group_id), None),
        ]

    def _member_key(self, member_id: str) -> ConsumerGroupMemberMetadataKey:
        return ConsumerGroupMemberMetadataKey(group_id=self.group_id, member_id=member_id)

    def _target_key(self, member_id: str) -> ConsumerGroupTargetAssignmentMemberKey:
        return ConsumerGroupTargetAssignmentMemberKey(group_id=self.group_id, member_id=member_id)

    def _assignment_key(self, member_id: str) -> ConsumerGroupCurrentMemberAssignmentKey:
        return ConsumerGroupCurrentMemberAssignmentKey(group_id=self.group_id, member_id=member_id)

    def _regex_key(self, regex: str) -> ConsumerGroupRegularExpressionKey:
        return ConsumerGroupRegularExpressionKey(group_id=self.group_id, regular_expression=regex)


def _current(owned: Owned) -> list[CurrentPartitions]:
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[owned[topic_id][partition] for partition in sorted(owned[topic_id])],
        )
        for topic_id in sorted(owned)
    ]


CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Member types of ConsumerGroupDescribe."""

NO_TARGET_EPOCH = -1
"""The target epoch of a group whose target record was deleted."""

COMMIT_BY_EPOCH_FROM = 9
"""The first version of OffsetCommit in which members of the consumer protocol may commit."""


class ConsumerGroupState(StrEnum):
    """The state of a group as a whole; it follows from its epochs and members."""

    EMPTY = "Empty"
    """No members. Transitions: Assigning, when the first joins; Dead, when the group is deleted."""
    ASSIGNING = "Assigning"
    """The target for the group's epoch is not computed yet. Transitions: Reconciling, Stable; Empty."""
    RECONCILING = "Reconciling"
    """A member has not reached its target. Transitions: Stable; Assigning, with a new epoch; Empty."""
    STABLE = "Stable"
    """Every member has its target. Transitions: Assigning, with a new epoch; Empty."""


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A consumer group. Timestamps are times of day.

    `is_stale`: the topics must be checked; `regexes_are_stale`: the expressions must be matched again.
    `fresh_epoch` is the epoch that the last check led to: if that epoch was never stored, the check does not
    count. `regexes_checked_ms` (monotonic) is when expressions were last matched.
    """

    group_id: str
    epoch: int = 1
    metadata_hash: int = 0
    target_epoch: int = 1
    target_wall_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_topics_record: bool = False
    is_stale: bool = True
    fresh_epoch: int = 0
    regexes_are_stale: bool = True
    regexes_checked_ms: int = 0
    _owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    _subscribed: frozenset[str] | None = None

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that members name, and those that their expressions match."""
        if self._subscribed is None:
            named = (member.topics for member in self.members.values())
            matched = (resolved.topics for resolved in self.regexes.values())
            self._subscribed = frozenset[str]().union(*named, *matched)
        return self._subscribed

    @property
    def needs_check(self) -> bool:
        """True if the group's view of its topics may be out of date."""
        return self.is_stale or self.epoch < self.fresh_epoch

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """True if a member owns a partition, or has not given it up yet."""
        return (topic_id, partition) in self._owners

    def member(self, member_id: str) -> ConsumerMember:
        """Return a member; raise UNKNOWN_MEMBER_ID."""
        found = self.members.get(member_id)
        if found is None:
            why = f"member `{member_id}` is not in group `{self.group_id}`"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members.get(member_id)

    def awaits_release(self, member: ConsumerMember) -> bool:
        """True if another member still owns a partition of the member's target."""
        return any(
            partition not in member.assigned.get(topic_id, ()) and self.is_owned(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def apply(self, key: Any, value: Any) -> None:  # noqa: ANN401 - any of seven record types
        """Apply one of the group's records; the value None deletes what the key names."""
        match key:
            case ConsumerGroupMetadataKey():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey():
                self._apply_member(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.target_epoch = NO_TARGET_EPOCH if value is None else value.assignment_epoch
                self.target_wall_ms = 0 if value is None else value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMemberKey() if value is None:
                self.targets.pop(key.member_id, None)
            case ConsumerGroupTargetAssignmentMemberKey():
                self.targets[key.member_id] = {
                    each.topic_id: frozenset(each.partitions)
                    for each in value.topic_partitions
                    if each.partitions
                }
            case ConsumerGroupCurrentMemberAssignmentKey():
                member = self.members.get(key.member_id) or ConsumerMember(key.member_id)
                if value is not None:
                    self._put(member.assigned_by(value))
                elif key.member_id in self.members:
                    self._put(member.without_assignment())
            case ConsumerGroupRegularExpressionKey() if value is None:
                self.regexes.pop(key.regular_expression, None)
                self._subscribed = None
            case ConsumerGroupRegularExpressionKey():
                resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
                self.regexes[key.regular_expression] = resolved
                self._subscribed = None
            case ConsumerGroupPartitionMetadataKey():
                self.has_topics_record = value is not None

    def _apply_member(self, member_id: str, value: Any) -> None:  # noqa: ANN401 - a record's value
        if value is not None:
            member = self.members.get(member_id) or ConsumerMember(member_id)
            self._put(member.described_by(value))
        elif (member_gone := self.members.pop(member_id, None)) is not None:
            self._release(member_gone)
            self._subscribed = None
            self._forget_instance(member_gone)

    def _put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
            self._forget_instance(old)
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    self._owners[topic_id, partition] = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if old is None or old.topics != member.topics:
            self._subscribed = None

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _release(self, member: ConsumerMember) -> None:
        """Remove the ownership of a member, except for partitions that another member owns by now."""
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    if self._owners.get((topic_id, partition)) == member.member_id:
                        del self._owners[topic_id, partition]

    @property
    def holds_offsets_only(self) -> bool:
        return not self.members

    def check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Return NONE if offsets may be committed, else the error.

        A commit without an epoch needs an empty group, one with an epoch needs a member. `check_partitions`
        decides about a member whose epoch is old.
        """
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and version < COMMIT_BY_EPOCH_FROM:
            return ErrorCode.UNSUPPORTED_VERSION
        return _stale(member) if epoch > member.epoch else ErrorCode.NONE

    def check_partitions(self, request: OffsetCommitRequest, image: MetadataImage) -> ErrorCode:
        """Return NONE if a member with an old epoch may commit: it has owned the partitions since that epoch.

        No other member commits there (KIP-1251).
        """
        epoch = request.generation_id_or_member_epoch
        member = self.members.get(request.member_id)
        if member is None or epoch >= member.epoch:
            return ErrorCode.NONE
        for topic in request.topics:
            found = image.topics.get(topic.name)
            topic_id = topic.topic_id if found is None else found.topic_id
            if not member.has_owned(topic_id, _indexes(topic), since=epoch):
                return _stale(member)
        return ErrorCode.NONE

    def check_txn_commit(self, request: TxnOffsetCommitRequest, image: MetadataImage) -> ErrorCode:
        """Return NONE if the producer of a transaction may commit offsets, else the error.

        The rules are those of other commits, but a commit that names no member is accepted, as in a classic
        group. Producers know the errors of the classic protocol only.
        """
        epoch = request.generation_id
        names_nobody = epoch == -1 and not request.member_id and request.group_instance_id is None
        if names_nobody or (epoch < 0 and not self.members):
            return ErrorCode.NONE
        member = self.members.get(request.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch > member.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        for topic in request.topics if epoch < member.epoch else ():
            found = image.topics.get(topic.name)
            if found is None or not member.has_owned(found.topic_id, _indexes(topic), since=epoch):
                return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Return NONE if the client may read offsets; a member must use its current epoch."""
        if request.member_id is None and request.member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(request.member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if request.member_epoch == member.epoch else _stale(member)

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE: `is_subscribed_to` decides topic by topic."""
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def retention_start(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return the commit time: retention counts only for topics that no member reads."""
        return committed_at

    def tombstones(self) -> list[CoordinatorRecord]:
        return ConsumerGroupRecords(self.group_id).tombstones(self.members, self.regexes)

    def described(self, image: MetadataImage, assignor_name: str) -> DescribedGroup:
        """Return the group as ConsumerGroupDescribe shows it, without deleted topics."""
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor_name=assignor_name,
            members=[self._described(member, image) for _, member in sorted(self.members.items())],
        )

    def _described(self, member: ConsumerMember, image: MetadataImage) -> Member:
        owned = {
            topic_id: {*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())}
            for topic_id in member.assigned.keys() | member.revoking.keys()
        }
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topics),
            subscribed_topic_regex=member.regex,
            assignment=_with_names(owned, image),
            target_assignment=_with_names(self.targets.get(member.member_id, {}), image),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=PROTOCOL_TYPE,
            group_state=self.state.value,
            group_type="consumer",
        )


def _indexes(topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic) -> Iterable[int]:
    return (partition.partition_index for partition in topic.partitions)


def _stale(member: ConsumerMember) -> ErrorCode:
    """Return the error for a wrong member epoch, in the member's protocol."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _with_names(partitions: Mapping[bytes, Iterable[int]], image: MetadataImage) -> Assignment:
    topics = [image.topics_by_id[topic_id] for topic_id in partitions if topic_id in image.topics_by_id]
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(partitions[topic.topic_id])
            )
            for topic in sorted(topics, key=lambda topic: topic.name)
        ]
    )
