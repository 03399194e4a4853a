"""ClassicJoin: one join of a classic group: JoinGroup, then SyncGroup; and the bytes that both carry.

A subscription is written in version 1, or in version 3 if the group is cooperative or the member has a rack;
an assignment in version 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from kcli.assignors import members as assignors
from kcli.client.admin.types import Generation
from kcli.client.fetch.subscription_state import partition_counts
from kcli.client.groups.classic_membership import ErrorAction
from kcli.client.groups.coordinator_link import is_passing
from kcli.client.network.backoff import Backoff
from kcli.client.network.connection import Disconnected
from kcli.errors import KcliError
from kcli.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kcli.protocol.schema.declaration import DecodeError
from kcli.protocol.topics import TopicPartition, by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kcli.assignors.strategies import Strategy
    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import TopicSubscription
    from kcli.client.groups.classic_membership import ClassicMembership
    from kcli.client.groups.coordinator_link import CoordinatorLink
    from kcli.client.network.connection import Connection
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.corruption import Buffer
    from kcli.protocol.messages.join_group import JoinGroupResponseMember


EAGER_VERSION = 1
COOPERATIVE_VERSION = 3
ASSIGNMENT_VERSION = 0


class LastAssignment(NamedTuple):
    """A member's last assignment and its generation; None before the first."""

    partitions: tuple[TopicPartition, ...] | None = None
    generation_id: int = -1


def _grouped(partitions: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    return {topic: tuple(indexes) for topic, indexes in by_topic(sorted(partitions)).items()}


def read_members(members: Iterable[JoinGroupResponseMember]) -> dict[str, assignors.MemberSubscription]:
    """Return each member's subscription; unreadable metadata subscribes to nothing."""
    read: dict[str, assignors.MemberSubscription] = {}
    for member in members:
        try:
            told = decode_subscription(member.metadata)
        except DecodeError:
            told = Subscription(())
        read[member.member_id] = assignors.MemberSubscription(
            topics=frozenset(told.topics),
            owned=tuple(
                TopicPartition(topic, index)
                for topic, indexes in told.owned_partitions.items()
                for index in indexes
            ),
            generation=told.generation_id,
            instance_id=member.group_instance_id,
            user_data=told.user_data,
            rack_id=told.rack_id or None,
        )
    return read


def racks_of(cluster: ClusterMetadata, topics: Iterable[str]) -> assignors.Racks:
    """Return the racks of the replicas of each partition, alive or not."""
    return {
        TopicPartition(name, index): frozenset(
            rack
            for node_id in partition.replicas
            if (node := cluster.nodes.get(node_id)) is not None and (rack := node.rack)
        )
        for name in topics
        if (topic := cluster.topics.get(name)) is not None
        for index, partition in topic.partitions.items()
    }


def assign(
    strategy: Strategy,
    counts: Mapping[str, int],
    *,
    members: Mapping[str, assignors.MemberSubscription],
    racks: assignors.Racks = assignors.NO_RACKS,
) -> list[SyncGroupRequestAssignment]:
    """Return the assignment of every member, empty ones too: Java members need the bytes."""
    return [
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(Assignment(_grouped(partitions)), ASSIGNMENT_VERSION),
        )
        for member_id, partitions in strategy.assign(counts, members, racks).items()
    ]


def read_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """Return the partitions of this member's assignment; raise `DecodeError` if it is unreadable."""
    return tuple(
        TopicPartition(topic, index)
        for topic, indexes in decode_assignment(data).partitions.items()
        for index in indexes
    )


JOIN_LAPSE_SECONDS = 5.0
"""How long JoinGroup may take beyond the rebalance timeout, during which the coordinator holds it."""

_FIRST_STATIC_JOIN, _FIRST_STATIC_SYNC = 5, 3
_MAX_REASON = 255


class ClassicJoin:
    """One join. When it is `done`, `assignment` or `error` is the outcome; neither if it must be repeated.

    It runs in a task of the consumer, so that a cancelled poll leaves JoinGroup on its way and the next poll
    finds the outcome. The leader assigns between JoinGroup and SyncGroup, by fresh metadata of all members'
    topics. Retriable errors are retried here. A join whose member loses its generation ends without an
    outcome: the application must first learn that its partitions are lost.
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: ClassicMembership,
        topics: TopicSubscription,
        owned: Iterable[TopicPartition],
        last: LastAssignment,
    ) -> None:
        self.assignment: tuple[TopicPartition, ...] | None = None
        self.generation = Generation()
        self.error: KcliError | None = None
        self.done = trio.Event()
        self.scope = trio.CancelScope()
        self._client = client
        self._config = config
        self._link = link
        self._membership = membership
        self._topics = topics
        self._owned = tuple(owned)
        self._last = last

    async def run(self, joined: Callable[[], None], ended: Callable[[], None]) -> None:
        """Run the join; call `joined` when heartbeats must begin, and `ended` at the end."""
        try:
            with self.scope:
                await self._until_settled(joined)
        except KcliError as error:
            self.error = error
        finally:
            self.done.set()
            ended()

    async def _until_settled(self, joined: Callable[[], None]) -> None:
        backoff = Backoff.of(self._client.config)
        while self.assignment is None and not self._membership.needs_prepare:
            try:
                action = await self._attempt(joined)
            except KcliError as error:
                if isinstance(error, Disconnected):
                    self._link.forget()
                if not is_passing(error):
                    raise
                action = ErrorAction.RETRY
            if action is ErrorAction.LOOK_UP:
                self._link.forget()
            if action in (ErrorAction.LOOK_UP, ErrorAction.RETRY):
                await trio.sleep(backoff.next_delay())

    async def _attempt(self, joined: Callable[[], None]) -> ErrorAction:
        connection = await self._link.connection()
        sent = self._membership.joining()
        response = await self._join(connection, sent)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            action = self._membership.join_failed(code, sent, response.member_id)
            return self._unless_fatal(action, code)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self._membership.joined(self.generation)
        joined()
        return await self._sync(connection, await self._assignments(response))

    async def _join(self, connection: Connection, sent: Generation) -> JoinGroupResponse:
        config = self._config
        self._topics.joined = self._topics.topics
        request = JoinGroupRequest(
            group_id=config.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=sent.member_id,
            group_instance_id=config.group_instance_id or None,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=strategy.name, metadata=self._subscription(strategy, sent.generation_id)
                )
                for strategy in config.strategies
            ],
            reason=(self._membership.reason or "")[:_MAX_REASON],
        )
        minimum = _FIRST_STATIC_JOIN if config.group_instance_id else 0
        version = connection.versions.choose(JoinGroupRequest, min_version=minimum)
        seconds = max(
            self._client.config.request_timeout_ms / 1000,
            config.max_poll_interval_ms / 1000 + JOIN_LAPSE_SECONDS,
        )
        response: JoinGroupResponse = await connection.request(request, version, seconds=seconds)
        return response

    def _subscription(self, strategy: Strategy, generation_id: int) -> bytes:
        config = self._config
        subscription = Subscription(
            topics=tuple(self._topics.topics),
            user_data=strategy.user_data(self._last.partitions, self._last.generation_id),
            owned_partitions=_grouped(self._owned),
            generation_id=generation_id,
            rack_id=config.client_rack or None,
        )
        # Earlier versions have no rack.
        needs_newest = config.is_cooperative or bool(config.client_rack)
        return encode_subscription(subscription, COOPERATIVE_VERSION if needs_newest else EAGER_VERSION)

    async def _assignments(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Return the leader's assignments; other members send none."""
        self._topics.watched = None
        if response.leader != response.member_id:
            return []
        members = read_members(response.members)
        topics = sorted({topic for member in members.values() for topic in member.topics})
        for topic in topics:
            self._client.want_topic(topic, pinned=True)
        cluster = await self._client.metadata(topics)
        counts = partition_counts(cluster, topics)
        self._topics.watched = counts
        if response.skip_assignment:
            return []
        strategy = next(each for each in self._config.strategies if each.name == response.protocol_name)
        return assign(strategy, counts, members=members, racks=racks_of(cluster, topics))

    async def _sync(
        self, connection: Connection, assignments: list[SyncGroupRequestAssignment]
    ) -> ErrorAction:
        sent = self.generation
        instance_id = self._config.group_instance_id
        request = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=instance_id or None,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=sent.protocol,
            assignments=assignments,
        )
        minimum = _FIRST_STATIC_SYNC if instance_id else 0
        version = connection.versions.choose(SyncGroupRequest, min_version=minimum)
        seconds = self._client.config.request_timeout_ms / 1000
        response: SyncGroupResponse = await connection.request(request, version, seconds=seconds)
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            return self._unless_fatal(self._membership.sync_failed(code, sent), code)
        is_other = response.protocol_name not in (None, sent.protocol)
        if is_other or response.protocol_type not in (None, PROTOCOL_TYPE):
            raise self._refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        assignment = read_assignment(response.assignment)
        if self._membership.synced(sent):
            self.assignment = assignment
        return ErrorAction.REJOIN

    def _unless_fatal(self, action: ErrorAction, code: ErrorCode) -> ErrorAction:
        if action is ErrorAction.FATAL:
            raise self._refusal(code)
        return action

    def _refusal(self, code: ErrorCode) -> KafkaError:
        return KafkaError(
            code, f"cannot join group `{self._config.group_id}`: {code.description}", hint=_HINTS.get(code)
        )


_HINTS = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "`partition.assignment.strategy` must name an assignor that all "
    "members have",
    ErrorCode.INVALID_SESSION_TIMEOUT: "the broker allows `group.min.session.timeout.ms` to "
    "`group.max.session.timeout.ms`",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the broker's `group.max.size` limits it",
    ErrorCode.FENCED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
}
