"""A reassignment plan: which replicas partitions shall have, as files that Kafka's own tools read and write.

A plan is `{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":["any",…]}]}`, and
a list of topics to plan for is `{"version":1,"topics":[{"topic":…}]}`. A version that is missing is 1, log
directories that are missing are all "any"; others are absolute paths. The document of `generate -o json`
stands for the plan in it. Pure: text in, values out, `UsageError` for what cannot be meant.

What a plan means beside the cluster's state: moves and their throttles, copies, and how far all is.

Pure. Texts and orders are those of Kafka's `ReassignPartitionsCommand`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kcli.client.admin.replicas import PartitionReassignment, ReplicaPlace, TopicPartitionReplica
from kcli.commands.reassignment.view import (
    ASTRAY,
    COMPLETED,
    DIFFERENT,
    MISSING,
    MOVING,
    LogDirState,
    PartitionState,
)
from kcli.commands.shared.arguments import LARGEST_INT32, whole_number
from kcli.commands.shared.input_files import entries_of, parse_json
from kcli.commands.shared.java import java_json
from kcli.errors import UsageError
from kcli.protocol.topics import TopicPartition

Assignment: TypeAlias = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, the preferred leader first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The replicas of partitions, and the log directories of those replicas that name one."""

    replicas: Assignment
    log_dirs: Mapping[TopicPartitionReplica, str] = field(default_factory=dict)

    @property
    def topics(self) -> list[str]:
        """Return the topics, in ascending order."""
        return sorted({partition.topic for partition in self.replicas})


PLAN_HINT = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}'
TOPICS_HINT = '{"version":1,"topics":[{"topic":"orders"}]}'
ELECTION_HINT = '{"partitions":[{"topic":"orders","partition":0}]}'

ANY_LOG_DIR = "any"


def parse_plan(text: str, source: str) -> Plan:
    """Return the plan in a document; `source` names it in errors."""
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    named: dict[TopicPartitionReplica, str] = {}
    for entry in _entries(text, source, "partitions", PLAN_HINT):
        partition, replicas, log_dirs = _planned(entry, source)
        if partition in plan:
            raise UsageError(f"`{source}` names a partition twice: {partition}")
        plan[partition] = replicas
        for broker, log_dir in zip(replicas, log_dirs, strict=True):
            if log_dir != ANY_LOG_DIR:
                named[TopicPartitionReplica(*partition, broker)] = log_dir
    return Plan(plan, named)


def parse_topics(text: str, source: str) -> list[str]:
    """Return the topics in a document of topics to move."""
    topics: list[str] = []
    for entry in _entries(text, source, "topics", TOPICS_HINT):
        match entry:
            case {"topic": str(topic)} if topic:
                topics.append(_named(topic, source))
            case _:
                raise UsageError(f"`{source}` holds an entry without a topic", hint=TOPICS_HINT)
    return topics


def parse_election(text: str, source: str) -> list[TopicPartition]:
    """Return the partitions in a document of partitions to elect leaders of."""
    partitions = [
        _partition(entry, source, ELECTION_HINT)
        for entry in _entries(text, source, "partitions", ELECTION_HINT)
    ]
    refuse_twice(partitions, f"`{source}` names a partition twice")
    return partitions


def parse_brokers(text: str, option: str) -> list[int]:
    """Return the brokers of a list like `1,2,3`; `option` is named in errors."""
    brokers: list[int] = []
    for word in text.split(","):
        broker = whole_number(word.strip(), LARGEST_INT32)
        if broker is None:
            raise UsageError(f"`{option}` wants ids with commas between them: {text}")
        brokers.append(broker)
    refuse_twice(brokers, f"`{option}` names a broker twice")
    return brokers


def plan_json(
    assignment: Assignment, places: Mapping[TopicPartitionReplica, ReplicaPlace] | None = None
) -> str:
    """Return a plan as Kafka's tool writes it: on one line, in ascending order, with log directories.

    These are those of `places`, and "any" where it knows none.
    """
    known = places or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [
                known.get(TopicPartitionReplica(*partition, broker), ReplicaPlace()).log_dir or ANY_LOG_DIR
                for broker in replicas
            ],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return java_json({"version": 1, "partitions": partitions})


def refuse_twice(items: Iterable[object], complaint: str) -> None:
    """Refuse a list that holds something twice."""
    seen = set()
    for item in items:
        if item in seen:
            raise UsageError(f"{complaint}: {item}")
        seen.add(item)


def _entries(text: str, source: str, field: str, hint: str) -> Sequence[object]:
    document = parse_json(text, source, hint=hint)
    if isinstance(document, dict) and document.keys() >= {"current", "proposed"}:
        document = document["proposed"]
    return entries_of(document, source, field=field, hint=hint)


def _partition(entry: object, source: str, hint: str) -> TopicPartition:
    match entry:
        case {"topic": str(topic), "partition": int(index)} if topic and _is_number(index):
            return TopicPartition(_named(topic, source), index)
        case _:
            raise UsageError(f"`{source}` holds an entry without topic and partition", hint=hint)


def _named(topic: str, source: str) -> str:
    """Return a name that can be sent: not the half of a pair of surrogates."""
    if not topic.isascii():
        raise UsageError(f"`{source}` names a topic that cannot exist: {json.dumps(topic)}")
    return topic


def _planned(entry: object, source: str) -> tuple[TopicPartition, tuple[int, ...], Sequence[str]]:
    partition = _partition(entry, source, PLAN_HINT)
    match entry:
        case {"replicas": [*replicas], **others} if all(map(_is_number, replicas)):
            log_dirs = _log_dirs(others.get("log_dirs"), replicas, partition, source)
        case _:
            raise UsageError(f"`{source}` has no replicas for {partition}", hint=PLAN_HINT)
    if not replicas:
        raise UsageError(f"`{source}` has an empty list of replicas for {partition}")
    refuse_twice(replicas, f"`{source}` names a broker twice for {partition}")
    return partition, tuple(replicas), log_dirs


def _log_dirs(
    log_dirs: object, replicas: Sequence[object], partition: TopicPartition, source: str
) -> Sequence[str]:
    """Return the log directory of each replica."""
    if log_dirs is None:
        return [ANY_LOG_DIR] * len(replicas)
    if not isinstance(log_dirs, list) or len(log_dirs) != len(replicas):
        raise UsageError(f"`{source}` has not as many log directories as replicas for {partition}")
    for log_dir in log_dirs:
        if not isinstance(log_dir, str) or (log_dir != ANY_LOG_DIR and not log_dir.startswith("/")):
            raise UsageError(
                f"`{source}` has a log directory for {partition} that is none: {json.dumps(log_dir)}",
                hint=f'an absolute path, or "{ANY_LOG_DIR}"',
            )
    return log_dirs


def _is_number(value: object) -> bool:
    """Tell whether a value is an id or an index; True is an int, but no number."""
    return type(value) is int and 0 <= value <= LARGEST_INT32


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
