"""ConsumerHeartbeat: the exchange between a member of a KIP-848 group and its coordinator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from kcli.client.groups.classic_membership import ErrorAction
from kcli.client.groups.consumer_membership import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, ConsumerState
from kcli.client.groups.coordinator_link import is_passing
from kcli.client.groups.heartbeat import MemberHeartbeat
from kcli.client.network.backoff import Backoff
from kcli.client.network.connection import Disconnected, UnsupportedVersion
from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kcli.client.client import Client
    from kcli.client.config import ConsumerConfig
    from kcli.client.fetch.subscription_state import TopicSubscription
    from kcli.client.groups.consumer_membership import ConsumerMembership, Partitions
    from kcli.client.groups.coordinator_link import CoordinatorLink
    from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse


FIRST_EXPRESSION_VERSION = 1


class HeartbeatFields:
    """Builds the heartbeats of one member from what the last ones told (Kafka class `HeartbeatState`).

    A null field has not changed since the last heartbeat. The member sends all fields when it joins, and
    whenever the coordinator may not have received them.
    """

    def __init__(self, config: ConsumerConfig, topics: TopicSubscription) -> None:
        self._config = config
        self._topics = topics
        self._names: frozenset[str] | None = None
        self._expression: str | None = None
        self._owned: Partitions | None = None
        self._is_known = False

    @property
    def has_news(self) -> bool:
        """Return whether the subscription differs from the one last sent."""
        return self._is_known and (self._names, self._expression) != self._subscription()

    @property
    def min_version(self) -> int:
        """Return the first version that can carry the subscription."""
        return 0 if self._topics.expression is None else FIRST_EXPRESSION_VERSION

    def forget(self) -> None:
        """Send all fields with the next heartbeat."""
        self._is_known = False

    def next(self, membership: ConsumerMembership) -> ConsumerGroupHeartbeatRequest:
        config = self._config
        request = ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=membership.member_id,
            member_epoch=membership.epoch,
            instance_id=config.group_instance_id or None,
        )
        names, expression = self._subscription()
        tells_all = membership.is_joining or not self._is_known
        if tells_all:
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.rack_id = config.client_rack or None
            request.server_assignor = config.group_remote_assignor or None
        if tells_all or names != self._names:
            request.subscribed_topic_names = sorted(names)
        if tells_all or expression != self._expression:
            request.subscribed_topic_regex = expression
        if tells_all or membership.owned != self._owned:
            request.topic_partitions = _listed(membership.owned)
        self._names, self._expression, self._owned = names, expression, membership.owned
        self._is_known = True
        return request

    def last(self, membership: ConsumerMembership) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat with which the member leaves; a static one leaves for a while."""
        instance_id = self._config.group_instance_id or None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._config.group_id,
            member_id=membership.member_id,
            member_epoch=LEAVE_EPOCH if instance_id is None else STATIC_LEAVE_EPOCH,
            instance_id=instance_id,
        )

    def _subscription(self) -> tuple[frozenset[str], str | None]:
        expression = self._topics.expression
        return (frozenset() if expression is not None else self._topics.topics), expression


def says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    return request.subscribed_topic_names is None and request.topic_partitions is None


def _listed(owned: Partitions | None) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted((owned or {}).items())
    ]


class ConsumerHeartbeat(MemberHeartbeat):
    """The heartbeats of a member of a KIP-848 group.

    | what happened                              | what follows                                       |
    |--------------------------------------------|----------------------------------------------------|
    | the member joins, has reconciled, or its   | a heartbeat at once                                |
    | subscription has changed                   |                                                    |
    | the interval that the coordinator gave     | a heartbeat, one at a time                         |
    | no response, or a retriable error          | all fields again after a backoff                   |
    | an error that is not retriable             | `failure`                                          |
    """

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        *,
        link: CoordinatorLink,
        membership: ConsumerMembership,
        fields: HeartbeatFields,
        tell: Callable[[], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__(config, link, tell=tell, leave=leave)
        self._membership = membership
        self._fields = fields
        self._backoff = Backoff.of(client.config)
        self._next = -math.inf
        self._not_before = -math.inf

    def _due(self) -> float | None:
        if not self._membership.sends_heartbeats or self.failure is not None:
            return None
        is_urgent = self._membership.is_urgent or self._fields.has_news
        return self._not_before if is_urgent else max(self._next, self._not_before)

    async def _beat(self) -> None:
        action = ErrorAction.RETRY
        token = self._membership.token
        try:
            with trio.move_on_at(self._poll_ends):
                action = await self._send(token)
        except KcliError as error:
            if isinstance(error, Disconnected):
                self._link.forget()
            if not is_passing(error):
                if isinstance(error, UnsupportedVersion):
                    error = UnsupportedVersion(error.message, hint=_HINTS[ErrorCode.UNSUPPORTED_VERSION])
                self._fail(error)
                return
        if action is ErrorAction.IGNORE:
            self._backoff.reset()
            self._not_before = -math.inf
        else:
            self._fields.forget()
            if action is ErrorAction.LOOK_UP:
                self._link.forget()
            self._not_before = self._next = trio.current_time() + self._backoff.next_delay()

    async def _send(self, token: object) -> ErrorAction:
        connection = await self._link.connection()
        if token is not self._membership.token:
            return ErrorAction.IGNORE  # the membership changed while the coordinator was looked up
        first = self._fields.min_version
        version = connection.versions.choose(ConsumerGroupHeartbeatRequest, min_version=first)
        sent_at = trio.current_time()
        was_stable = self._membership.state is ConsumerState.STABLE
        request = self._fields.next(self._membership)
        self._membership.sent()
        response: ConsumerGroupHeartbeatResponse = await connection.request(request, version)
        if response.error_code:
            return self._refused(response, token)
        self._next = sent_at + response.heartbeat_interval_ms / 1000
        self._membership.answered(response, token, was_stable=was_stable and says_nothing(request))
        self._tell()
        return ErrorAction.IGNORE

    def _refused(self, response: ConsumerGroupHeartbeatResponse, token: object) -> ErrorAction:
        code = ErrorCode.of(response.error_code)
        action = self._membership.refused(code, token)
        if action is ErrorAction.FATAL:
            what = "join" if self._membership.is_joining else "stay in"
            what = f"cannot {what} group `{self._config.group_id}`"
            why = response.error_message or code.description
            raise KafkaError(code, f"{what}: {why}", hint=_HINTS.get(code))
        self._tell()
        return action

    def _fail(self, error: KcliError) -> None:
        self._membership.fail()
        super()._fail(error)


_HINTS = {
    ErrorCode.UNSUPPORTED_VERSION: "set `group.protocol` to classic for older brokers, and for brokers whose "
    "`group.version` is 0",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "`group.remote.assignor` must be one of the broker's "
    "`group.consumer.assignors`",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the broker's `group.consumer.max.size` limits it",
    ErrorCode.UNRELEASED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
    ErrorCode.FENCED_INSTANCE_ID: "every member needs a `group.instance.id` of its own",
    ErrorCode.GROUP_ID_NOT_FOUND: "set `group.protocol` to classic to join a group whose classic members "
    "cannot be upgraded",
}
