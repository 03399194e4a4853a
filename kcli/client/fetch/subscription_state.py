"""AssignedPartitions and TopicSubscription: what a consumer reads (Kafka class `SubscriptionState`)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kcli.errors import KcliError
from kcli.protocol.error_codes import ErrorCode
from kcli.protocol.topics import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kcli.client.fetch.completed_fetch import CompletedFetch
    from kcli.client.network.backoff import Backoff
    from kcli.client.network.metadata import ClusterMetadata
    from kcli.protocol.topics import TopicPartition


MAX_BUFFERED_FETCHES = 2
"""Responses kept per partition: one being handed out, one fetched ahead."""


class NotAssigned(KcliError):
    """The partition is not assigned to this consumer."""


class FetchState(Enum):
    """Whether a partition has a position."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    FETCHING = "fetching"


class AssignedPartition:
    """The state of one assigned partition. Offsets that the broker has not sent yet are -1.

    It begins as INITIALIZING if the consumer has a group, else as AWAIT_RESET.

    | state        | event                                   | next                                        |
    |--------------|-----------------------------------------|---------------------------------------------|
    | INITIALIZING | the group's committed offset arrives    | FETCHING at that offset                     |
    | INITIALIZING | the group has none                      | AWAIT_RESET with the configured strategy    |
    | AWAIT_RESET  | `seek`                                  | FETCHING at that offset                     |
    | AWAIT_RESET  | the reset's offset arrives              | FETCHING there, if it is still that reset   |
    | FETCHING     | `seek_to_beginning`, `seek_to_end`      | AWAIT_RESET with that strategy              |
    | FETCHING     | offset out of range                     | AWAIT_RESET with the configured strategy    |

    `position` is the offset of the next record to hand out; `fetch_position` is ahead of it by the buffered
    records. Every change except plain progress renews `token`: responses to earlier requests are dropped.
    """

    __slots__ = (
        "buffered", "committed", "fetch_position", "high_watermark", "is_idle", "is_in_flight", "is_paused",
        "leader_epoch", "out_of_range", "partition", "position",
        "position_epoch", "preferred_replica", "reset_backoff", "reset_to", "retry_at", "state", "token",
    )  # fmt: skip

    def __init__(
        self, partition: TopicPartition, reset_to: str, state: FetchState = FetchState.AWAIT_RESET
    ) -> None:
        self.partition = partition
        self.state = state
        self.reset_to = reset_to
        self.reset_backoff: Backoff | None = None
        self.out_of_range = -1
        self.position = -1
        self.position_epoch = -1
        self.fetch_position = -1
        self.committed = -1
        self.token = object()
        self.is_paused = False
        self.is_in_flight = False
        self.is_idle = False
        self.retry_at = -math.inf
        self.preferred_replica = -1
        self.leader_epoch = -1
        self.high_watermark = -1
        self.buffered: deque[CompletedFetch] = deque()

    @property
    def is_fetchable(self) -> bool:
        """Return whether a fetch may name it, apart from its leader and backoff."""
        return (
            self.state is FetchState.FETCHING
            and not self.is_paused
            and not self.is_in_flight
            and len(self.buffered) < MAX_BUFFERED_FETCHES
        )

    @property
    def is_full(self) -> bool:
        """Return whether only its full buffer prevents a fetch."""
        return not self.is_paused and len(self.buffered) >= MAX_BUFFERED_FETCHES

    def seek(self, offset: int) -> None:
        self._move(FetchState.FETCHING)
        self.position = self.fetch_position = offset
        self.position_epoch = -1

    def reset(self, strategy: str, *, out_of_range: int = -1) -> None:
        """Drop the position, or one that is out of range; `strategy` is a value of `auto.offset.reset`."""
        self._move(FetchState.AWAIT_RESET)
        self.reset_to = strategy
        self.out_of_range = out_of_range
        self.position = self.fetch_position = -1

    def drop_buffered(self) -> None:
        """Drop the buffer and fetch again from the position."""
        self.buffered.clear()
        self.fetch_position = self.position
        self.token = object()

    def _move(self, state: FetchState) -> None:
        self.state = state
        self.buffered.clear()
        self.token = object()
        self.retry_at = -math.inf
        self.reset_backoff = None
        self.out_of_range = -1
        self.is_idle = False


class AssignedPartitions:
    """The assigned partitions, in the order in which they take turns."""

    def __init__(self, reset_strategy: str, *, has_group: bool = False) -> None:
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.reset_strategy = reset_strategy
        self._first_state = FetchState.INITIALIZING if has_group else FetchState.AWAIT_RESET

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay keep their positions."""
        known, first = self.partitions, self._first_state
        self.partitions = {
            partition: known.get(partition) or AssignedPartition(partition, self.reset_strategy, first)
            for partition in partitions
        }

    def __getitem__(self, partition: TopicPartition) -> AssignedPartition:
        found = self.partitions.get(partition)
        if found is None:
            raise NotAssigned(f"partition {partition} is not assigned")
        return found

    def move_to_end(self, partition: TopicPartition) -> None:
        """Let the other partitions take their turns first."""
        found = self.partitions.pop(partition, None)
        if found is not None:
            self.partitions[partition] = found

    def in_state(self, state: FetchState) -> list[AssignedPartition]:
        return [found for found in self.partitions.values() if found.state is state]


class SubscriptionConflict(KcliError):
    """Topics, a pattern and partitions cannot be read together."""


@runtime_checkable
class TopicPattern(Protocol):
    """Matches whole names of topics: a `re.Pattern`, or a `TopicExpression`, which never takes long."""

    def fullmatch(self, topic: str, /) -> object:
        """Return something true if the whole name matches."""


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """An RE2 expression that the coordinator matches with topics, internal ones too."""

    expression: str


class SubscriptionMode(Enum):
    """Who decides what is read."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    BROKER = "what the broker matches"
    ASSIGNED = "partitions"


class TopicSubscription:
    """What a consumer subscribes to, and what its group knows of it. Pure: it is given metadata snapshots.

    | mode     | set by                   | what is assigned                                           |
    |----------|--------------------------|------------------------------------------------------------|
    | NONE     | `unsubscribe`            | nothing                                                    |
    | TOPICS   | `subscribe` of topics    | by the group, of these topics                              |
    | PATTERN  | `subscribe` of a pattern | by the group, of the topics whose whole name matches       |
    | BROKER   | `subscribe` of an RE2    | by the group, of the topics that its coordinator matches   |
    |          | expression               | (KIP-848)                                                  |
    | ASSIGNED | `assign`                 | the partitions that the application names                  |

    The modes exclude each other until `unsubscribe`.
    """

    def __init__(self, *, exclude_internal: bool) -> None:
        self.mode = SubscriptionMode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: TopicPattern | None = None
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
        """Set the mode; raise `SubscriptionConflict` if another one is set."""
        if self.mode not in (SubscriptionMode.NONE, mode):
            raise SubscriptionConflict(
                f"the consumer reads {self.mode.value} and cannot read {mode.value} too",
                hint="unsubscribe first",
            )
        self.mode = mode

    def subscribe(self, topics: Iterable[str]) -> None:
        self.become(SubscriptionMode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: TopicPattern, cluster: ClusterMetadata) -> None:
        self.become(SubscriptionMode.PATTERN)
        self.pattern = pattern
        self.topics = frozenset()
        self.update(cluster)

    def subscribe_expression(self, expression: str) -> None:
        """Read the topics that the coordinator matches; `topics` are then the assigned ones."""
        self.become(SubscriptionMode.BROKER)
        self.expression = expression

    def unsubscribe(self) -> None:
        self.mode = SubscriptionMode.NONE
        self.topics = frozenset()
        self.pattern = self.expression = self.joined = self.watched = None

    def update(self, cluster: ClusterMetadata) -> None:
        """Match the pattern again."""
        if self.mode is SubscriptionMode.PATTERN:
            self.topics = frozenset(name for name in cluster.topics if self._matches(name))

    def accepts(self, topic: str) -> bool:
        """Return whether an assignment may name this topic; the leader may know more matches."""
        return topic in self.topics or self._matches(topic)

    def change(self, cluster: ClusterMetadata) -> str | None:
        """Return why the group must be joined again, None if nothing has changed."""
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
            and bool(self.pattern.fullmatch(topic))
            and not (self._exclude_internal and topic in INTERNAL_TOPICS)
        )


def partition_counts(cluster: ClusterMetadata, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic, 0 for a missing one."""
    return {topic: _count(cluster, topic, 0) for topic in topics}


def _count(cluster: ClusterMetadata, topic: str, unknown: int) -> int:
    found = cluster.topics.get(topic)
    if found is not None:
        return len(found.partitions)
    # Other errors pass: a topic without a leader still has its partitions.
    return 0 if cluster.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else unknown
