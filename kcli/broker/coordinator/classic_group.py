"""ClassicGroup: members, generation and state of a group whose leader assigns (Kafka class `ClassicGroup`).

Pure bookkeeping: what follows from a change (answers, timers, records) is decided in `classic_rebalance`,
`classic_join`, `classic_sync` and `classic_leave`. Invariants:

* `static_members` names exactly the members with an instance id, `supported` counts for each protocol the
  members that offer it, `awaiting_joins` those with a parked join;
* the leader is a member, and there is one as long as there are members;
* nobody is both a member and pending;
* `pending_syncs` are members, and only while the group is CompletingRebalance or Stable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_states import TRANSITIONS, ClassicGroupState
from kcli.broker.coordinator.effects import CoordinatorRecord
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataKey
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from kcli.broker.coordinator.classic_member import ClassicMember
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.protocol.internal.coordinator_records import OffsetCommitValue
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A classic group as it is in memory; what of it outlives a restart is in its last stored record.

    `protocol_type` is None for a group that never had members (a "simple" group), `protocol_name` is the
    assignor of this generation. `state_since_ms` is a time of day, None if it was not recorded. `pending`
    holds the ids that were given out (MEMBER_ID_REQUIRED) and not used yet, and until when they may be.
    `assigned_generation` is the last one whose leader has handed in the assignment. `subscribed` are the
    topics that members read, None if that is not known. `join_deadline_ms` and `sync_deadline_ms` (monotonic)
    are None unless their timers run, `initial_delay_left_ms` is None unless an initial rebalance is delayed.
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

    # --- what it is --------------------------------------------------------------------------------

    @property
    def uses_consumer_protocol(self) -> bool:
        """True if the members are consumers: their metadata says what they subscribe to."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def may_go(self) -> bool:
        """True if nothing but offsets keeps the group."""
        return self.state is ClassicGroupState.EMPTY and not self.pending

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance may begin now."""
        return ClassicGroupState.PREPARING_REBALANCE in TRANSITIONS[self.state]

    @property
    def all_joined(self) -> bool:
        """True if nobody is missing for the next generation."""
        return self.awaiting_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for members: the longest that any of them asked for."""
        return max((0, *(member.rebalance_timeout_ms for member in self.members.values())))

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """True if someone offering these protocols could become, or stay, a member."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(self.supported[name] == count for name in names)

    def select_protocol(self) -> str | None:
        """Return the protocol with most votes among those that all members offer.

        Each member votes for the first of its own; where votes are equal the group's first voter decides.
        """
        count = len(self.members)
        candidates = {name for name, supporters in self.supported.items() if supporters == count}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0] if votes else None

    # --- members -----------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        """Take in a member; the first one brings the protocol type and becomes the leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forget a member or a pending id. If it was the leader, the member who has been here longest leads.

        What the member had parked is the caller's to answer.
        """
        self.pending.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.awaiting_join is not None:
                self.awaiting_joins -= 1
            instance_id = member.group_instance_id
            # Damaged records may have brought two members of one instance id.
            if instance_id is not None and self.static_members.get(instance_id) == member_id:
                del self.static_members[instance_id]
            if self.leader_id == member_id:
                self.leader_id = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicMember, new_id: str) -> ClassicMember:
        """Give a static member a new id; it keeps its place, its assignment, and the lead if it has it.

        The new member has nothing parked and no timer; what the old one had parked is the caller's to answer.
        """
        if member.awaiting_join is not None:
            self.awaiting_joins -= 1
        renamed = replace(
            member, member_id=new_id, awaiting_join=None, awaiting_sync=None, is_new=False, timer_ms=0
        )
        self.members = {each.member_id: each for each in self._replaced(member, renamed)}
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = new_id
        if self.leader_id == member.member_id:
            self.leader_id = new_id
        if member.member_id in self.pending_syncs:
            self.pending_syncs.discard(member.member_id)
            self.pending_syncs.add(new_id)
        return renamed

    def offer(self, member: ClassicMember, other: ClassicMember) -> None:
        """Let a member take over the protocols and timeouts of `other`."""
        self._count(member, -1)
        member.protocols = other.protocols
        member.rebalance_timeout_ms = other.rebalance_timeout_ms
        member.session_timeout_ms = other.session_timeout_ms
        self._count(member, 1)

    def park_join(self, member: ClassicMember, token: Token) -> Token | None:
        """Let a join wait; return the one that waited before, which must be answered."""
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
        """See to it that the leader is one who has joined this round; False if nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.awaiting_join is None:
            joined = (each.member_id for each in self.members.values() if each.awaiting_join is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader_id = elected
        return True

    def _replaced(self, old: ClassicMember, new: ClassicMember) -> Iterable[ClassicMember]:
        return (new if each is old else each for each in self.members.values())

    def _count(self, member: ClassicMember, step: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self.supported[name] += step
            if not self.supported[name]:
                del self.supported[name]

    # --- state -------------------------------------------------------------------------------------

    def transition(self, now: Now, state: ClassicGroupState) -> None:
        """Go to another state; a move that `TRANSITIONS` does not have is a bug."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group `{self.group_id}` cannot go from {self.state} to {state}")
        self.state = state
        self.state_since_ms = now.wall_ms

    def next_generation(self, now: Now) -> None:
        """End the join phase: the members that are left are the next generation."""
        self.generation += 1
        self.protocol_name = self.select_protocol()
        self.update_subscribed()
        state = ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY
        self.transition(now, state)
        self.pending_syncs = set(self.members)

    def update_subscribed(self) -> None:
        """Learn from the members' metadata which topics they read."""
        if not self.uses_consumer_protocol:
            self.subscribed = None
        elif not self.members:
            self.subscribed = frozenset()
        else:
            self.subscribed = _topics_in(each.metadata(self.protocol_name) for each in self.members.values())

    # --- as a group of any kind ----------------------------------------------------------------------

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Say whether a request is from one of the members, as far as it says."""
        if group_instance_id is not None:
            known_id = self.static_members.get(group_instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Say whether these offsets may be committed.

        Without a generation, by a tool or a consumer that assigns itself partitions, only while the group is
        empty; else by a member of this generation, but not between Join and Sync.
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

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode:
        """Say whether offsets may be seen: by everybody, in every state."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Say whether the group may be deleted: while it has no members."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        """Say whether any offsets may be deleted: only consumers can tell which of them are in use."""
        error = self.check_delete()
        if error is ErrorCode.NON_EMPTY_GROUP and self.uses_consumer_protocol:
            return ErrorCode.NONE
        return error

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads the topic, or the group's consumers may do so for all that is known."""
        if self.subscribed is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed

    def retention_start(self) -> Callable[[OffsetCommitValue], int] | None:
        """Return since when an offset is not needed.

        That is since the group is empty, for a simple group since the commit, and while consumers are at work
        since the commit as well, for topics that none of them reads.
        """
        if self.protocol_type is not None:
            since_ms = self.state_since_ms
            if self.state is ClassicGroupState.EMPTY and since_ms is not None:
                return lambda _: since_ms
            consuming = self.state is ClassicGroupState.STABLE and self.subscribed is not None
            if self.state is not ClassicGroupState.EMPTY and not consuming:
                return None
        return _committed_at

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return what deletes the group's record."""
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    def listed(self) -> ListedGroup:
        """Return the group's line in ListGroups."""
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state.value,
            group_type="classic",
        )


def _committed_at(offset: OffsetCommitValue) -> int:
    return offset.commit_timestamp


def _topics_in(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics that consumers ask for, None if one of them does not say so in the usual form."""
    topics: set[str] = set()
    for data in metadata:
        try:
            if not data:
                return None
            topics.update(decode_subscription(data).topics)
        except DecodeError:
            return None
    return frozenset(topics)
