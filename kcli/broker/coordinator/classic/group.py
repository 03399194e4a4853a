"""ClassicGroup: members, generation and state of a group whose leader assigns (Kafka class `ClassicGroup`).

Pure bookkeeping: `rebalance`, `join_group` and `group_manager` decide what follows from a change. Invariants:

* `static_members` names exactly the members with an instance id, `supported` counts the members that offer
  each protocol, `awaiting_joins` the members with a parked join;
* a group with members has a leader, and the leader is a member;
* no id is both a member and pending;
* `pending_syncs` are members, and only while the group is CompletingRebalance or Stable.

Every member and every pending id has one timer, `("session", group id, member id)`. A heartbeat only moves
the member's deadline; the timer is set again if it fires before the deadline or the deadline moves closer.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kcli.broker.coordinator.effects import Cancel, CoordinatorRecord, Schedule
from kcli.broker.coordinator.group import committed_at
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from kcli.protocol.messages.join_group import JoinGroupResponseMember
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping

    from kcli.broker.coordinator.effects import Effect, Now, Token
    from kcli.broker.metadata.metadata_image import MetadataImage
    from kcli.protocol.internal.coordinator_records import OffsetCommitValue
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class ClassicGroupState(Enum):
    """The state of a classic group (Kafka class `ClassicGroupState`); the value is what clients see."""

    EMPTY = "Empty"
    """No members; it may have offsets. Also a group that only commits offsets and never had members.

    Actions: new members may join; Sync, Heartbeat and Leave get UNKNOWN_MEMBER_ID; commits without a
    generation are stored; offsets expire.
    Transitions: a member joins: PREPARING_REBALANCE; deleted, last offset expired, or unloaded: DEAD.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """Collecting the members of the next generation.

    Actions: Join is parked until all known members have joined or the rebalance timeout has passed; Sync and
    Heartbeat get REBALANCE_IN_PROGRESS, and the heartbeat renews the session; Leave removes the member;
    commits of the current generation are stored, so that members can commit before they give up partitions.
    Transitions: members have joined: COMPLETING_REBALANCE; no member is left: EMPTY; unloaded: DEAD.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is formed and waits for its leader's assignment.

    Actions: Sync is parked until the assignment is stored; Heartbeat is answered normally; Join with
    unchanged metadata gets the generation again; commits get REBALANCE_IN_PROGRESS.
    Transitions: assignment stored: STABLE; assignment not stored, a member joins, changes, leaves, fails, or
    does not sync in time: PREPARING_REBALANCE; unloaded: DEAD.
    """

    STABLE = "Stable"
    """Every member has, or can fetch, its assignment.

    Actions: Sync gets the assignment at once; Heartbeat is answered normally; Join of a follower with
    unchanged metadata gets the generation again; commits of this generation are stored.
    Transitions: the leader joins, a member joins, changes, leaves, fails, or does not sync in time:
    PREPARING_REBALANCE; unloaded: DEAD.
    """

    DEAD = "Dead"
    """Removed, or unloaded.

    Actions: requests that still reach it get COORDINATOR_NOT_AVAILABLE.
    Transitions: none.
    """


TRANSITIONS: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = MappingProxyType(
    {
        ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
        ClassicGroupState.PREPARING_REBALANCE: frozenset(
            {ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
        ),
        ClassicGroupState.COMPLETING_REBALANCE: frozenset(
            {ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}
        ),
        ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD}),
        ClassicGroupState.DEAD: frozenset(),
    }
)
"""The states that may follow each state."""


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A classic group in memory; its last stored record holds what survives a restart.

    `protocol_type` is None for a group that never had members (a "simple" group), `protocol_name` is the
    assignor of this generation. `state_since_ms` is a time of day, None if it was not recorded. `pending`
    maps each id that was given out (MEMBER_ID_REQUIRED) and not used yet to its deadline.
    `assigned_generation` is the last one whose leader has sent the assignment. `subscribed` are the topics
    that members read, None if unknown. `join_deadline_ms` and `sync_deadline_ms` (monotonic) are None unless
    their timers run; `initial_delay_left_ms` is None unless an initial rebalance is delayed.
    """

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    state_since_ms: int | None = None
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending: dict[str, int] = field(default_factory=dict)
    pending_syncs: set[str] = field(default_factory=set)
    supported: Counter[str] = field(default_factory=Counter)
    awaiting_joins: int = 0
    subscribed: frozenset[str] | None = None
    assigned_generation: int = -1
    join_deadline_ms: int | None = None
    sync_deadline_ms: int | None = None
    initial_delay_left_ms: int | None = None
    new_member_added: bool = False

    @property
    def uses_consumer_protocol(self) -> bool:
        """True if the members are consumers, whose metadata holds their subscriptions."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def holds_offsets_only(self) -> bool:
        return self.state is ClassicGroupState.EMPTY and not self.pending

    @property
    def can_rebalance(self) -> bool:
        return ClassicGroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def all_joined(self) -> bool:
        return self.awaiting_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """True if a client that offers these protocols could become, or stay, a member."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self.supported[name] == count for name in names)

    def select_protocol(self) -> str | None:
        """Return the protocol with most votes among those that all members offer.

        Each member votes for the first of its own; on a tie, the vote of the first member wins.
        """
        count = len(self.members)
        candidates = {name for name, supporters in self.supported.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0] if votes else None

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id; the oldest other member takes over the lead.

        The caller answers the parked requests of the removed member.
        """
        self.pending.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.awaiting_join is not None:
                self.awaiting_joins -= 1
            instance_id = member.group_instance_id
            # Damaged records may hold two members of one instance id.
            if instance_id is not None and self.static_members.get(instance_id) == member_id:
                del self.static_members[instance_id]
            if self.leader_id == member_id:
                self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicMember, new_id: str) -> ClassicMember:
        """Give a static member a new id; it keeps its place, its assignment, and the lead if it has it.

        The new member has no parked request and no timer; the caller answers the parked requests of the old
        one.
        """
        if member.awaiting_join is not None:
            self.awaiting_joins -= 1
        renamed = replace(
            member, member_id=new_id, awaiting_join=None, awaiting_sync=None, is_new=False, timer_ms=0
        )
        replaced = (renamed if each is member else each for each in self.members.values())
        self.members = {each.member_id: each for each in replaced}
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = new_id
        if self.leader_id == member.member_id:
            self.leader_id = new_id
        if member.member_id in self.pending_syncs:
            self.pending_syncs.discard(member.member_id)
            self.pending_syncs.add(new_id)
        return renamed

    def offer(self, member: ClassicMember, other: ClassicMember) -> None:
        """Give a member the protocols and timeouts of `other`."""
        self._count(member, -1)
        member.protocols = other.protocols
        member.rebalance_timeout_ms = other.rebalance_timeout_ms
        member.session_timeout_ms = other.session_timeout_ms
        self._count(member, 1)

    def park_join(self, member: ClassicMember, token: Token) -> Token | None:
        """Park a join; return the one parked before, which must be answered."""
        superseded, member.awaiting_join = member.awaiting_join, token
        if superseded is None:
            self.awaiting_joins += 1
        return superseded

    def take_join(self, member: ClassicMember) -> Token | None:
        """Return the parked join of a member, to be answered now."""
        token, member.awaiting_join = member.awaiting_join, None
        if token is not None:
            self.awaiting_joins -= 1
        return token

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined this round the leader; return False if none has."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.awaiting_join is None:
            joined = (each.member_id for each in self.members.values() if each.awaiting_join is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader_id = elected
        return True

    def _count(self, member: ClassicMember, step: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self.supported[name] += step
            if not self.supported[name]:
                del self.supported[name]

    def transition(self, now: Now, state: ClassicGroupState) -> None:
        """Change the state; a transition that is not in `TRANSITIONS` is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group `{self.group_id}` cannot go from {self.state} to {state}")
        self.state = state
        self.state_since_ms = now.wall_ms

    def next_generation(self, now: Now) -> None:
        """End the join phase: the members that are left form the next generation."""
        self.generation += 1
        self.protocol_name = self.select_protocol()
        self.update_subscribed()
        state = ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY
        self.transition(now, state)
        self.pending_syncs = set(self.members)

    def update_subscribed(self) -> None:
        if not self.uses_consumer_protocol:
            self.subscribed = None
        elif not self.members:
            self.subscribed = frozenset()
        else:
            self.subscribed = _topics_in(each.metadata(self.protocol_name) for each in self.members.values())

    def arm_session(self, now: Now, member: ClassicMember, *, timeout_ms: int | None = None) -> list[Effect]:
        """Start a member's session anew; `timeout_ms` replaces its own session timeout."""
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.deadline_ms = member.timer_ms = now.ms + delay_ms
        return [Schedule(session_key(self.group_id, member.member_id), delay_ms)]

    def renew_session(self, now: Now, member: ClassicMember) -> list[Effect]:
        """Note a sign of life: move the member's deadline."""
        member.deadline_ms = now.ms + member.session_timeout_ms
        if member.deadline_ms < member.timer_ms:
            return self.arm_session(now, member)
        return []

    def rearm_session(self, now: Now, member: ClassicMember) -> list[Effect]:
        """Set the timer again, for the rest of a session that is not over."""
        if member.deadline_ms <= now.ms:
            return self.arm_session(now, member)
        return self.arm_session(now, member, timeout_ms=member.deadline_ms - now.ms)

    def end_session(self, member_id: str) -> list[Effect]:
        """Cancel the timer of a member or a pending id that is gone."""
        return [Cancel(session_key(self.group_id, member_id))]

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group of a record: empty, or stable with the members of its generation."""
        group = cls(
            group_id,
            state=ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY,
            state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol_name=value.protocol,
            assigned_generation=value.generation,
        )
        for each in value.members:
            # No coordinator writes an id twice: in a damaged record the first one counts.
            if each.member_id not in group.members and each.group_instance_id not in group.static_members:
                group.add(_member_from_record(each, value.protocol or ""))
        if value.leader in group.members:
            group.leader_id = value.leader
        group.update_subscribed()
        return group

    def record(self, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
        """Return this generation's record, with metadata for the chosen protocol and `assignments`."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value)

    def join_members(self) -> list[JoinGroupResponseMember]:
        """Return all members and their metadata, as JoinGroup tells the leader."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def described(self) -> DescribedGroup:
        """Return the group as DescribeGroups shows it; protocol and metadata only while it is stable."""
        stable = self.state is ClassicGroupState.STABLE
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=self.protocol_name or "" if stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(self.protocol_name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the ids are those of a member, else the error."""
        if group_instance_id is not None:
            known_id = self.static_members.get(group_instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Return NONE if these offsets may be committed, else the error.

        A commit without a generation, from a tool or a consumer without subscription, needs an empty group. A
        commit with one needs a member of this generation, and is refused between Join and Sync.
        """
        generation = request.generation_id_or_member_epoch
        state = self.state
        if state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0:
            if state is ClassicGroupState.EMPTY:
                return ErrorCode.NONE
            if not request.member_id and request.group_instance_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(request.member_id, request.group_instance_id)
        if error:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if state is ClassicGroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def check_txn_commit(self, request: TxnOffsetCommitRequest, image: MetadataImage) -> ErrorCode:
        """Return NONE if the producer of a transaction may commit offsets, else the error.

        A commit that names no member, from an old client or one without subscription, is accepted in every
        state. One that names a member is accepted between Join and Sync, too.
        """
        member_id, instance_id, generation = (
            request.member_id,
            request.group_instance_id,
            request.generation_id,
        )
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and (
            self.state is ClassicGroupState.EMPTY or (not member_id and instance_id is None)
        ):
            return ErrorCode.NONE
        error = self.check_member(member_id, instance_id)
        if not error and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Return NONE: every client may read offsets in every state."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        """Return NONE if offsets may be deleted; only consumers tell which topics are in use."""
        error = self.check_delete()
        if error is ErrorCode.NON_EMPTY_GROUP and self.uses_consumer_protocol:
            return ErrorCode.NONE
        return error

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed

    def retention_start(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return since when an offset is not needed.

        Retention starts when the group became empty. For a simple group, and for topics that no member of a
        stable consumer group reads, it starts at the commit.
        """
        if self.protocol_type is not None:
            since_ms = self.state_since_ms
            if self.state is ClassicGroupState.EMPTY and since_ms is not None:
                return lambda _: since_ms
            consuming = self.state is ClassicGroupState.STABLE and self.subscribed is not None
            if self.state is not ClassicGroupState.EMPTY and not consuming:
                return None
        return committed_at

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type="classic",
        )


def session_key(group_id: str, member_id: str) -> Hashable:
    return ("session", group_id, member_id)


def _topics_in(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that consumers subscribe to, None if the metadata of one is unreadable."""
    topics: set[str] = set()
    for data in metadata:
        try:
            topics.update(subscribed_topics(data))
        except DecodeError:
            return None
    return frozenset(topics)


class MemberProtocol(NamedTuple):
    """An assignor that a member offers, and its metadata as opaque bytes."""

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member of a classic group (Kafka class `ClassicGroupMember`).

    `protocols` stand in the order of the member's preference. `awaiting_join` and `awaiting_sync` are its
    parked requests; a parked join also means that it has joined this round. `is_new` is true until its first
    join is answered: it does not know its id yet and cannot send heartbeats.

    `deadline_ms` (monotonic) is when its session ends, `timer_ms` when its timer fires.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False
    deadline_ms: int = 0
    timer_ms: int = 0

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the metadata for a protocol, empty if the member does not offer it."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: Container[str]) -> str | None:
        """Return the candidate that the member prefers, None if it offers none of them."""
        return next((protocol.name for protocol in self.protocols if protocol.name in candidates), None)

    @property
    def is_waiting(self) -> bool:
        """True while the member waits for the group and therefore sends no heartbeats."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


def _member_from_record(value: MemberMetadata, protocol_name: str) -> ClassicMember:
    timeout_ms = value.session_timeout if value.rebalance_timeout == -1 else value.rebalance_timeout
    return ClassicMember(
        member_id=value.member_id,
        group_instance_id=value.group_instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=timeout_ms,
        session_timeout_ms=value.session_timeout,
        protocols=(MemberProtocol(protocol_name, value.subscription),),
        assignment=value.assignment,
    )
