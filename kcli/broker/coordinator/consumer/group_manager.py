"""ConsumerGroupManager: the heartbeats and the life of a shard's consumer groups (KIP-848).

A heartbeat says what a member wants and owns. The group's epoch, the target assignment and the member's next
step follow from it, in this order and only if something changed. All of it is written as one batch of
records, and the response waits for them; a heartbeat that changes nothing is answered at once (Kafka class
`GroupMetadataManager`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupRecords
from kcli.broker.coordinator.consumer.group_registry import Wait
from kcli.broker.coordinator.consumer.group_update import choose_assignor
from kcli.broker.coordinator.consumer.heartbeat_request import (
    NO_TIMEOUT,
    assignment_of,
    check_epoch,
    check_heartbeat,
    check_released,
    known_static_member,
    owned_by,
    refused,
    updated_by,
)
from kcli.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
)
from kcli.broker.coordinator.effects import Effect, Reply
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.internal.coordinator_records import ConsumerGroupMetadataKey
from kcli.protocol.messages.consumer_group_describe import DescribedGroup
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kcli.protocol.re2 import InvalidExpression
from kcli.protocol.topic_expression import Effort, TakesTooLong, expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.coordinator.consumer.group_registry import ConsumerGroupRegistry
    from kcli.broker.coordinator.consumer.group_update import GroupUpdate
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import ClientInfo
    from kcli.broker.metadata.metadata_image import MetadataDelta
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def not_described(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


RETRY_MS = 500
"""The delay until a timer fires again after its records could not be written."""


class ConsumerGroupManager:
    """The consumer-protocol requests and the life of consumer groups."""

    def __init__(self, registry: ConsumerGroupRegistry) -> None:
        self._registry = registry
        self._groups = registry.groups
        self._timers = registry.timers

    def heartbeat(
        self,
        now: Now,
        token: Token,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client: ClientInfo,
    ) -> list[Effect]:
        """Handle a ConsumerGroupHeartbeat: a member joins, stays or leaves."""
        try:
            check_heartbeat(request, version, self._registry.config.consumer_assignors)
            if request.member_epoch in {LEAVE_EPOCH, STATIC_LEAVE_EPOCH}:
                return self._leave(now, token, request)
            return self._join_or_stay(now, token, request, client)
        except KafkaError as error:
            return [Reply(token, refused(error))]

    def _join_or_stay(
        self, now: Now, token: Token, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
    ) -> list[Effect]:
        opened = self._registry.open(now, request.group_id, joins=request.member_epoch == JOIN_EPOCH)
        update = opened.update
        self._registry.check_size(update.group, request.member_id)
        member_id = request.member_id or self._registry.new_id()
        owned = owned_by(request)
        replaced, old = self._admit(update, request, member_id)
        changed = update.resubscribe(old, updated_by(old, request, client), client=client)
        before = update.members[member_id]
        member = update.reconcile(member_id, owned, subscription_changed=changed)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._registry.config_of(request.group_id).consumer_heartbeat_interval_ms,
        )
        is_full = _is_full(request)
        if request.member_epoch == JOIN_EPOCH or is_full or member.assigned != old.assigned:
            response.assignment = assignment_of(member)

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            effects = self._registry.after_conversion(now, opened, error)
            # Records in the log count even if the commit timed out.
            if error is None or self._registry.is_stored(request.group_id, member):
                if replaced is not None or old.classic is not None:
                    former = old if replaced is None else replaced
                    effects += self._timers.forget(request.group_id, former.member_id)
                effects += self._renewed(now, request.group_id, member, has_moved=member is not before)
            return [*effects, Reply(token, response if error is None else refused(error))]

        return self._registry.write(now, update.records, stored)

    def _renewed(self, now: Now, group_id: str, member: ConsumerMember, *, has_moved: bool) -> list[Effect]:
        """Renew the session of a consumer-protocol member, and start or stop its rebalance timer."""
        if not self._registry.has_member(group_id, member.member_id):
            return []
        member_id = member.member_id
        timeout_ms = self._registry.session_timeout_ms(group_id, member)
        effects = self._timers.renew_session(now, group_id, member_id, timeout_ms)
        if not has_moved:
            return effects
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            delay_ms, epoch = member.rebalance_timeout_ms, member.epoch
            return effects + self._timers.start(Wait.REBALANCE, group_id, member_id, delay_ms, epoch=epoch)
        return effects + self._timers.stop(Wait.REBALANCE, group_id, member_id)

    def _admit(
        self, update: GroupUpdate, request: ConsumerGroupHeartbeatRequest, member_id: str
    ) -> tuple[ConsumerMember | None, ConsumerMember]:
        """Return the member that is replaced, if any, and the requesting member in its current state."""
        group, joins = update.group, request.member_epoch == JOIN_EPOCH
        if request.instance_id is not None:
            if not joins:
                member = known_static_member(group, request.instance_id, member_id)
                check_epoch(member, request.member_epoch, owned_by(request))
                return None, member
            existing = group.static_member(request.instance_id)
            if existing is not None:
                if existing.classic is None:
                    check_released(existing)
                return self._registry.replace_static_member(update, existing, member_id)
        member = group.members.get(member_id) or ConsumerMember(member_id)
        if not joins:
            member = group.member(member_id)
            check_epoch(member, request.member_epoch, owned_by(request))
        return None, member

    def _leave(self, now: Now, token: Token, request: ConsumerGroupHeartbeatRequest) -> list[Effect]:
        group = self._registry.existing(request.group_id)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_static_member(group, request.instance_id, request.member_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )

        def answer(now: Now, error: KafkaError | None) -> list[Effect]:
            return [Reply(token, response if error is None else refused(error))]

        if request.instance_id is None or request.member_epoch == LEAVE_EPOCH:
            return self._registry.remove(now, group, [member], answer)
        records = [ConsumerGroupRecords(group.group_id).assignment(member.with_static_leave())]

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            effects = answer(now, error)
            if error is None:
                effects += self._timers.stop(Wait.REBALANCE, group.group_id, member.member_id)
            return effects

        return self._registry.write(now, records, stored)

    def replay(self, key: Any, value: Any) -> None:  # noqa: ANN401 - any of seven record types
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            # A classic group of this id was deleted before, or has only offsets.
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self._groups[key.group_id]
        else:
            group.apply(key, value)

    def loaded(self, now: Now) -> list[Effect]:
        """Start all sessions and rebalance timers after loading."""
        effects: list[Effect] = []
        for group in self._registry.consumer_groups():
            for member in group.members.values():
                timeout_ms = self._registry.session_timeout_ms(group.group_id, member)
                effects += self._timers.renew_session(now, group.group_id, member.member_id, timeout_ms)
                if member.revoking and member.classic is None:
                    effects += self._timers.start(
                        Wait.REBALANCE,
                        group.group_id,
                        member.member_id,
                        member.rebalance_timeout_ms,
                        epoch=member.epoch,
                    )
        return effects

    def unloaded(self) -> list[Effect]:
        """Cancel all timers; parked requests wait for appends only, which fail by themselves."""
        return self._timers.forget_all()

    def expire(self, now: Now, wait: Wait, group_id: str, member_id: str) -> list[Effect]:
        """Remove a member whose timer has expired."""
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup) or member_id not in group.members:
            return self._timers.forget(group_id, member_id)
        member = group.members[member_id]
        if wait is Wait.SESSION:
            rest = self._timers.rest_of_session(now, group_id, member_id)
            if rest is not None:
                return rest
        else:
            epoch = self._timers.epoch_of(wait, group_id, member_id)
            if epoch is None or (wait is Wait.REBALANCE and epoch != member.epoch):
                return self._timers.stop(wait, group_id, member_id)

        def removed(now: Now, error: KafkaError | None) -> list[Effect]:
            key = (wait, group_id, member_id)
            return [] if error is None else self._timers.fire_again(now, key, RETRY_MS)

        return self._registry.remove(now, group, [member], removed)

    def image_changed(self, delta: MetadataDelta) -> None:
        """Mark the groups that must check their topics at the next heartbeat."""
        topics = (*delta.created_topics, *delta.changed_topics, *delta.deleted_topics)
        changed = {topic.name for topic in topics}
        if not changed:
            return
        for topic in delta.deleted_topics:
            self._registry.hashes.forget(topic.name)
        created = [topic.name for topic in delta.created_topics]
        effort = Effort()
        for group in self._registry.consumer_groups():
            if any(
                any(topic.name in resolved.topics for topic in delta.deleted_topics)
                or _matches_any(regex, created, effort)
                for regex, resolved in group.regexes.items()
            ):
                group.regexes_are_stale = group.is_stale = True
            elif not changed.isdisjoint(group.subscribed):
                group.is_stale = True

    def describe(self, group_ids: Sequence[str]) -> list[DescribedGroup]:
        image, assignors = self._registry.image(), self._registry.config.consumer_assignors
        described: list[DescribedGroup] = []
        for group_id in group_ids:
            group = self._groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                described.append(group.described(image, choose_assignor(group.members.values(), assignors)))
            else:
                why = f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}."
                described.append(not_described(group_id, KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)))
        return described


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """True if a heartbeat has every field; its response then has every field, too."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and subscribes and request.topic_partitions is not None


def _matches_any(regex: str, created: Sequence[str], effort: Effort) -> bool:
    """True if an expression matches a new topic, or if matching takes too long."""
    try:
        return any(expression(regex).matches(name, effort) for name in created)
    except TakesTooLong:
        return True
    except InvalidExpression:
        return False
