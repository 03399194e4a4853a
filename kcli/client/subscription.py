"""What a consumer reads: the assigned partitions and where it is in each.

A partition begins as INITIALIZING if the consumer has a group, else as AWAIT_RESET.

| state        | event                                   | next                                            |
|--------------|-----------------------------------------|-------------------------------------------------|
| INITIALIZING | the group's committed offset arrives    | FETCHING at that offset                         |
| INITIALIZING | the group has none                      | AWAIT_RESET with the configured strategy        |
| AWAIT_RESET  | `seek`                                  | FETCHING at that offset                         |
| AWAIT_RESET  | the reset's offset arrives              | FETCHING there, if it is still that reset       |
| FETCHING     | `seek_to_beginning`, `seek_to_end`      | AWAIT_RESET with that strategy                  |
| FETCHING     | offset out of range                     | AWAIT_RESET with the configured strategy        |

`position` is the offset of the next record to hand out; `fetch_position` runs ahead of it by what is
buffered. Every change that is not plain progress renews `token`: answers to earlier requests are dropped.
"""

from __future__ import annotations

import math
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from kcli.errors import KcliError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kcli.client.backoff import Backoff
    from kcli.client.completed_fetch import CompletedFetch
    from kcli.protocol.topics import TopicPartition

MAX_BUFFERED_FETCHES = 2
"""Answers kept per partition: one being handed out, one fetched ahead meanwhile."""


class NotAssigned(KcliError):
    """The partition is not assigned to this consumer."""


class FetchState(Enum):
    """Whether a partition has a position."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    FETCHING = "fetching"


class AssignedPartition:
    """One partition's state. Offsets the broker has not told yet are -1."""

    __slots__ = (
        "buffered", "committed", "fetch_position", "high_watermark", "is_idle", "is_in_flight", "is_paused",
        "last_stable_offset", "leader_epoch", "log_start_offset", "out_of_range", "partition", "position",
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
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.buffered: deque[CompletedFetch] = deque()

    @property
    def is_fetchable(self) -> bool:
        """Return whether a fetch may name it, its leader and backoff aside."""
        return (
            self.state is FetchState.FETCHING
            and not self.is_paused
            and not self.is_in_flight
            and len(self.buffered) < MAX_BUFFERED_FETCHES
        )

    @property
    def is_full(self) -> bool:
        """Return whether it would be fetched if less were buffered."""
        return not self.is_paused and len(self.buffered) >= MAX_BUFFERED_FETCHES

    def seek(self, offset: int) -> None:
        """Go on at an offset."""
        self._move(FetchState.FETCHING)
        self.position = self.fetch_position = offset
        self.position_epoch = -1

    def reset(self, strategy: str, *, out_of_range: int = -1) -> None:
        """Forget the position, or one that is out of range; `strategy` is a value of `auto.offset.reset`."""
        self._move(FetchState.AWAIT_RESET)
        self.reset_to = strategy
        self.out_of_range = out_of_range
        self.position = self.fetch_position = -1

    def drop_buffered(self) -> None:
        """Forget what is buffered and fetch again from the position."""
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


class Subscription:
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
        """Let the other partitions have their turns first."""
        found = self.partitions.pop(partition, None)
        if found is not None:
            self.partitions[partition] = found

    def initializing(self) -> list[AssignedPartition]:
        """Return the partitions whose committed offset is not known yet."""
        return [found for found in self.partitions.values() if found.state is FetchState.INITIALIZING]

    def awaiting_reset(self) -> list[AssignedPartition]:
        """Return the partitions without a position."""
        return [found for found in self.partitions.values() if found.state is FetchState.AWAIT_RESET]
