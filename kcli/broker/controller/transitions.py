"""The states of partitions and replicas, and which follows which (classes `PartitionState`, `ReplicaState`).

Nobody keeps these states: they are what an image says of a partition or a replica, put into the words that
people and metrics use. The tables say what one decision may make of them; a batch may hold several steps, as
when a topic is deleted: its partitions go offline first and then do not exist.

    partition  NonExistent -> New -> Online <-> Offline -> NonExistent
    replica    NonExistent -> New -> Online <-> Offline -> DeletionStarted -> DeletionSuccessful
               DeletionSuccessful -> NonExistent
               DeletionStarted, Offline -> DeletionIneligible -> Online, Offline
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.metadata_image import MetadataImage, PartitionRegistration


class PartitionState(Enum):
    """What a partition is."""

    NON_EXISTENT = "it was never created, or is deleted"
    NEW = "it has replicas and never had a leader"
    ONLINE = "it has a leader"
    OFFLINE = "it has lost its leader"


class ReplicaState(Enum):
    """What a replica is."""

    NON_EXISTENT = "the broker has no such replica"
    NEW = "it is being filled, for a reassignment"
    ONLINE = "its broker and its directory are there"
    OFFLINE = "its broker or its directory is not there"
    DELETION_STARTED = "its broker is deleting it"
    DELETION_SUCCESSFUL = "its broker has deleted it"
    DELETION_INELIGIBLE = "it cannot be deleted now"


_P, _R = PartitionState, ReplicaState

PARTITION_TRANSITIONS: Mapping[PartitionState, frozenset[PartitionState]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
"""By state, from which it may be reached in one step."""

REPLICA_TRANSITIONS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.DELETION_STARTED, _R.OFFLINE}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""By state, from which it may be reached in one step."""

S = TypeVar("S")


def is_legal(table: Mapping[S, frozenset[S]], before: S, after: S) -> bool:
    """True if one step leads from `before` to `after`."""
    return before in table[after]


def steps(table: Mapping[S, frozenset[S]], before: S, after: S) -> tuple[S, ...]:
    """Return the states on the shortest way from `before` to `after`, without the first."""
    ways: deque[tuple[S, ...]] = deque([()])
    seen = {before}
    while ways:
        way = ways.popleft()
        here = way[-1] if way else before
        if here == after:
            return way
        for following in table:
            if following not in seen and here in table[following]:
                seen.add(following)
                ways.append((*way, following))
    raise ValueError(f"no way leads from {before} to {after}")


def partition_state(partition: PartitionRegistration | None) -> PartitionState:
    """Return the state of a partition, None for one that the image does not have."""
    if partition is None:
        return PartitionState.NON_EXISTENT
    if partition.leader >= 0:
        return PartitionState.ONLINE
    return PartitionState.OFFLINE if partition.leader_epoch > 0 else PartitionState.NEW


def replica_state(
    image: MetadataImage, partition: PartitionRegistration | None, node_id: int
) -> ReplicaState:
    """Return the state of a broker's replica of a partition.

    That something is being deleted stands in no image: the node does it, or will when it is back.
    """
    if partition is None or node_id not in partition.replicas:
        return ReplicaState.NON_EXISTENT
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced or not broker.has_online(partition.directory_of(node_id)):
        return ReplicaState.OFFLINE
    if node_id in partition.adding and node_id not in partition.isr:
        return ReplicaState.NEW
    return ReplicaState.ONLINE
