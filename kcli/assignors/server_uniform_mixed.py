"""uniform for members that subscribe to different topics.

First every member keeps what it had and still wants. Then the free partitions go, topic by topic, to the
least loaded of the topic's readers; topics with the most partitions per reader come first, because they
leave the least choice. Last, partitions move from the most to the least loaded reader of their topic until
these differ by one at most. A move can unbalance another topic, so the last step is repeated until a
whole round moves nothing, at most 16 times (Kafka class `UniformHeterogeneousAssignmentBuilder`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from kcli.assignors.server_members import by_topic, kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.assignors.server_members import Partitions, ServerMember

MAX_ROUNDS = 16


def assign(counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> dict[str, Partitions]:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    plan = _Plan(counts, members)
    plan.place_free()
    for _ in range(MAX_ROUNDS):
        moved = [plan.balance(topic_id) for topic_id in plan.topics]
        if not any(moved):
            break
    return plan.assignment()


class _Plan:
    """Who has what while it is being decided. Readers of a topic stand in the order of their member ids."""

    def __init__(self, counts: Mapping[bytes, int], members: Mapping[str, ServerMember]) -> None:
        self._counts = counts
        self._readers: dict[bytes, list[str]] = {}
        for member_id in sorted(members):
            for topic_id in members[member_id].topics:
                self._readers.setdefault(topic_id, []).append(member_id)
        self._owned: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in members}
        self._load = dict.fromkeys(members, 0)
        self._taken: set[tuple[bytes, int]] = set()
        for member_id, member in members.items():
            for topic_id, partition in kept(member, counts):
                self._give(topic_id, partition, member_id)
        self.topics = sorted(self._readers, key=self._least_choice_first)

    def place_free(self) -> None:
        """Give every partition that nobody keeps to the least loaded reader of its topic."""
        for topic_id in self.topics:
            least = self._least_loaded(topic_id)
            for partition in range(self._counts.get(topic_id, 0)):
                if (topic_id, partition) not in self._taken:
                    self._give(topic_id, partition, least[0][1])
                    heapreplace(least, (least[0][0] + 1, least[0][1]))

    def balance(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from its most to its least loaded readers; True if any moved."""
        least = self._least_loaded(topic_id)
        most = [
            (-self._load[member_id], member_id)
            for member_id in self._readers[topic_id]
            if self._owned[member_id].get(topic_id)
        ]
        heapify(most)
        moved = False
        # A receiver never becomes a giver, nor the other way round: both ranges close in on one level.
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
        """Return what was decided."""
        return {
            member_id: by_topic((topic_id, partition) for topic_id in owned for partition in owned[topic_id])
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
