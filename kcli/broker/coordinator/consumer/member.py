"""ConsumerMember: one member of a consumer group (KIP-848), as its records describe it.

    epoch            how far the member came: it has all of the target of that group epoch, unless `state`
                     says otherwise; -1 and -2 are those of members that left, the latter to come back
    previous_epoch   the one before: a member that missed the last answer may still say it
    assigned         the partitions that are the member's now
    revoking         those it still has and must give up before it goes on

A member may speak the classic protocol, while its group is on the way from one to the other: then `classic`
says what it offered when it joined.

Reconciliation: one step of a member from what it has towards what it is to get (KIP-848).

Three rules decide it, and between them no partition ever has two owners:

* a partition that is not in the member's target is taken away, and until the member says that it gave it up
  the member does not go on to the next epoch: UNREVOKED_PARTITIONS;
* a partition of the target is given once nobody has it;
* as long as one of them is not free the member has the new epoch but waits: UNRELEASED_PARTITIONS.

Kafka class `CurrentAssignmentBuilder`, as of 4.3.
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
    """Where a member stands on the way to its target; the numbers are stored."""

    STABLE = 0
    """It has its target, as far as its epoch goes.

    Actions: none. Transitions: any, when there is a newer target, or when its subscription shrinks.
    """
    UNREVOKED_PARTITIONS = 1
    """It has partitions that it must give up.

    Actions: says so with each heartbeat that names what it owns; is removed if that takes longer than its
    rebalance timeout. Transitions: any, once it owns none of them any more.
    """
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not given up yet.

    Actions: gets each of them as soon as it is free. Transitions: any, whenever one is.
    """
    UNKNOWN = 127
    """A newer version wrote a state that is not known here: the member must start again.

    Actions: is fenced unless it owns nothing. Transitions: any, then.
    """

    @classmethod
    def of(cls, number: int) -> MemberState:
        """Return the state for a stored number."""
        return _STATES.get(number, cls.UNKNOWN)


_STATES = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True)
class ClassicOffer:
    """What a member offered with its last JoinGroup: its assignors, each with its metadata, in its order."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol(self) -> str:
        """The protocol it is told that the group uses: the one it likes best, whatever the others do."""
        return self.protocols[0][0]

    @property
    def metadata(self) -> bytes:
        """The subscription it handed in for that protocol."""
        return self.protocols[0][1]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member; `regex` is empty where it subscribes by names alone, timeouts are in milliseconds."""

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
        """True if nothing is left to do for the target of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def has_had(self, topic_id: bytes, partition: int, *, since: int) -> bool:
        """True if the member has a partition and got it in this epoch or before."""
        given = self.assigned.get(topic_id, {}).get(partition)
        if given is None:
            given = self.revoking.get(topic_id, {}).get(partition)
        return given is not None and given <= since

    def advanced_to(
        self, epoch: int, state: MemberState, *, assigned: Owned, revoking: Owned
    ) -> ConsumerMember:
        """Return the member after one step; an epoch that stays is now the previous one as well."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )

    def said_to_leave(self) -> ConsumerMember:
        """Return a static member that will be back: it keeps what it has, for whoever comes in its place."""
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in self.assigned.items()}
        return replace(self, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking=NOTHING)

    def reborn(self, member_id: str) -> ConsumerMember:
        """Return the member under another id, as it begins: with all that it had, and no epoch yet."""
        return replace(self, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)

    def gone(self) -> ConsumerMember:
        """Return a member whose assignment was deleted, and that will be deleted itself."""
        return replace(
            self, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING, revoking=NOTHING
        )

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        """Return the member with what a record says of it."""
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
        """Return the member with the assignment in a record."""
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )


def _owned(entries: Iterable[CurrentPartitions], member_epoch: int) -> Owned:
    """Return partitions with their epochs; where none are stored (before Kafka 4.3), that of the member."""
    owned: dict[bytes, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = [max(member_epoch, 0)] * len(entry.partitions)
        owned[entry.topic_id] = dict(zip(entry.partitions, epochs, strict=True))
    return owned


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What decides the next step of a member.

    `target` is that of `target_epoch`. `owned` are the partitions that the member says it has, None if it
    does not say. `subscribed` are the ids of the topics it wants now: none of another topic is given or left
    to it, even if the target is older than its subscription. `is_taken(topic_id, partition)` is true for what
    some member has.
    """

    target_epoch: int
    target: Mapping[bytes, frozenset[int]]
    owned: Mapping[bytes, Collection[int]] | None
    subscribed: Collection[bytes]
    is_taken: Callable[[bytes, int], bool]

    def step(self, member: ConsumerMember, *, subscription_changed: bool = False) -> ConsumerMember:
        """Return the member after its next step, or itself if it cannot go on yet.

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
        """Take away the topics that the member no longer wants, before there is a target without them."""
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
        """True if nobody has a partition, or only the member itself, which gave it up just now."""
        return not self.is_taken(topic_id, partition) or partition in member.revoking.get(topic_id, ())

    def _owns_any(self, partitions: Owned) -> bool:
        """True if the member has any of these, as far as it says."""
        if self.owned is None:
            return True
        return any(
            partition in partitions.get(topic_id, ())
            for topic_id in self.owned
            for partition in self.owned[topic_id]
        )
