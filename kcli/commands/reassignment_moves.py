"""What a plan means beside the cluster's state: a proposal, moves and their throttles, how far they are.

Pure. Texts and orders are those of Kafka's `ReassignPartitionsCommand`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.assignors.replica_placer import Candidate, place_replicas
from kcli.client.admin.reassignments import PartitionReassignment
from kcli.client.metadata import TopicPartition
from kcli.commands.reassignment_plan import Assignment
from kcli.commands.reassignment_view import COMPLETED, DIFFERENT, MOVING, PartitionState, ids
from kcli.errors import KcliError


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


def propose(
    current: Assignment, candidates: Sequence[Candidate], *, start_index: int, shift: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return new replicas for every partition of some topics, as many as the topic's first one has."""
    racks = [candidate.rack for candidate in candidates]
    if None in racks and any(racks):
        without = ids(candidate.node_id for candidate in candidates if candidate.rack is None)
        raise KcliError(
            f"not all brokers have a rack: {without}", hint="`--disable-rack-aware` places without racks"
        )
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(current):
        topics[partition.topic].append(partition)
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, partitions in topics.items():
        factor = len(current[partitions[0]])
        if factor > len(candidates):
            raise KcliError(
                f"topic `{topic}` has {factor} replicas, but only {len(candidates)} brokers are given"
            )
        placed = place_replicas(
            candidates,
            partitions=len(partitions),
            replication_factor=factor,
            start_index=start_index,
            shift=shift,
        )
        proposed.update(zip(partitions, placed, strict=True))
    return proposed


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
