"""ConsumerGroupClassicProtocol: members of a consumer group that still speak the classic protocol (KIP-848).

They send JoinGroup, SyncGroup and Heartbeat, but no member waits for another. JoinGroup performs the member's
next reconciliation step and is answered once that is stored, with the member epoch as generation and no
leader. SyncGroup returns the assigned partitions. Heartbeat returns REBALANCE_IN_PROGRESS when there is
another step (Kafka's methods `classicGroupJoinToConsumerGroup` and its like).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.broker.coordinator.classic.group_manager import member_response
from kcli.broker.coordinator.classic.rebalance import refuse_join, refuse_sync
from kcli.broker.coordinator.consumer.group_registry import Wait
from kcli.broker.coordinator.consumer.heartbeat_request import known_static_member
from kcli.broker.coordinator.consumer.member import ClassicOffer, ConsumerMember, MemberState
from kcli.broker.coordinator.consumer.migration import DISABLED, assignment_bytes, may_downgrade
from kcli.broker.coordinator.effects import Effect, Reply
from kcli.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.schema.declaration import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kcli.broker.coordinator.classic.join_group import JoinContext
    from kcli.broker.coordinator.consumer.group import ConsumerGroup
    from kcli.broker.coordinator.consumer.group_registry import ConsumerGroupRegistry
    from kcli.broker.coordinator.consumer.group_update import GroupUpdate
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.protocol.consumer_protocol import Subscription
    from kcli.protocol.messages.heartbeat import HeartbeatRequest
    from kcli.protocol.messages.join_group import JoinGroupRequest
    from kcli.protocol.messages.leave_group import MemberIdentity, MemberResponse
    from kcli.protocol.messages.sync_group import SyncGroupRequest


class ConsumerGroupClassicProtocol:
    """The classic-protocol requests to consumer groups that have members."""

    def __init__(self, registry: ConsumerGroupRegistry) -> None:
        self._registry = registry
        self._timers = registry.timers

    def join_group(self, join: JoinContext, group: ConsumerGroup) -> list[Effect]:
        """Add a member, or perform its next step."""
        member_id = join.request.member_id or self._registry.new_id()
        try:
            self._check_join(join.request, group)
            if join.lacks_id:
                return refuse_join(join.token, ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return self._join(join, group, member_id)
        except KafkaError as error:
            return join.refuse(error.code)

    def _check_join(self, request: JoinGroupRequest, group: ConsumerGroup) -> None:
        if self._registry.config.migration_policy == DISABLED:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "group migration is disabled")
        self._registry.check_size(group, request.member_id)
        offered = {protocol.name for protocol in request.protocols}
        for member in group.members.values():
            if member.classic is not None:
                offered &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not offered:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the member's protocols do not fit")

    def _join(self, join: JoinContext, group: ConsumerGroup, member_id: str) -> list[Effect]:
        now = join.now
        update = self._registry.update(now, group)
        replaced, old = self._admit(update, join.request, member_id)
        subscription = _subscription(join.request)
        new = _updated(old, join, subscription)
        was_consumer = replaced is not None and replaced.classic is None
        if replaced and was_consumer and may_downgrade(group, [replaced], self._registry.config, joining=1):
            return self._join_as_classic(join, update, old=old, new=new)
        changed = update.resubscribe(old, new, client=join.client)
        owned = self._owned(subscription)
        member = update.reconcile(new.member_id, owned, subscription_changed=changed)

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            effects: list[Effect] = []
            # Records in the log count even if the commit timed out.
            if error is None or self._registry.is_stored(group.group_id, member):
                if replaced is not None:
                    effects += self._timers.forget(group.group_id, replaced.member_id)
                effects += self._joined(now, group.group_id, member)
            return effects + _answer_join(join, member, error)

        return self._registry.write(now, update.records, stored)

    def _joined(self, now: Now, group_id: str, member: ConsumerMember) -> list[Effect]:
        """Start the timers of a member that has joined: its session, and its time to send SyncGroup."""
        if not self._registry.has_member(group_id, member.member_id):
            return []
        member_id = member.member_id
        return [
            *self._timers.stop(Wait.REBALANCE, group_id, member_id),
            *self._timers.stop(Wait.JOIN, group_id, member_id),
            *self._timers.renew_session(
                now, group_id, member_id, self._registry.session_timeout_ms(group_id, member)
            ),
            *self._timers.start(Wait.SYNC, group_id, member_id, member.rebalance_timeout_ms),
        ]

    def _join_as_classic(
        self, join: JoinContext, update: GroupUpdate, *, old: ConsumerMember, new: ConsumerMember
    ) -> list[Effect]:
        """Add a returning static member that was the last one to speak the consumer protocol.

        The new classic group begins with a rebalance unless its target assignment is up to date.
        """
        changed = update.resubscribe(old, new, client=join.client, with_target=False)
        rebalance = update.target_epoch < update.epoch
        member = update.members[new.member_id]
        if not rebalance:
            owned = self._owned(_subscription(join.request))
            member = update.reconcile(new.member_id, owned, subscription_changed=changed)

        def answer(now: Now, error: KafkaError | None) -> list[Effect]:
            return _answer_join(join, member, error)

        members = list(update.members.values())
        return self._registry.downgrade(join.now, update, members, rebalance=rebalance, answer=answer)

    def _admit(
        self, update: GroupUpdate, request: JoinGroupRequest, member_id: str
    ) -> tuple[ConsumerMember | None, ConsumerMember]:
        """Return the member that is replaced, if any, and the requesting member in its current state."""
        group, instance_id = update.group, request.group_instance_id
        if instance_id is not None and request.member_id:
            return None, known_static_member(group, instance_id, member_id)
        existing = group.static_member(instance_id)
        if existing is not None:
            return self._registry.replace_static_member(update, existing, member_id)
        return None, group.members.get(member_id) or ConsumerMember(member_id)

    def _owned(self, subscription: Subscription) -> Mapping[bytes, Collection[int]]:
        topics = self._registry.image().topics
        return {
            topics[name].topic_id: partitions
            for name, partitions in subscription.owned_partitions.items()
            if name in topics
        }

    def sync_group(
        self, now: Now, token: Token, request: SyncGroupRequest, group: ConsumerGroup
    ) -> list[Effect]:
        try:
            member, offer = self._member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            is_other = request.protocol_name not in {None, offer.protocol}
            if is_other or request.protocol_type not in {None, PROTOCOL_TYPE}:
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except KafkaError as error:
            return refuse_sync(token, error.code)
        if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return self._expect_join(group, member) + refuse_sync(token, ErrorCode.REBALANCE_IN_PROGRESS)
        version = int.from_bytes(offer.metadata[:2], "big")
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, version, self._registry.image()),
        )
        return [
            *self._timers.stop(Wait.SYNC, group.group_id, member.member_id),
            *self._timers.renew_session(now, group.group_id, member.member_id, offer.session_timeout_ms),
            Reply(token, response),
        ]

    def heartbeat(
        self, now: Now, token: Token, request: HeartbeatRequest, group: ConsumerGroup
    ) -> list[Effect]:
        """Renew a member's session, and tell it whether to join again.

        It also updates the group's topics and target, as heartbeats of the consumer protocol do, because all
        members may be classic.
        """
        try:
            member, offer = self._member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
        except KafkaError as error:
            return [Reply(token, HeartbeatResponse(error_code=error.code))]
        effects = self._timers.renew_session(now, group.group_id, member.member_id, offer.session_timeout_ms)
        update = self._registry.update(now, group)
        update.resubscribe(member, member)

        def stored(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return [Reply(token, HeartbeatResponse(error_code=error.code))]
            return self._heartbeat_response(token, group, member)

        return effects + self._registry.write(now, update.records, stored)

    def _heartbeat_response(self, token: Token, group: ConsumerGroup, member: ConsumerMember) -> list[Effect]:
        effects: list[Effect] = []
        error_code = ErrorCode.NONE
        if _must_rejoin(group, member):
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
            if self._registry.has_member(group.group_id, member.member_id):
                effects += self._expect_join(group, member)
        return [*effects, Reply(token, HeartbeatResponse(error_code=error_code))]

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> list[Effect]:
        """Start the rebalance timeout of a member that must join again."""
        return self._timers.start_unless_running(
            Wait.JOIN, group.group_id, member.member_id, member.rebalance_timeout_ms
        )

    def leave_group(
        self,
        now: Now,
        identities: Sequence[MemberIdentity],
        group: ConsumerGroup,
        answer: Callable[[list[MemberResponse], KafkaError | None], list[Effect]],
    ) -> list[Effect]:
        """Remove members of both protocols, because a tool may name all of them."""
        leaving: dict[str, ConsumerMember] = {}
        answers = []
        for identity in identities:
            error = ErrorCode.NONE
            try:
                member = _leaving_member(group, identity)
                leaving[member.member_id] = member
            except KafkaError as failure:
                error = failure.code
            answers.append(member_response(identity, error))
        if not leaving:
            return answer(answers, None)

        def left(now: Now, error: KafkaError | None) -> list[Effect]:
            return answer(answers, error)

        return self._registry.remove(now, group, list(leaving.values()), left)

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicOffer]:
        """Return the requesting member and its offer; raise `KafkaError` unless it is a classic member."""
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = known_static_member(group, instance_id, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the member does not use the classic protocol")
        return member, member.classic


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    if identity.member_id:
        return known_static_member(group, instance_id, identity.member_id)
    return group.member(group.static_members.get(instance_id, ""))


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    match member.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS if not group.awaits_release(member):
            return True
    return member.epoch < group.target_epoch


def _subscription(request: JoinGroupRequest) -> Subscription:
    """Return the subscription in the metadata of the member's first protocol."""
    metadata = request.protocols[0].metadata
    try:
        if not metadata:
            raise DecodeError("no bytes")
        return decode_subscription(metadata)
    except DecodeError as error:
        why = f"malformed subscription: {error.message}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from error


def _updated(member: ConsumerMember, join: JoinContext, subscription: Subscription) -> ConsumerMember:
    """Return the member updated from its request; the same object if nothing changed."""
    request, instance_id = join.request, join.request.group_instance_id
    said = replace(
        member,
        instance_id=member.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        client_id=join.client.client_id,
        client_host=join.client.host,
        topics=frozenset(subscription.topics),
        regex="",
        classic=ClassicOffer(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )
    return member if said == member else said


def _answer_join(join: JoinContext, member: ConsumerMember, error: KafkaError | None) -> list[Effect]:
    if error is not None:
        return join.refuse(error.code)
    assert member.classic is not None
    response = JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocol,
        leader="",
        member_id=member.member_id,
        members=[],
    )
    return [Reply(join.token, response)]
