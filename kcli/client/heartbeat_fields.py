"""HeartbeatFields: what a member of a KIP-848 group tells its coordinator, and what it need not tell again.

A field that is null has not changed since the last heartbeat. All of them are told when the member joins,
and whenever it is not certain that the coordinator has heard them. Kafka class `HeartbeatState`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.client.consumer_membership import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

if TYPE_CHECKING:
    from kcli.client.config import ConsumerConfig
    from kcli.client.consumer_membership import ConsumerMembership, Partitions
    from kcli.client.topic_subscription import TopicSubscription

FIRST_EXPRESSION_VERSION = 1


class HeartbeatFields:
    """The heartbeats of one member, and what the last ones told."""

    def __init__(self, config: ConsumerConfig, topics: TopicSubscription) -> None:
        self._config = config
        self._topics = topics
        self._names: frozenset[str] | None = None
        self._expression: str | None = None
        self._owned: Partitions | None = None
        self._is_known = False

    @property
    def has_news(self) -> bool:
        """Return whether the subscription is another than the coordinator was told."""
        return self._is_known and (self._names, self._expression) != self._subscription()

    @property
    def min_version(self) -> int:
        """Return the first version that can tell the subscription."""
        return 0 if self._topics.expression is None else FIRST_EXPRESSION_VERSION

    def forget(self) -> None:
        """Tell everything anew."""
        self._is_known = False

    def next(self, membership: ConsumerMembership) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat that goes out now."""
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
        """Return the heartbeat by which the member leaves; a static one will be back."""
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
    """Return whether a heartbeat only tells that its member lives."""
    return request.subscribed_topic_names is None and request.topic_partitions is None


def _listed(owned: Partitions | None) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted((owned or {}).items())
    ]
