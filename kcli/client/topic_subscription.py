"""TopicSubscription: what a consumer asked to read, and when that, or the topics themselves, have changed.

| mode     | set by                  | what is assigned                                            |
|----------|-------------------------|-------------------------------------------------------------|
| NONE     | `unsubscribe`           | nothing                                                     |
| TOPICS   | `subscribe` of topics   | by the group, of these topics                               |
| PATTERN  | `subscribe` of a pattern| by the group, of the topics whose whole name matches        |
| BROKER   | `subscribe` of an       | by the group, of the topics that its coordinator finds to   |
|          | RE2 expression          | match (KIP-848)                                             |
| ASSIGNED | `assign`                | what the application says                                   |

The modes exclude each other until `unsubscribe`. Pure: metadata snapshots come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    from kcli.client.metadata import ClusterMetadata


class SubscriptionConflict(KcliError):
    """Topics, a pattern and partitions cannot be read side by side."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """An RE2 expression for the coordinator to match topics against, internal ones too."""

    expression: str


class SubscriptionMode(Enum):
    """Who decides what is read."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    BROKER = "what the broker matches"
    ASSIGNED = "partitions"


class TopicSubscription:
    """What is asked for, and what the group was told of it."""

    def __init__(self, *, exclude_internal: bool) -> None:
        self.mode = SubscriptionMode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.expression: str | None = None
        self.joined: frozenset[str] | None = None
        """The topics that the last JoinGroup named."""
        self.watched: Mapping[str, int] | None = None
        """The partition counts by which this member, as leader, assigned; None for a follower."""
        self._exclude_internal = exclude_internal

    @property
    def is_of_group(self) -> bool:
        """Return whether the group decides what is assigned."""
        return self.mode in (SubscriptionMode.TOPICS, SubscriptionMode.PATTERN, SubscriptionMode.BROKER)

    def become(self, mode: SubscriptionMode) -> None:
        """Take a mode; raise `SubscriptionConflict` if there is another one."""
        if self.mode not in (SubscriptionMode.NONE, mode):
            raise SubscriptionConflict(
                f"the consumer reads {self.mode.value} and cannot read {mode.value} too",
                hint="unsubscribe first",
            )
        self.mode = mode

    def assign(self) -> None:
        """Read what the application says."""
        self.become(SubscriptionMode.ASSIGNED)

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics."""
        self.become(SubscriptionMode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str], cluster: ClusterMetadata) -> None:
        """Read the topics whose whole name matches."""
        self.become(SubscriptionMode.PATTERN)
        self.pattern = pattern
        self.topics = frozenset()
        self.update(cluster)

    def subscribe_expression(self, expression: str) -> None:
        """Read the topics that the coordinator finds to match; `topics` are those that it gave."""
        self.become(SubscriptionMode.BROKER)
        self.expression = expression

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.mode = SubscriptionMode.NONE
        self.topics = frozenset()
        self.pattern = self.expression = self.joined = self.watched = None

    def update(self, cluster: ClusterMetadata) -> None:
        """Match the pattern anew."""
        if self.mode is SubscriptionMode.PATTERN:
            self.topics = frozenset(name for name in cluster.topics if self._matches(name))

    def accepts(self, topic: str) -> bool:
        """Return whether an assignment may name this topic; with a pattern the leader may have known more."""
        return topic in self.topics or self._matches(topic)

    def change(self, cluster: ClusterMetadata) -> str | None:
        """Return why the group must be joined again, None if nothing has changed since."""
        if self.joined is not None and self.joined != self.topics:
            return "the subscription has changed"
        if self.watched is not None and self.watched != {
            topic: _count(cluster, topic, known) for topic, known in self.watched.items()
        }:
            return "the partitions of the group's topics have changed"
        return None

    def _matches(self, topic: str) -> bool:
        return (
            self.pattern is not None
            and self.pattern.fullmatch(topic) is not None
            and not (self._exclude_internal and topic in INTERNAL_TOPICS)
        )


def partition_counts(cluster: ClusterMetadata, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic, 0 for one that is not there."""
    return {topic: _count(cluster, topic, 0) for topic in topics}


def _count(cluster: ClusterMetadata, topic: str, unknown: int) -> int:
    found = cluster.topics.get(topic)
    if found is not None:
        return len(found.partitions)
    # Other errors pass: a topic without a leader still has its partitions.
    return 0 if cluster.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else unknown
