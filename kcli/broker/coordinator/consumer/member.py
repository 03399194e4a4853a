"""ConsumerMember: a member of a consumer group, as its records describe it; Reconciliation: its next step.

Three rules decide the next step of a member (KIP-848). With them no partition ever has two owners:

* a partition that is not in the member's target is revoked, and until the member reports that it gave the
  partition up, the member does not go to the next epoch: UNREVOKED_PARTITIONS;
* a partition of the target is assigned once no member owns it;
* while a partition of the target is not free, the member has the new epoch but waits: UNRELEASED_PARTITIONS.

Kafka classes `ConsumerGroupMember` and `CurrentAssignmentBuilder`, as of 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kcli.protocol.internal.coordinator_records import (
        ConsumerGroupCurrentMemberAssignmentValue,
        ConsumerGroupMemberMetadataValue,
        CurrentPartitions,
    )
    from kcli.protocol.topics import TopicIdPartition


JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

Owned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which the member got it (KIP-1251)."""

NOTHING: Owned = {}


class MemberState(IntEnum):
    """The state of a member on the way to its target; the numbers are stored."""

    STABLE = 0
    """It has the target of its epoch.

    Actions: none. Transitions: any, when there is a newer target, or when its subscription shrinks.
    """
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions.

    Actions: reports its partitions with heartbeats; is removed if that takes longer than its rebalance
    timeout. Transitions: any, once it has given them up.
    """
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not given up yet.

    Actions: gets each of them as soon as it is free. Transitions: any, when one is free.
    """
    UNKNOWN = 127
    """The stored state is from a newer version: the member must start again.

    Actions: is fenced unless it owns nothing. Transitions: any, then.
    """

    @classmethod
    def of(cls, number: int) -> MemberState:
        return _STATES.get(number, cls.UNKNOWN)


_STATES = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True)
class ClassicOffer:
    """The assignors of the last JoinGroup, each with its metadata, in the order of preference."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol(self) -> str:
        """The protocol that the member is told the group uses: its first one."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """The subscription for that protocol."""
        return self.protocols[0][1]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member; `regex` is empty if it subscribes by names alone, timeouts are in milliseconds.

    epoch            the last target epoch that the member has reached, unless `state` says otherwise;
                     -1: it left, -2: a static member that left for a while
    previous_epoch   the epoch before; a member that missed the last response may still send it
    assigned         the partitions that the member owns
    revoking         the partitions that it must give up before it goes on
    classic          what it offered with JoinGroup, if it speaks the classic protocol
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    classic: ClassicOffer | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def has_owned(self, topic_id: bytes, partitions: Iterable[int], *, since: int) -> bool:
        """True if the member owns all these partitions and got each in epoch `since` or before."""
        given = {**self.revoking.get(topic_id, {}), **self.assigned.get(topic_id, {})}
        return all(partition in given and given[partition] <= since for partition in partitions)

    def advanced_to(
        self, epoch: int, state: MemberState, *, assigned: Owned, revoking: Owned
    ) -> ConsumerMember:
        """Return the member after one step; the current epoch becomes the previous one."""
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )

    def with_static_leave(self) -> ConsumerMember:
        """Return a static member that left for a while: it keeps its partitions for its successor."""
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in self.assigned.items()}
        return replace(self, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking=NOTHING)

    def with_id(self, member_id: str) -> ConsumerMember:
        """Return the member with a new id and all its partitions, at epoch 0."""
        return replace(self, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)

    def without_assignment(self) -> ConsumerMember:
        """Return the member after its assignment record was deleted."""
        return replace(
            self, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING, revoking=NOTHING
        )

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicOffer(
                classic.session_timeout_ms,
                tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols),
            ),
        )

    def assigned_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )


def _owned(entries: Iterable[CurrentPartitions], member_epoch: int) -> Owned:
    """Return partitions with their epochs; records from before Kafka 4.3 get that of the member."""
    owned: dict[bytes, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = [max(member_epoch, 0)] * len(entry.partitions)
        owned[entry.topic_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The inputs of the next step of a member.

    `target` is that of `target_epoch`. `owned` are the partitions that the member says it owns, None if it
    does not say. `subscribed` are the ids of the topics it subscribes to now: it gets and keeps no partition
    of another topic, even if the target is older than the subscription. `is_owned(topic_id, partition)` is
    true if a member owns the partition.
    """

    target_epoch: int
    target: Mapping[bytes, frozenset[int]]
    owned: Mapping[bytes, Collection[int]] | None
    subscribed: Collection[bytes]
    is_owned: Callable[[bytes, int], bool]

    def step(self, member: ConsumerMember, *, subscription_changed: bool = False) -> ConsumerMember:
        """Return the member after its next step, or the same member if it cannot go on yet.

        Raises FENCED_MEMBER_EPOCH for a member that must start again.
        """
        match member.state:
            case MemberState.STABLE if member.epoch == self.target_epoch:
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._owns_any(member.revoking):
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNKNOWN if self.owned is None or any(self.owned.values()):
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the member is in an unknown state; it must give up all its partitions and join again",
                )
        return self._towards_target(member)

    def _towards_target(self, member: ConsumerMember) -> ConsumerMember:
        keep: dict[bytes, dict[int, int]] = {}
        revoke: dict[bytes, dict[int, int]] = {}
        give: list[TopicIdPartition] = []
        waits = False
        for topic_id in self.target.keys() | member.assigned.keys():
            wanted = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed else frozenset()
            has = member.assigned.get(topic_id, {})
            for partition, epoch in has.items():
                (keep if partition in wanted else revoke).setdefault(topic_id, {})[partition] = epoch
            for partition in wanted - has.keys():
                if self._is_free(member, topic_id, partition):
                    give.append((topic_id, partition))
                else:
                    waits = True
        if revoke and self._owns_any(revoke):
            epoch = self.target_epoch if member.state is MemberState.UNKNOWN else member.epoch
            state = MemberState.UNREVOKED_PARTITIONS
            return member.advanced_to(epoch, state, assigned=keep, revoking=revoke)
        for topic_id, partition in give:
            keep.setdefault(topic_id, {})[partition] = self.target_epoch
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return member.advanced_to(self.target_epoch, state, assigned=keep, revoking=NOTHING)

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke the topics that the member no longer subscribes to, before a target without them exists."""
        dropped = [topic_id for topic_id in member.assigned if topic_id not in self.subscribed]
        if not dropped:
            return member
        keep = {topic_id: has for topic_id, has in member.assigned.items() if topic_id in self.subscribed}
        revoke = dict(member.revoking)
        for topic_id in dropped:
            revoke[topic_id] = {**revoke.get(topic_id, {}), **member.assigned[topic_id]}
        if self._owns_any(revoke):
            state = MemberState.UNREVOKED_PARTITIONS
            return member.advanced_to(member.epoch, state, assigned=keep, revoking=revoke)
        return member.advanced_to(member.epoch, member.state, assigned=keep, revoking=member.revoking)

    def _is_free(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        """True if no member owns a partition, or only this member, which has just given it up."""
        return not self.is_owned(topic_id, partition) or partition in member.revoking.get(topic_id, ())

    def _owns_any(self, partitions: Owned) -> bool:
        """True if the member owns any of these partitions, or does not say."""
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id in self.owned
            for partition in self.owned[topic_id]
        )
