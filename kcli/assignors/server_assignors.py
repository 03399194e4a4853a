"""The assignors of KIP-848, which run in the broker: range and uniform.

Topics are the 16 bytes of their ids. A member's `assigned` is the target it had so far; `uniform` keeps of it
what it can, because no member reads a partition while it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from kcli.assignors.members import in_order

if TYPE_CHECKING:
    from kcli.protocol.topics import TopicIdPartition


Partitions = dict[bytes, frozenset[int]]
"""Partitions by topic id; a topic without any is left out."""


@dataclass(frozen=True, slots=True)
class ServerMember:
    """One member: the existing topics it subscribes to, and its target so far."""

    topics: frozenset[bytes]
    assigned: Mapping[bytes, frozenset[int]] = field(default_factory=dict)
    instance_id: str | None = None


ServerAssignor = Callable[[Mapping[bytes, int], Mapping[str, ServerMember]], dict[str, Partitions]]
"""Takes the partition counts of topics and the members, and returns the partitions of each member."""


def kept(member: ServerMember, counts: Mapping[bytes, int]) -> list[TopicIdPartition]:
    """Return, in order, the partitions a member had that exist and that it still wants."""
    return [
        (topic_id, partition)
        for topic_id in sorted(member.assigned.keys() & member.topics)
        for partition in sorted(member.assigned[topic_id])
        if partition < counts.get(topic_id, 0)
    ]


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> Partitions:
    gathered: dict[bytes, set[int]] = {}
    for topic_id, partition in partitions:
        gathered.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(numbers) for topic_id, numbers in gathered.items()}


def assign_range(counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> dict[str, Partitions]:
    """Cut each topic into contiguous pieces, the larger ones for the first members.

    Members stand in the order of `in_order`. The same members and topics always get the same pieces,
    whatever they had before (Kafka class `org.apache.kafka.coordinator.group.assignor.RangeAssignor`).
    """
    assignment: dict[str, Partitions] = {member_id: {} for member_id in members}
    readers: dict[bytes, list[str]] = {}
    for member_id in in_order({member_id: member.instance_id for member_id, member in members.items()}):
        for topic_id in members[member_id].topics:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in readers.items():
        share, extra = divmod(counts.get(topic_id, 0), len(member_ids))
        first = 0
        for position, member_id in enumerate(member_ids):
            behind = first + share + (position < extra)
            if behind > first:
                assignment[member_id][topic_id] = frozenset(range(first, behind))
            first = behind
    return assignment


MAX_ROUNDS = 16


def assign_uniform_mixed(
    counts: Mapping[bytes, int], members: Mapping[str, ServerMember]
) -> dict[str, Partitions]:
    """Balance members that subscribe to different topics (`UniformHeterogeneousAssignmentBuilder`).

    Every member keeps what it had and still wants. Then the free partitions go, topic by topic, to the least
    loaded of the topic's readers; topics with the most partitions per reader come first, because they leave
    the least choice. Last, partitions move from the most to the least loaded reader of their topic until
    these differ by one at most. A move can unbalance another topic, so the last step is repeated until a
    whole round moves nothing, at most 16 times.
    """
    plan = _Plan(counts, members)
    plan.place_free()
    for _ in range(MAX_ROUNDS):
        moved = [plan.balance(topic_id) for topic_id in plan.topics]
        if not any(moved):
            break
    return plan.assignment()


class _Plan:
    """The assignment while it is being decided. Readers of a topic stand in the order of their member ids."""

    def __init__(self, counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> None:
        self._counts = counts
        self._readers: dict[bytes, list[str]] = {}
        for member_id in sorted(members):
            for topic_id in members[member_id].topics:
                self._readers.setdefault(topic_id, []).append(member_id)
        self._owned: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in members}
        self._load = dict.fromkeys(members, 0)
        self._taken: set[TopicIdPartition] = set()
        for member_id, member in members.items():
            for topic_id, partition in kept(member, counts):
                self._give(topic_id, partition, member_id)
        self.topics = sorted(self._readers, key=self._least_choice_first)

    def place_free(self) -> None:
        """Give every free partition to the least loaded reader of its topic."""
        for topic_id in self.topics:
            least = self._least_loaded(topic_id)
            for partition in range(self._counts.get(topic_id, 0)):
                if (topic_id, partition) not in self._taken:
                    self._give(topic_id, partition, least[0][1])
                    heapreplace(least, (least[0][0] + 1, least[0][1]))

    def balance(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from its most to its least loaded readers; return whether any moved."""
        least = self._least_loaded(topic_id)
        most = [
            (-self._load[member_id], member_id)
            for member_id in self._readers[topic_id]
            if self._owned[member_id].get(topic_id)
        ]
        heapify(most)
        moved = False
        # A receiver never becomes a giver or the reverse: both heaps close in on one level.
        while most and -most[0][0] - least[0][0] > 1:
            load, giver = -most[0][0], most[0][1]
            self._give(topic_id, self._take(topic_id, giver), least[0][1])
            heapreplace(least, (least[0][0] + 1, least[0][1]))
            if self._owned[giver][topic_id]:
                heapreplace(most, (1 - load, giver))
            else:
                heappop(most)
            moved = True
        return moved

    def assignment(self) -> dict[str, Partitions]:
        return {
            member_id: partitions_by_topic(
                (topic_id, partition) for topic_id in owned for partition in owned[topic_id]
            )
            for member_id, owned in self._owned.items()
        }

    def _least_loaded(self, topic_id: bytes) -> list[tuple[int, str]]:
        least = [(self._load[member_id], member_id) for member_id in self._readers[topic_id]]
        heapify(least)
        return least

    def _least_choice_first(self, topic_id: bytes) -> tuple[float, int, bytes]:
        readers = len(self._readers[topic_id])
        return (-self._counts.get(topic_id, 0) / readers, readers, topic_id)

    def _give(self, topic_id: bytes, partition: int, member_id: str) -> None:
        if (topic_id, partition) not in self._taken:
            self._taken.add((topic_id, partition))
            self._owned[member_id].setdefault(topic_id, []).append(partition)
            self._load[member_id] += 1

    def _take(self, topic_id: bytes, member_id: str) -> int:
        partition = self._owned[member_id][topic_id].pop()
        self._taken.discard((topic_id, partition))
        self._load[member_id] -= 1
        return partition


def assign_uniform(counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> dict[str, Partitions]:
    """Let all members read about equally much, and leave partitions where they were if possible.

    Members with equal subscriptions end within one partition of each other. Balance comes before stickiness;
    as few partitions move as balance allows, and the larger shares go to members that had more already (Kafka
    class `UniformHomogeneousAssignmentBuilder`, which leaves open who gets them).
    """
    if not members:
        return {}
    if len({member.topics for member in members.values()}) > 1:
        return assign_uniform_mixed(counts, members)
    had = _had(counts, members)
    topics = next(iter(members.values())).topics
    every = [(topic_id, index) for topic_id in sorted(topics) for index in range(counts.get(topic_id, 0))]
    shares = _shares(had, len(every))
    keeps = {member_id: partitions[: shares[member_id]] for member_id, partitions in had.items()}
    taken = {partition for partitions in keeps.values() for partition in partitions}
    free = iter([partition for partition in every if partition not in taken])
    assignment = {}
    for member_id in sorted(members):
        mine = keeps[member_id]
        more = [partition for _, partition in zip(range(shares[member_id] - len(mine)), free, strict=False)]
        assignment[member_id] = partitions_by_topic(mine + more)
    return assignment


def _had(
    counts: Mapping[bytes, int], members: Mapping[str, ServerMember]
) -> dict[str, list[TopicIdPartition]]:
    """Return what members had and may keep; of two that had the same partition, the first."""
    seen: set[TopicIdPartition] = set()
    had = {}
    for member_id, member in members.items():
        had[member_id] = [partition for partition in kept(member, counts) if partition not in seen]
        seen.update(had[member_id])
    return had


def _shares(had: Mapping[str, list[TopicIdPartition]], total: int) -> dict[str, int]:
    share, extra = divmod(total, len(had))
    order = sorted(had, key=lambda member_id: (-len(had[member_id]), member_id))
    return {member_id: share + (position < extra) for position, member_id in enumerate(order)}
