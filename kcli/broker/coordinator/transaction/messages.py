"""Messages: what a shard of transactions sends to its node, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Markers:
    """Write the markers of a transaction, and report each partition that has its own.

    The record PrepareCommit or PrepareAbort is committed. `producer_epoch` is that of the record;
    `coordinator_partition` and `coordinator_epoch` name the shard: its partition of `__transaction_state`,
    and the leader epoch in which its node opened it.
    """

    coordinator_partition: int
    coordinator_epoch: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DropMarkers:
    """Forget all markers of a shard that this node no longer holds."""

    coordinator_partition: int


@dataclass(frozen=True, slots=True)
class TransitionEnded:
    """A transactional id is not in transition any more: what waits for it can be tried again."""

    transactional_id: str
