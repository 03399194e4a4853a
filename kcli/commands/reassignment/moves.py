"""What a plan means beside the cluster's state: moves and their throttles, copies, and how far all is.

Pure. Texts and orders are those of Kafka's `ReassignPartitionsCommand`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from kcli.client.admin.replicas import PartitionReassignment, ReplicaPlace, TopicPartitionReplica
from kcli.commands.reassignment.plan import Assignment, Plan
from kcli.commands.reassignment.view import (
    ASTRAY,
    COMPLETED,
    DIFFERENT,
    MISSING,
    MOVING,
    LogDirState,
    PartitionState,
)
from kcli.protocol.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Move:
    """The brokers that a partition's replicas come from and go to."""

    sources: frozenset[int]
    destinations: frozenset[int]


def compare(
    plan: Assignment, current: Assignment, moving: Mapping[TopicPartition, PartitionReassignment]
) -> list[PartitionState]:
    """Return how each partition of a plan stands to it; one that does not exist has no replicas.

    The order of replicas counts: the first is the preferred leader.
    """
    states = []
    for partition, target in sorted(plan.items()):
        if partition in moving:
            state, replicas = MOVING, moving[partition].replicas
        else:
            replicas = current.get(partition, ())
            state = COMPLETED if tuple(replicas) == tuple(target) else DIFFERENT
        states.append(PartitionState(*partition, state, replicas, target))
    return states


@dataclass(frozen=True, slots=True)
class Copy:
    """A log that a broker gets: of another broker, or of another directory of its own.

    `size_bytes` is that of the log it is copied from, None where no broker tells.
    """

    replica: TopicPartitionReplica
    size_bytes: int | None
    log_dir: str | None = None


def copies_of(
    plan: Plan, current: Assignment, places: Mapping[TopicPartitionReplica, ReplicaPlace]
) -> list[Copy]:
    """Return the logs that a plan has copied, in ascending order."""
    copies = []
    for partition, replicas in sorted(plan.replicas.items()):
        sizes = [
            places[replica].size_bytes
            for replica in (TopicPartitionReplica(*partition, broker) for broker in current[partition])
            if replica in places
        ]
        for broker in sorted(replicas):
            replica = TopicPartitionReplica(*partition, broker)
            log_dir = plan.log_dirs.get(replica)
            if broker not in current[partition]:
                copies.append(Copy(replica, max(sizes, default=None), log_dir))
            elif log_dir is not None and replica in places and places[replica].log_dir != log_dir:
                copies.append(Copy(replica, places[replica].size_bytes, log_dir))
    return copies


def compare_log_dirs(plan: Plan, places: Mapping[TopicPartitionReplica, ReplicaPlace]) -> list[LogDirState]:
    """Return how each replica stands to the log directory that a plan names for it."""
    states = []
    for replica in sorted(plan.log_dirs, key=lambda each: (each.broker, each.topic, each.partition)):
        target, place = plan.log_dirs[replica], places.get(replica, ReplicaPlace())
        if place.log_dir is None:
            state = MISSING
        elif place.future_log_dir is not None:
            state = MOVING if place.future_log_dir == target else ASTRAY
        else:
            state = COMPLETED if place.log_dir == target else DIFFERENT
        states.append(LogDirState(*replica, state, place.log_dir, place.future_log_dir, target))
    return states


def moves_of(
    plan: Assignment, current: Assignment, moving: Mapping[TopicPartition, PartitionReassignment]
) -> dict[TopicPartition, Move]:
    """Return every move there will be: those of the plan, and those under way already."""
    moves = {
        partition: Move(
            frozenset(reassignment.replicas) - frozenset(reassignment.adding), frozenset(reassignment.adding)
        )
        for partition, reassignment in moving.items()
    }
    for partition, replicas in plan.items():
        sources = moves[partition].sources if partition in moves else frozenset(current[partition])
        moves[partition] = Move(sources, frozenset(replicas) - sources)
    return moves


def leader_throttles(moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """Return per topic the value of `leader.replication.throttled.replicas`."""
    return _throttles({partition: move.sources for partition, move in moves.items()})


def follower_throttles(moves: Mapping[TopicPartition, Move]) -> dict[str, str]:
    """Return per topic the value of `follower.replication.throttled.replicas`."""
    return _throttles({partition: move.destinations for partition, move in moves.items()})


def moving_brokers(moves: Mapping[TopicPartition, Move]) -> list[int]:
    """Return the brokers that send or receive replicas, in ascending order."""
    return sorted(set().union(*(move.sources | move.destinations for move in moves.values())))


def _throttles(brokers: Mapping[TopicPartition, frozenset[int]]) -> dict[str, str]:
    topics: dict[str, set[str]] = defaultdict(set)
    for (topic, index), found in brokers.items():
        topics[topic].update(f"{index}:{broker}" for broker in found)
    # Sorted as text, as Kafka does: 10:1 comes before 2:1.
    return {topic: ",".join(sorted(replicas)) for topic, replicas in topics.items()}
