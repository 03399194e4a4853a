"""The goal of a plan, and two strategies to reach it. Pure.

`spread` places every partition anew, as Kafka's tool does. `minimal` keeps every replica that may stay. It
fills gaps with the brokers that hold least, of the topic and then in total. If brokers are given, it also
balances them with as few moves as possible: each move takes a replica from a broker that has at least two
more. Then it balances leaders, which moves no data. A replica goes to a rack that has none of its partition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kcli.assignors.replica_placer import Candidate, place_replicas
from kcli.commands.reassignment.plan import Assignment
from kcli.commands.shared.formatting import counted, ids_text
from kcli.errors import KcliError
from kcli.protocol.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a plan.

    `candidates` are the brokers that may get replicas, `leaving` those that give up theirs, `factors` the
    number of replicas of each partition; `is_level` asks for an equal number on each candidate.
    """

    candidates: Sequence[Candidate]
    factors: Mapping[TopicPartition, int]
    leaving: frozenset[int] = frozenset()
    is_level: bool = False

    def check(self) -> None:
        """Raise `KcliError` for a goal that cannot be reached."""
        racks = [candidate.rack for candidate in self.candidates]
        if None in racks and any(racks):
            without = ids_text(candidate.node_id for candidate in self.candidates if candidate.rack is None)
            raise KcliError(
                f"not all brokers have a rack: {without}", hint="`--disable-rack-aware` places without racks"
            )
        for partition, factor in sorted(self.factors.items(), key=lambda each: (each[0].topic, -each[1])):
            if factor > len(self.candidates):
                ids = sorted(candidate.node_id for candidate in self.candidates)
                there = f"there {'is' if len(ids) == 1 else 'are'} {len(ids)}: {ids_text(ids)}"
                raise KcliError(
                    f"topic `{partition.topic}` needs {counted(factor, 'broker')} for its replicas, "
                    f"but {there if ids else 'none is left'}",
                    hint="drain fewer brokers, start or add others, or lower `--replication-factor`",
                )


def spread(
    current: Assignment, goal: Goal, *, start_index: int, shift: int
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return new replicas as if topics were created on the candidates, with the first partition's factor."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(current):
        topics[partition.topic].append(partition)
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for partitions in topics.values():
        placed = place_replicas(
            goal.candidates,
            partitions=len(partitions),
            replication_factor=goal.factors[partitions[0]],
            start_index=start_index,
            shift=shift,
        )
        proposed.update(zip(partitions, placed, strict=True))
    return proposed


def minimal(current: Assignment, goal: Goal) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions that change, with their new replicas."""
    placement = _Placement(current, goal)
    for partition in placement.replicas:
        placement.shrink(partition)
    for partition in placement.replicas:
        placement.fill(partition)
    if goal.is_level:
        for partition in placement.replicas:
            placement.mend_racks(partition)
        placement.level_topics()
        # Racks may forbid a move until another one has been made.
        while placement.level_all() and placement.level_topics():
            pass
    placement.level_leaders(placement.replicas if goal.is_level else placement.changed(current))
    return placement.changed(current)


class _Placement:
    """The replicas of partitions while a plan is made, and the number that each broker holds."""

    def __init__(self, current: Assignment, goal: Goal) -> None:
        self._goal = goal
        self._racks = {candidate.node_id: candidate.rack for candidate in goal.candidates}
        self._candidates = sorted(self._racks)
        self._topics = sorted({partition.topic for partition in current})
        self._rack_count = len({rack for rack in self._racks.values() if rack is not None})
        self.replicas = {
            partition: [broker for broker in current[partition] if broker not in goal.leaving]
            for partition in sorted(current)
        }
        self._total: Counter[int] = Counter()
        # The partitions of a topic on a broker: a dict, for the same order in every run.
        self._on: dict[tuple[str, int], dict[TopicPartition, None]] = defaultdict(dict)
        for partition, brokers in self.replicas.items():
            for broker in brokers:
                self._put(partition, broker)

    def changed(self, current: Assignment) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the partitions whose replicas, or the order of them, have changed."""
        return {
            partition: tuple(brokers)
            for partition, brokers in self.replicas.items()
            if tuple(brokers) != tuple(current[partition])
        }

    def shrink(self, partition: TopicPartition) -> None:
        """Drop surplus replicas: one whose rack has another, else the fullest broker's; never the leader."""
        brokers = self.replicas[partition]
        while len(brokers) > self._goal.factors[partition]:
            racks = Counter(map(self._racks.get, brokers))
            dropped = max(
                brokers[1:],
                key=lambda broker: (
                    racks[self._racks.get(broker)] > 1,
                    *self._load(partition.topic, broker),
                    brokers.index(broker),
                ),
            )
            brokers.remove(dropped)
            self._take(partition, dropped)

    def fill(self, partition: TopicPartition) -> None:
        brokers = self.replicas[partition]
        while len(brokers) < self._goal.factors[partition]:
            used = self._used_racks(brokers)
            added = min(
                (broker for broker in self._candidates if broker not in brokers),
                key=lambda broker: (self._racks[broker] in used, *self._load(partition.topic, broker)),
            )
            brokers.append(added)
            self._put(partition, added)

    def mend_racks(self, partition: TopicPartition) -> None:
        """Move replicas that share a rack while another rack has none."""
        brokers = self.replicas[partition]
        while len(used := self._used_racks(brokers)) < min(len(brokers), self._rack_count):
            racks = Counter(map(self._racks.get, brokers))
            moved = [broker for broker in brokers if racks[self._racks.get(broker)] > 1][-1]
            to = min(
                (broker for broker in self._candidates if self._racks[broker] not in used),
                key=lambda broker: self._load(partition.topic, broker),
            )
            self._move(partition, moved, to)

    def level_topics(self) -> bool:
        """Move replicas until no broker has two more of a topic than another; return whether any moved."""
        has_moved = False
        for topic in self._topics:
            load = partial(self._held, topic)
            while any(self._move_one(self._on[topic, pair[0]], *pair) for pair in self._pairs(load)):
                has_moved = True
        return has_moved

    def level_all(self) -> bool:
        """Do the same for the total of all topics, in moves that keep each topic balanced."""
        has_moved = False
        while any(
            self._move_one(self._more_often(*pair), *pair) for pair in self._pairs(self._total.__getitem__)
        ):
            has_moved = True
        return has_moved

    def _more_often(self, source: int, target: int) -> Iterator[TopicPartition]:
        """Yield the partitions on `source` of topics of which it has more than `target`."""
        for topic in self._topics:
            if self._held(topic, source) > self._held(topic, target):
                yield from self._on[topic, source]

    def level_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        """Make another replica the first where the first one leads at least two partitions more."""
        chosen = list(partitions)
        leaders = Counter(brokers[0] for brokers in self.replicas.values())
        is_level = False
        while not is_level:
            is_level = True
            for partition in chosen:
                brokers = self.replicas[partition]
                alive = [broker for broker in brokers if broker in self._racks]
                idlest = min(alive, key=lambda broker: leaders[broker], default=brokers[0])
                if leaders[brokers[0]] - leaders[idlest] >= 2:
                    leaders[brokers[0]] -= 1
                    leaders[idlest] += 1
                    brokers.remove(idlest)
                    brokers.insert(0, idlest)
                    is_level = False

    def _pairs(self, load: Callable[[int], int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of brokers of which the first has at least two more, the largest difference first."""
        ordered = sorted((load(broker), broker) for broker in self._candidates)
        for more, source in reversed(ordered):
            for less, target in ordered:
                if more - less < 2:
                    break
                yield source, target

    def _move_one(self, partitions: Iterable[TopicPartition], source: int, target: int) -> bool:
        """Move one of these replicas of `source`, preferably not a leader; return whether one moved."""
        led: TopicPartition | None = None
        for partition in partitions:
            brokers = self.replicas[partition]
            if target in brokers or not self._keeps_racks(brokers, source, target):
                continue
            if brokers[0] != source:
                self._move(partition, source, target)
                return True
            led = led or partition
        if led is None:
            return False
        self._move(led, source, target)
        return True

    def _keeps_racks(self, brokers: Sequence[int], source: int, target: int) -> bool:
        """Tell whether a move leaves the partition in as many racks as before."""
        old, new = self._racks[source], self._racks[target]
        if old == new:
            return True
        others = {self._racks[broker] for broker in brokers if broker != source}
        return old in others or new not in others

    def _move(self, partition: TopicPartition, source: int, target: int) -> None:
        """Replace a replica; a replica that stays becomes the first, because it leads meanwhile."""
        brokers = self.replicas[partition]
        index = brokers.index(source)
        brokers.remove(source)
        brokers.insert(index or len(brokers), target)
        self._take(partition, source)
        self._put(partition, target)

    def _used_racks(self, brokers: Iterable[int]) -> set[str]:
        return {rack for rack in map(self._racks.get, brokers) if rack is not None}

    def _held(self, topic: str, broker: int) -> int:
        return len(self._on[topic, broker])

    def _load(self, topic: str, broker: int) -> tuple[int, int]:
        return self._held(topic, broker), self._total[broker]

    def _put(self, partition: TopicPartition, broker: int) -> None:
        self._total[broker] += 1
        self._on[partition.topic, broker][partition] = None

    def _take(self, partition: TopicPartition, broker: int) -> None:
        self._total[broker] -= 1
        del self._on[partition.topic, broker][partition]
