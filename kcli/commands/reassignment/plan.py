"""A reassignment plan: the replicas that partitions shall have, in the files of Kafka's tools. Pure.

A plan is `{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…],"log_dirs":["any",…]}]}`, a list
of topics to plan for is `{"version":1,"topics":[{"topic":…}]}`. A missing version is 1, missing log
directories are all "any", others are absolute paths. The document of `generate -o json` counts as the plan in
it. Texts and orders are those of Kafka's `ReassignPartitionsCommand`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kcli.client.admin.reassignments import PartitionReassignment
from kcli.client.admin.replicas import ReplicaPlace, TopicPartitionReplica
from kcli.commands.reassignment.view import Copy, LogDirState, PartitionState, ReassignmentState
from kcli.commands.shared.arguments import LARGEST_INT32, whole_number
from kcli.commands.shared.input_files import Entry, entries_of, parse_json
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
        return sorted({partition.topic for partition in self.replicas})

    def states(
        self, current: Assignment, moving: Mapping[TopicPartition, PartitionReassignment]
    ) -> list[PartitionState]:
        """Return the state of each partition; the order of replicas counts, a missing partition has none."""
        states = []
        for partition, target in sorted(self.replicas.items()):
            if partition in moving:
                state, replicas = ReassignmentState.MOVING, moving[partition].replicas
            else:
                replicas = current.get(partition, ())
                is_done = tuple(replicas) == tuple(target)
                state = ReassignmentState.COMPLETED if is_done else ReassignmentState.DIFFERENT
            states.append(PartitionState(*partition, state, replicas, target))
        return states

    def log_dir_states(self, places: Mapping[TopicPartitionReplica, ReplicaPlace]) -> list[LogDirState]:
        """Return the state of each replica that has a planned log directory."""
        states = []
        for replica in sorted(self.log_dirs, key=lambda each: (each.broker, each.topic, each.partition)):
            target, place = self.log_dirs[replica], places.get(replica, ReplicaPlace())
            if place.log_dir is None:
                state = ReassignmentState.MISSING
            elif place.future_log_dir == target:
                state = ReassignmentState.MOVING
            elif place.future_log_dir is not None:
                state = ReassignmentState.MOVING_ELSEWHERE
            elif place.log_dir == target:
                state = ReassignmentState.COMPLETED
            else:
                state = ReassignmentState.DIFFERENT
            states.append(LogDirState(*replica, state, place.log_dir, place.future_log_dir, target))
        return states

    def copies(self, current: Assignment, places: Mapping[TopicPartitionReplica, ReplicaPlace]) -> list[Copy]:
        """Return the logs that the plan copies, in ascending order."""
        copies = []
        for partition, replicas in sorted(self.replicas.items()):
            sizes = [
                places[replica].size_bytes
                for replica in (TopicPartitionReplica(*partition, broker) for broker in current[partition])
                if replica in places
            ]
            for broker in sorted(replicas):
                replica = TopicPartitionReplica(*partition, broker)
                log_dir = self.log_dirs.get(replica)
                if broker not in current[partition]:
                    copies.append(Copy(replica, max(sizes, default=None), log_dir))
                elif log_dir is not None and replica in places and places[replica].log_dir != log_dir:
                    copies.append(Copy(replica, places[replica].size_bytes, log_dir))
        return copies


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """The brokers that a partition's replicas come from and go to."""

    sources: frozenset[int]
    destinations: frozenset[int]


@dataclass(frozen=True, slots=True)
class MoveMap:
    """The moves of partitions, from which throttles follow. Values and orders are those of Kafka's tool."""

    moves: Mapping[TopicPartition, PartitionMove] = field(default_factory=dict)

    @classmethod
    def proposed(
        cls, plan: Assignment, current: Assignment, moving: Mapping[TopicPartition, PartitionReassignment]
    ) -> MoveMap:
        """Return the moves of a plan together with those that are under way already."""
        moves = {
            partition: PartitionMove(
                frozenset(each.replicas) - frozenset(each.adding), frozenset(each.adding)
            )
            for partition, each in moving.items()
        }
        for partition, replicas in plan.items():
            sources = moves[partition].sources if partition in moves else frozenset(current[partition])
            moves[partition] = PartitionMove(sources, frozenset(replicas) - sources)
        return cls(moves)

    @property
    def topics(self) -> set[str]:
        return {partition.topic for partition in self.moves}

    def brokers(self) -> list[int]:
        """Return the brokers that send or receive replicas, in ascending order."""
        return sorted(set().union(*(move.sources | move.destinations for move in self.moves.values())))

    def leader_throttles(self) -> dict[str, str]:
        """Return the value of `leader.replication.throttled.replicas` of each topic."""
        return _throttles({partition: move.sources for partition, move in self.moves.items()})

    def follower_throttles(self) -> dict[str, str]:
        """Return the value of `follower.replication.throttled.replicas` of each topic."""
        return _throttles({partition: move.destinations for partition, move in self.moves.items()})


def _throttles(brokers: Mapping[TopicPartition, frozenset[int]]) -> dict[str, str]:
    topics: dict[str, set[str]] = defaultdict(set)
    for (topic, index), found in brokers.items():
        topics[topic].update(f"{index}:{broker}" for broker in found)
    # Kafka sorts them as text: 10:1 comes before 2:1.
    return {topic: ",".join(sorted(replicas)) for topic, replicas in topics.items()}


PLAN_HINT = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}'
TOPICS_HINT = '{"version":1,"topics":[{"topic":"orders"}]}'
ELECTION_HINT = '{"partitions":[{"topic":"orders","partition":0}]}'

ANY_LOG_DIR = "any"


def parse_plan(text: str, source: str) -> Plan:
    """Return the plan in a document; errors name `source`."""
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    named: dict[TopicPartitionReplica, str] = {}
    for entry in _entries(text, source, "partitions", PLAN_HINT):
        partition, replicas, log_dirs = _planned(entry)
        if partition in plan:
            raise UsageError(f"`{source}` names a partition twice: {partition}")
        plan[partition] = replicas
        for broker, log_dir in zip(replicas, log_dirs, strict=True):
            if log_dir != ANY_LOG_DIR:
                named[TopicPartitionReplica(*partition, broker)] = log_dir
    return Plan(plan, named)


def parse_topics(text: str, source: str) -> list[str]:
    return [entry.name("topic") for entry in _entries(text, source, "topics", TOPICS_HINT)]


def parse_election(text: str, source: str) -> list[TopicPartition]:
    """Return the partitions in a document of `preferred-replica-election`."""
    partitions = [_partition(entry) for entry in _entries(text, source, "partitions", ELECTION_HINT)]
    refuse_twice(partitions, f"`{source}` names a partition twice")
    return partitions


def parse_brokers(text: str, option: str) -> list[int]:
    """Return the brokers of a list like `1,2,3`; errors name `option`."""
    brokers: list[int] = []
    for word in text.split(","):
        broker = whole_number(word.strip(), LARGEST_INT32)
        if broker is None:
            raise UsageError(f"`{option}` needs ids separated by commas: {text}")
        brokers.append(broker)
    refuse_twice(brokers, f"`{option}` names a broker twice")
    return brokers


def plan_json(
    assignment: Assignment, places: Mapping[TopicPartitionReplica, ReplicaPlace] | None = None
) -> str:
    """Return a plan as Kafka's tool writes it, ascending, with log directories from `places` or "any"."""
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
    """Raise `UsageError` for an item that occurs twice."""
    seen = set()
    for item in items:
        if item in seen:
            raise UsageError(f"{complaint}: {item}")
        seen.add(item)


def _entries(text: str, source: str, field: str, hint: str) -> Sequence[Entry]:
    document = parse_json(text, source, hint=hint)
    if isinstance(document, dict) and document.keys() >= {"current", "proposed"}:
        document = document["proposed"]
    return entries_of(document, source, field=field, hint=hint)


def _partition(entry: Entry) -> TopicPartition:
    partition = TopicPartition(entry.name("topic"), entry.number_of("partition"))
    if not _is_number(partition.partition):
        raise entry.refused(f"`partition` must be from 0 to {LARGEST_INT32}", partition.partition)
    return partition


def _planned(entry: Entry) -> tuple[TopicPartition, tuple[int, ...], Sequence[str]]:
    partition = _partition(entry)
    replicas: list[int] = []
    for broker in entry.list_of("replicas"):
        if type(broker) is not int or not _is_number(broker):
            raise entry.refused("`replicas` must hold ids of brokers", broker)
        replicas.append(broker)
    if not replicas:
        raise entry.refused("`replicas` is empty")
    refuse_twice(replicas, f"`{entry.source}` names a broker twice for {partition}")
    return partition, tuple(replicas), _log_dirs(entry, len(replicas))


def _log_dirs(entry: Entry, count: int) -> Sequence[str]:
    if entry.fields.get("log_dirs") is None:
        return [ANY_LOG_DIR] * count
    log_dirs: list[str] = []
    for log_dir in entry.list_of("log_dirs"):
        if not isinstance(log_dir, str) or (log_dir != ANY_LOG_DIR and not log_dir.startswith("/")):
            raise entry.refused(f'`log_dirs` must hold absolute paths or "{ANY_LOG_DIR}"', log_dir)
        log_dirs.append(log_dir)
    if len(log_dirs) != count:
        raise entry.refused(f"`log_dirs` must be as long as `replicas`: {len(log_dirs)} and {count}")
    return log_dirs


def _is_number(value: object) -> bool:
    """Tell whether a value is an id or an index; a boolean is neither."""
    return type(value) is int and 0 <= value <= LARGEST_INT32
