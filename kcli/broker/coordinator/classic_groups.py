"""ClassicGroups: the part of a shard that keeps the groups whose leaders assign.

See Kafka class `GroupMetadataManager`. What is decided about one group stands in `classic_join`,
`classic_sync`, `classic_leave` and `classic_rebalance`; here it is found, loaded, unloaded and described.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic_group import ClassicGroup
from kcli.broker.coordinator.classic_join import join_group
from kcli.broker.coordinator.classic_rebalance import (
    dissolve,
    expire_join,
    expire_session,
    expire_sync,
    prepare,
)
from kcli.broker.coordinator.classic_sessions import arm_session
from kcli.broker.coordinator.classic_states import ClassicGroupState
from kcli.broker.coordinator.group_records import group_from_record
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.effects import Effect, Now
    from kcli.broker.coordinator.group import Group
    from kcli.broker.coordinator.join_attempt import JoinAttempt
    from kcli.protocol.internal.coordinator_records import GroupMetadataKey, GroupMetadataValue


class ClassicGroups:
    """The classic groups among a shard's groups. `groups` is shared with whoever keeps the others."""

    def __init__(self, groups: dict[str, Group], config: GroupConfig) -> None:
        self._groups = groups
        self._config = config
        self._is_live = False

    def join_group(self, attempt: JoinAttempt) -> list[Effect]:
        """Let a client join a group that is classic, or does not exist: a client without an id creates it."""
        group_id = attempt.request.group_id
        found = self._groups.get(group_id)
        if found is None and attempt.request.member_id:
            return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        group = found if isinstance(found, ClassicGroup) else ClassicGroup(group_id)
        effects = join_group(attempt, group)
        if found is not group and (group.members or group.pending):
            self._groups[group.group_id] = group
        return effects

    # --- life --------------------------------------------------------------------------------------

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Apply a group's record: none any more, or the group as it stands there.

        Once the shard has loaded, it is a classic group itself that wrote the record, or one that has just
        become classic. The former knows it all but the assignments.
        """
        group = self._groups.get(key.group)
        live = group if self._is_live and isinstance(group, ClassicGroup) else None
        if value is None:
            if isinstance(group, ClassicGroup):
                del self._groups[key.group]
        elif live is None:
            self._groups[key.group] = group_from_record(key.group, value)
        elif live.generation == value.generation and live.state is ClassicGroupState.COMPLETING_REBALANCE:
            for stored in value.members:
                if (member := live.members.get(stored.member_id)) is not None:
                    member.assignment = stored.assignment

    def loaded(self, now: Now) -> list[Effect]:
        """Begin with what was loaded: sessions start anew, and a group above the size limit rebalances."""
        self._is_live = True
        effects: list[Effect] = []
        for group in self._classic():
            for member in group.members.values():
                effects += arm_session(now, group, member)
            if len(group.members) > self._config.max_size:
                effects += prepare(now, group, self._config)
        return effects

    def unloaded(self, now: Now) -> list[Effect]:
        """Answer whoever waits with NOT_COORDINATOR, and forget every timer."""
        effects: list[Effect] = []
        for group in self._classic():
            if group.state is not ClassicGroupState.DEAD:
                effects += dissolve(now, group, ErrorCode.NOT_COORDINATOR)
        return effects

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        """Do what a timer is for; one of a group that is gone is for nothing."""
        match key:
            case (str(kind), str(group_id), *rest):
                group = self._groups.get(group_id)
                if isinstance(group, ClassicGroup):
                    return self._expire(now, group, kind, rest)
        return []

    def _expire(self, now: Now, group: ClassicGroup, kind: str, rest: list[object]) -> list[Effect]:
        match kind:
            case "session":
                return expire_session(now, group, str(rest[0]), config=self._config)
            case "join":
                return expire_join(now, group, self._config)
            case "sync":
                return expire_sync(now, group, self._config)
        return []

    def _classic(self) -> list[ClassicGroup]:
        return [group for group in self._groups.values() if isinstance(group, ClassicGroup)]


def describe_group(group: ClassicGroup) -> DescribedGroup:
    """Return what DescribeGroups shows: the protocol, and what members say for it, while it is in use."""
    stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol_name or "" if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
