"""ConsumerGroupRegistry: finds, opens, converts and shrinks the consumer groups of a shard.

A `GroupUpdate` computes what one request changes in a group. The registry begins it and writes its records;
timers and converted groups change after the records are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kcli.broker.coordinator.classic.rebalance import dissolve
from kcli.broker.coordinator.consumer.group import ConsumerGroup
from kcli.broker.coordinator.consumer.group_update import GroupUpdate
from kcli.broker.coordinator.consumer.migration import (
    begin_classic,
    check_upgrade,
    may_downgrade,
    to_classic,
    upgrade_records,
)
from kcli.broker.coordinator.consumer.topic_hash import TopicHashes
from kcli.broker.coordinator.effects import Append, Cancel, Effect, Reply, Schedule
from kcli.protocol.configs import ConfigResourceType
from kcli.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.consumer.member import ConsumerMember
    from kcli.broker.coordinator.effects import CoordinatorRecord, Now
    from kcli.broker.coordinator.group import Group
    from kcli.broker.metadata.metadata_image import MetadataImage


class Wait(StrEnum):
    """What a timer waits for."""

    SESSION = "consumer-session"
    REBALANCE = "consumer-rebalance"
    JOIN = "consumer-join"
    SYNC = "consumer-sync"


_NEVER = 1 << 62


class _Session:
    """The deadline of a session, and when its timer fires; both monotonic."""

    __slots__ = ("deadline_ms", "timer_ms")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = self.timer_ms = deadline_ms


class MemberTimers:
    """The timers of all members of a shard's consumer groups.

        ("consumer-session", group id, member id)     no heartbeat within the session timeout
        ("consumer-rebalance", group id, member id)   partitions are not given up in time
        ("consumer-join", group id, member id)        a classic member does not join again when told to
        ("consumer-sync", group id, member id)        a classic member joined and does not send SyncGroup

    A heartbeat only moves the deadline of the session. Its timer is set again if it fires before the
    deadline, or if the session becomes shorter.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._waits: dict[tuple[Wait, str, str], int] = {}

    def renew_session(self, now: Now, group_id: str, member_id: str, timeout_ms: int) -> list[Effect]:
        deadline_ms = now.ms + timeout_ms
        session = self._sessions.get((group_id, member_id))
        if session is None:
            self._sessions[group_id, member_id] = _Session(deadline_ms)
        else:
            session.deadline_ms = deadline_ms
            if deadline_ms >= session.timer_ms:
                return []
            session.timer_ms = deadline_ms
        return [Schedule((Wait.SESSION, group_id, member_id), timeout_ms)]

    def rest_of_session(self, now: Now, group_id: str, member_id: str) -> list[Effect] | None:
        """Return None if the session is over, else the effects that set its timer again."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return []
        if session.deadline_ms <= now.ms:
            session.timer_ms = _NEVER
            return None
        session.timer_ms = session.deadline_ms
        return [Schedule((Wait.SESSION, group_id, member_id), session.deadline_ms - now.ms)]

    def start(
        self, wait: Wait, group_id: str, member_id: str, delay_ms: int, *, epoch: int = 0
    ) -> list[Effect]:
        """Start or restart the timer for something that a member must do in an epoch."""
        self._waits[wait, group_id, member_id] = epoch
        return [Schedule((wait, group_id, member_id), delay_ms)]

    def start_unless_running(self, wait: Wait, group_id: str, member_id: str, delay_ms: int) -> list[Effect]:
        if (wait, group_id, member_id) in self._waits:
            return []
        return self.start(wait, group_id, member_id, delay_ms)

    def stop(self, wait: Wait, group_id: str, member_id: str) -> list[Effect]:
        """Stop a timer: the member has done its step."""
        if self._waits.pop((wait, group_id, member_id), None) is None:
            return []
        return [Cancel((wait, group_id, member_id))]

    def epoch_of(self, wait: Wait, group_id: str, member_id: str) -> int | None:
        """Return the epoch that a timer was started in, None if it does not run."""
        return self._waits.get((wait, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> list[Effect]:
        """Stop all timers of a member that left."""
        effects: list[Effect] = []
        if self._sessions.pop((group_id, member_id), None) is not None:
            effects.append(Cancel((Wait.SESSION, group_id, member_id)))
        for wait in (Wait.REBALANCE, Wait.JOIN, Wait.SYNC):
            effects += self.stop(wait, group_id, member_id)
        return effects

    def forget_all(self) -> list[Effect]:
        keys: list[Hashable] = [(Wait.SESSION, *key) for key in self._sessions]
        keys += self._waits
        self._sessions.clear()
        self._waits.clear()
        return [Cancel(key) for key in keys]

    def fire_again(self, now: Now, key: tuple[Wait, str, str], delay_ms: int) -> list[Effect]:
        """Let an expired timer fire once more, because its records could not be written."""
        wait, group_id, member_id = key
        if wait is not Wait.SESSION:
            return [Schedule(key, delay_ms)] if key in self._waits else []
        session = self._sessions.get((group_id, member_id))
        if session is None or session.timer_ms != _NEVER:
            return []
        session.timer_ms = now.ms + delay_ms
        return [Schedule(key, delay_ms)]


@dataclass(frozen=True, slots=True)
class OpenedGroup:
    """A group that a member may join, and the classic group that it was until now, if any."""

    update: GroupUpdate
    converted: ClassicGroup | None = None


class ConsumerGroupRegistry:
    """The consumer groups among a shard's groups; `groups` is shared with the managers of other groups."""

    def __init__(
        self,
        groups: dict[str, Group],
        config: GroupConfig,
        *,
        image: Callable[[], MetadataImage],
        new_id: Callable[[], str],
    ) -> None:
        self.groups = groups
        self.config = config
        self.image = image
        self.new_id = new_id
        self.timers = MemberTimers()
        self.hashes = TopicHashes()
        self._becoming_classic: dict[str, ClassicGroup] = {}

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        return (group for group in self.groups.values() if isinstance(group, ConsumerGroup))

    def open(self, now: Now, group_id: str, *, joins: bool) -> OpenedGroup:
        """Return a group for a member; a joining member creates it, or converts a classic group."""
        found = self.groups.get(group_id)
        if found is None and joins:
            return OpenedGroup(self.update(now, ConsumerGroup(group_id)))
        if not joins or not isinstance(found, ClassicGroup):
            return OpenedGroup(self.update(now, self.existing(group_id)))
        if found.state is ClassicGroupState.EMPTY:
            return OpenedGroup(self.update(now, ConsumerGroup(group_id), found.tombstones()), found)
        check_upgrade(found, self.config)
        records = upgrade_records(found, image=self.image(), hashes=self.hashes)
        draft = ConsumerGroup(group_id)
        for record in records[len(found.tombstones()) :]:
            draft.apply(record.key, record.value)
        update = self.update(now, draft, records)
        # The leader may have been about to assign anew, and its assignment is not a target of the broker.
        update.must_assign = True
        return OpenedGroup(update, found)

    def existing(self, group_id: str) -> ConsumerGroup:
        """Return a group; raise GROUP_ID_NOT_FOUND."""
        found = self.groups.get(group_id)
        if not isinstance(found, ConsumerGroup):
            why = "not found" if found is None else "is not a consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group `{group_id}` {why}")
        return found

    def update(
        self, now: Now, group: ConsumerGroup, records: Sequence[CoordinatorRecord] = ()
    ) -> GroupUpdate:
        return GroupUpdate(
            group,
            now,
            image=self.image(),
            config=self.config_of(group.group_id),
            hashes=self.hashes,
            records=records,
        )

    def after_conversion(self, now: Now, opened: OpenedGroup, error: KafkaError | None) -> list[Effect]:
        """Dissolve the classic group that a group was, once its conversion is in the log.

        Clients repeat their parked requests, and the new group answers them. If the conversion was not
        stored, the old group is unchanged. If it was stored but not committed, the group is the new one all
        the same, and the parked clients look up their coordinator again.
        """
        classic = opened.converted
        if classic is None or self.groups.get(classic.group_id) is classic:
            return []
        code = ErrorCode.REBALANCE_IN_PROGRESS if error is None else ErrorCode.NOT_COORDINATOR
        effects = dissolve(now, classic, code)
        if isinstance(self.groups.get(classic.group_id), ClassicGroup):
            # The group is classic again by now; its timers belong to the new classic group.
            return [effect for effect in effects if isinstance(effect, Reply)]
        for member in classic.members.values():
            if self.has_member(classic.group_id, member.member_id):
                effects += self.timers.renew_session(
                    now, classic.group_id, member.member_id, member.session_timeout_ms
                )
        return effects

    def check_size(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if a full group has no such member."""
        if len(group.members) >= self.config.consumer_max_size and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"the group has reached its maximum size: {self.config.consumer_max_size}",
            )

    def replace_static_member(
        self, update: GroupUpdate, existing: ConsumerMember, member_id: str
    ) -> tuple[ConsumerMember, ConsumerMember]:
        """Replace a static member by a member with another id; return both."""
        new = existing.with_id(member_id)
        former = update.members.get(member_id)
        if former is not None and former.member_id != existing.member_id:
            # The id belonged to a dynamic member, which is removed.
            update.remove([former])
            update.must_assign = True
        update.replace(existing, new)
        return existing, new

    def has_member(self, group_id: str, member_id: str) -> bool:
        group = self.groups.get(group_id)
        return isinstance(group, ConsumerGroup) and member_id in group.members

    def is_stored(self, group_id: str, member: ConsumerMember) -> bool:
        """True if the group holds exactly this state of a member."""
        group = self.groups.get(group_id)
        return isinstance(group, ConsumerGroup) and group.members.get(member.member_id) == member

    def write(
        self,
        now: Now,
        records: Sequence[CoordinatorRecord],
        then: Callable[[Now, KafkaError | None], list[Effect]],
    ) -> list[Effect]:
        """Append records, then call `then`; call it at once if there are none."""
        return [Append(tuple(records), then)] if records else then(now, None)

    def remove(
        self,
        now: Now,
        group: ConsumerGroup,
        members: Sequence[ConsumerMember],
        answer: Callable[[Now, KafkaError | None], list[Effect]],
    ) -> list[Effect]:
        """Remove members. If only classic members are left, the group becomes classic."""
        gone = dict.fromkeys(member.member_id for member in members)
        if may_downgrade(group, members, self.config):
            rest = [member for member in group.members.values() if member.member_id not in gone]
            return self.downgrade(now, self.update(now, group), rest, rebalance=True, answer=answer)
        update = self.update(now, group)
        update.remove(members)
        update.drop_unused_regexes()
        update.update_epoch(bump=True)

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            return self._forget_gone(group.group_id, gone) + answer(now, error)

        return self.write(now, update.records, stored)

    def _forget_gone(self, group_id: str, member_ids: Iterable[str]) -> list[Effect]:
        """Stop the timers of those members that are no longer in the group."""
        effects: list[Effect] = []
        for member_id in member_ids:
            if not self.has_member(group_id, member_id):
                effects += self.timers.forget(group_id, member_id)
        return effects

    def downgrade(
        self,
        now: Now,
        update: GroupUpdate,
        members: Sequence[ConsumerMember],
        *,
        rebalance: bool,
        answer: Callable[[Now, KafkaError | None], list[Effect]],
    ) -> list[Effect]:
        """Convert a group whose remaining members are all classic to a classic group."""
        group_id = update.group.group_id
        member_ids = [*update.group.members, *update.members]
        classic = to_classic(
            group_id, members, targets=update.targets, epoch=update.group.epoch, now=now, image=self.image()
        )
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        records = [*update.records, *update.tombstones(), classic.record(assignments)]
        self._becoming_classic[group_id] = classic

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            if self._becoming_classic.get(group_id) is classic:
                del self._becoming_classic[group_id]
            effects: list[Effect] = []
            for member_id in member_ids:
                if not self.has_member(group_id, member_id):
                    effects += self.timers.forget(group_id, member_id)
            if self.groups.get(group_id) is classic and classic.members:
                effects += begin_classic(now, classic, self.config, rebalance=rebalance)
            return effects + answer(now, error)

        return self.write(now, records, stored)

    def adopt_classic(self, group_id: str) -> bool:
        """Replace a group by the classic group that it becomes; return False if it does not become one.

        Called while its record is replayed. The group object knows more than the record: all protocols of its
        members.
        """
        classic = self._becoming_classic.pop(group_id, None)
        if classic is None:
            return False
        self.groups[group_id] = classic
        return True

    def session_timeout_ms(self, group_id: str, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.config_of(group_id).consumer_session_timeout_ms

    def config_of(self, group_id: str) -> GroupConfig:
        """Return the settings of a group, with its own overrides."""
        return self.config.of_group(self.image().config(ConfigResourceType.GROUP, group_id))
