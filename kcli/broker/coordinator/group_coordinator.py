"""GroupCoordinator: the shard of a `__consumer_offsets` partition (Kafka class `GroupCoordinatorShard`).

Pure: events come in with their time, effects go out, and hard state changes only in `replay`. Every request
is answered exactly once, in the effects of its own event or of a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kcli.broker.coordinator.classic.group_manager import ClassicGroupManager, member_response
from kcli.broker.coordinator.classic.join_group import JoinContext
from kcli.broker.coordinator.classic.rebalance import refuse_sync
from kcli.broker.coordinator.consumer.classic_protocol import ConsumerGroupClassicProtocol
from kcli.broker.coordinator.consumer.group import ConsumerGroup
from kcli.broker.coordinator.consumer.group_manager import ConsumerGroupManager
from kcli.broker.coordinator.consumer.group_registry import ConsumerGroupRegistry, Wait
from kcli.broker.coordinator.effects import Append, Effect, Marker, Reply
from kcli.broker.coordinator.offsets.committed_offsets import GroupOffsets, commit_refused
from kcli.broker.coordinator.offsets.offset_cleanup import (
    DELETED_TOPICS_KEY,
    SWEEP_KEY,
    DeletedTopics,
    GroupDeletions,
    OffsetSweep,
)
from kcli.broker.coordinator.offsets.transactional_offsets import TransactionalOffsets
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.internal.coordinator_records import GroupMetadataKey, OffsetCommitKey
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from kcli.broker.config.group_definitions import GroupConfig
    from kcli.broker.coordinator.effects import Now, Token
    from kcli.broker.coordinator.group import ClientInfo, Group
    from kcli.broker.metadata.metadata_image import MetadataDelta, MetadataImage
    from kcli.protocol.error_codes import KafkaError
    from kcli.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from kcli.protocol.messages.heartbeat import HeartbeatRequest
    from kcli.protocol.messages.join_group import JoinGroupRequest
    from kcli.protocol.messages.leave_group import LeaveGroupRequest
    from kcli.protocol.messages.list_groups import ListedGroup
    from kcli.protocol.messages.offset_commit import OffsetCommitRequest
    from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
    from kcli.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
    from kcli.protocol.messages.sync_group import SyncGroupRequest
    from kcli.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from kcli.protocol.records.control_records import TransactionMarker
    from kcli.storage.producers.producer_guards import ProducerGuard

LEAVE_IN_BATCHES_FROM = 3
SYNC_NAMES_PROTOCOL_FROM = 5
NOT_FOUND_IS_AN_ERROR_FROM = 6


class GroupCoordinator:
    """The groups of one partition and their offsets; `image` returns the metadata, `new_id` a unique text.

    `new_member_id` makes the ids of members of consumer groups, which in Kafka have another form.
    """

    def __init__(
        self,
        config: GroupConfig,
        *,
        image: Callable[[], MetadataImage],
        new_id: Callable[[], str],
        new_member_id: Callable[[], str] | None = None,
    ) -> None:
        self._new_id = new_id
        self.groups: dict[str, Group] = {}
        self._config = config
        self._image = image
        self._classic = ClassicGroupManager(self.groups, config)
        self._offsets = GroupOffsets(self.groups, config)
        self._transactional = TransactionalOffsets(self.groups, config, image)
        self._sweep = OffsetSweep(self.groups, self._offsets)
        self._deleted_topics = DeletedTopics(self._offsets.store)
        self._deletions = GroupDeletions(self.groups, self._offsets.store)
        registry = self._registry = ConsumerGroupRegistry(
            self.groups, config, image=image, new_id=new_member_id or new_id
        )
        self._consumer = ConsumerGroupManager(registry)
        self._classic_protocol = ConsumerGroupClassicProtocol(registry)

    def reconfigure(self, config: GroupConfig) -> None:
        """Use other settings from now on: only those of consumer groups can change while a broker runs."""
        self._registry.config = config

    def join_group(
        self, now: Now, token: Token, request: JoinGroupRequest, version: int, client: ClientInfo
    ) -> list[Effect]:
        """Handle JoinGroup; in a classic group the response waits for the other members."""
        join = JoinContext(now, token, request, version, client, self._config, self._new_id)
        if not join.has_valid_session:
            return join.refuse(ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self._classic.join_group(join)
        if group.members:
            return self._classic_protocol.join_group(join, group)
        if request.member_id:
            return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID)

        def deleted(now: Now, error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return join.refuse(error.code)
            return self.join_group(now, token, request, version, client)

        # An empty consumer group is deleted to make room.
        return [Append(tuple(group.tombstones()), deleted)]

    def sync_group(self, now: Now, token: Token, request: SyncGroupRequest, version: int) -> list[Effect]:
        """Handle SyncGroup: the response is the member's assignment."""
        if version >= SYNC_NAMES_PROTOCOL_FROM and None in {request.protocol_type, request.protocol_name}:
            return refuse_sync(token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group = self.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.sync_group(now, token, request, group)
        if isinstance(group, ConsumerGroup):
            return self._classic_protocol.sync_group(now, token, request, group)
        return refuse_sync(token, ErrorCode.UNKNOWN_MEMBER_ID)

    def heartbeat(self, now: Now, token: Token, request: HeartbeatRequest) -> list[Effect]:
        """Handle Heartbeat of the classic protocol."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_protocol.heartbeat(now, token, request, group)
        effects: list[Effect] = []
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(group, ClassicGroup):
            error, effects = self._classic.heartbeat(now, request, group)
        return [*effects, Reply(token, HeartbeatResponse(error_code=error))]

    def leave_group(self, now: Now, token: Token, request: LeaveGroupRequest, version: int) -> list[Effect]:
        """Handle LeaveGroup; versions below 3 name one member, whose error is that of the response."""
        group = self.groups.get(request.group_id)
        alone = version < LEAVE_IN_BATCHES_FROM
        identities = [MemberIdentity(member_id=request.member_id)] if alone else request.members

        def left(answers: list[MemberResponse], error: KafkaError | None) -> list[Effect]:
            if error is not None:
                return [Reply(token, LeaveGroupResponse(error_code=error.code))]
            if alone:
                return [Reply(token, LeaveGroupResponse(error_code=answers[0].error_code))]
            return [Reply(token, LeaveGroupResponse(members=answers))]

        if isinstance(group, ConsumerGroup):
            return self._classic_protocol.leave_group(now, identities, group, left)
        if not isinstance(group, ClassicGroup):
            return left([member_response(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in identities], None)
        if group.state is ClassicGroupState.DEAD:
            return [Reply(token, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))]
        answers, effects = self._classic.leave_group(now, identities, group)
        return effects + left(answers, None)

    def consumer_group_heartbeat(
        self, now: Now, token: Token, request: ConsumerGroupHeartbeatRequest, version: int, client: ClientInfo
    ) -> list[Effect]:
        return self._consumer.heartbeat(now, token, request, version=version, client=client)

    def offset_commit(
        self, now: Now, token: Token, request: OffsetCommitRequest, version: int
    ) -> list[Effect]:
        """Store offsets of topics that exist."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.check_commit(request, version):
            error = group.check_partitions(request, self._image())
            if error:
                return [Reply(token, commit_refused(request, error))]
        return self._offsets.commit(now, token, request, version)

    def txn_offset_commit(
        self, now: Now, token: Token, request: TxnOffsetCommitRequest, guard: ProducerGuard | None
    ) -> list[Effect]:
        """Store offsets in a transaction, whose `guard` in the shard's partition goes with the batch."""
        return self._transactional.commit(now, token, request, guard)

    def end_transaction(self, now: Now, token: Token, marker: TransactionMarker) -> list[Effect]:
        """Write the end of a transaction, which decides its offsets; the reply is an error code."""

        def written(now: Now, error: KafkaError | None) -> list[Effect]:
            return [Reply(token, ErrorCode.NONE if error is None else error.code)]

        return [Marker(marker, written)]

    def offset_fetch(
        self, group: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponseGroup:
        return self._offsets.fetch(group, require_stable=require_stable)

    def offset_delete(self, now: Now, token: Token, request: OffsetDeleteRequest) -> list[Effect]:
        """Delete offsets of topics that no member reads."""
        return self._offsets.delete(token, request)

    def list_groups(self) -> list[ListedGroup]:
        return [group.listed() for group in self.groups.values()]

    def describe_groups(self, now: Now, group_ids: Sequence[str], version: int) -> list[DescribedGroup]:
        """Return groups as DescribeGroups shows them; a missing or non-classic group is dead."""
        return [self._described(group_id, version) for group_id in group_ids]

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.described()
        missing = DescribedGroup(
            group_id=group_id,
            group_state=ClassicGroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
        )
        if version >= NOT_FOUND_IS_AN_ERROR_FROM:
            missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            problem = "not found" if group is None else "is not a classic group"
            missing.error_message = f"Group {group_id} {problem}."
        return missing

    def consumer_group_describe(self, now: Now, group_ids: Sequence[str]) -> list[DescribedConsumerGroup]:
        return self._consumer.describe(group_ids)

    def delete_groups(self, now: Now, token: Token, group_ids: Sequence[str]) -> list[Effect]:
        """Delete groups without members, and their offsets; the response is a list of results."""
        return self._deletions.begin(token, group_ids)

    def replay(self, key: Any, value: Any, offset: int = -1, producer_id: int = -1) -> None:  # noqa: ANN401
        """Apply a record of the topic; of a transaction only offsets are written."""
        match key:
            case OffsetCommitKey():
                self._offsets.replay(key, value, offset, producer_id)
            case GroupMetadataKey():
                if value is None or not self._registry.adopt_classic(key.group):
                    self._classic.replay(key, value)
            case _:
                self._consumer.replay(key, value)

    def replay_end(self, producer_id: int, is_commit: bool) -> None:
        self._offsets.replay_end(producer_id, is_commit)

    def loaded(self, now: Now) -> list[Effect]:
        self._offsets.create_missing_groups()
        return self._classic.loaded(now) + self._consumer.loaded(now)

    def unloaded(self, now: Now) -> list[Effect]:
        effects = self._sweep.stop() + self._deleted_topics.stop() + self._deletions.stop()
        return self._classic.unloaded(now) + self._consumer.unloaded() + effects

    def expire(self, now: Now, key: Hashable) -> list[Effect]:
        if key == SWEEP_KEY:
            return self._sweep.go_on(now)
        if key == DELETED_TOPICS_KEY:
            return self._deleted_topics.go_on()
        match key:
            case (Wait() as wait, str(group_id), str(member_id)):
                return self._consumer.expire(now, wait, group_id, member_id)
            case ("deletion", int() as number):
                return self._deletions.go_on(("deletion", number))
        return self._classic.expire(now, key)

    def expire_offsets(self, now: Now) -> list[Effect]:
        """Delete expired offsets, and the groups that are left without any."""
        return self._sweep.begin(now)

    def image_changed(self, now: Now, delta: MetadataDelta) -> list[Effect]:
        """Delete the offsets of deleted topics, and mark consumer groups that must check their topics."""
        self._consumer.image_changed(delta)
        return self._deleted_topics.begin(delta.deleted_topics)
