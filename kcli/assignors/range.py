"""range: each topic is cut into contiguous pieces, the larger ones for the first members.

Topics with the same number of partitions and the same members are cut alike, so that partitions with equal
indexes go to the same member. If members have racks, and partitions have replicas in some racks only, members
first get partitions of their own rack, as long as the shares stay equal and equal indexes together; the rest
is cut as usual (KIP-881; Kafka class `RangeAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.members import NO_RACKS, in_order, subscribed_topics
from kcli.protocol.java import java_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kcli.assignors.members import Assignment, MemberSubscription, Racks


def assign(
    counts: Mapping[str, int], members: Mapping[str, MemberSubscription], racks: Racks = NO_RACKS
) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    ordered = in_order({member_id: member.instance_id for member_id, member in members.items()})
    topics = [
        _Topic(topic, counts[topic], [each for each in ordered if topic in members[each].topics])
        for topic in subscribed_topics(counts, members)
    ]
    matches = _RackMatching(members, racks)
    if any(matches.matter(topic) for topic in topics):
        matches.give(topics, assignment)
    for topic in topics:
        topic.cut(assignment, lambda member_id, index: True)
    for partitions in assignment.values():
        partitions.sort(key=lambda partition: (java_order(partition[0]), partition[1]))
    return assignment


class _Topic:
    """A topic, its readers in order, and its partitions that are not assigned yet (`left`)."""

    def __init__(self, name: str, count: int, readers: Sequence[str]) -> None:
        self.name = name
        self.count = count
        self.readers = readers
        self.left = dict.fromkeys(range(count))
        self._share, self._extra = divmod(count, len(readers))
        self._given = dict.fromkeys(readers, 0)

    def room(self, member_id: str) -> int:
        """Return how many more partitions a reader may have."""
        return max(0, self._share + (self._extra > 0) - self._given[member_id])

    def give(self, assignment: Assignment, member_id: str, indexes: Sequence[int]) -> None:
        assignment[member_id] += [(self.name, index) for index in indexes]
        self._given[member_id] += len(indexes)
        self._extra -= self._given[member_id] > self._share
        for index in indexes:
            del self.left[index]

    def cut(self, assignment: Assignment, may_have: Callable[[str, int], bool]) -> None:
        """Give each reader, in order, its share of the partitions left that it may have."""
        for member_id in self.readers:
            fitting = [index for index in self.left if may_have(member_id, index)]
            fitting = fitting[: self.room(member_id)]
            if fitting:
                self.give(assignment, member_id, fitting)


class _RackMatching:
    """Matches members with partitions in their rack. A member without a rack fits every partition."""

    def __init__(self, members: Mapping[str, MemberSubscription], racks: Racks) -> None:
        self._members = members
        self._racks = racks

    def matter(self, topic: _Topic) -> bool:
        """Return whether racks make a difference for a topic."""
        theirs = {rack for each in topic.readers if (rack := self._members[each].rack_id)}
        ours = [self._of(topic, index) for index in range(topic.count)]
        every = frozenset().union(*ours)
        return not theirs.isdisjoint(every) and any(each != every for each in ours)

    def give(self, topics: Iterable[_Topic], assignment: Assignment) -> None:
        """Give members partitions of their rack: of topics that are cut alike, equal indexes together."""
        alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
        for topic in topics:
            alike.setdefault((tuple(topic.readers), topic.count), []).append(topic)
        for group in alike.values():
            if len(group) > 1:
                self._give_together(group, assignment)
            elif self.matter(group[0]):
                topic = group[0]
                topic.cut(assignment, lambda member_id, index, of=topic: self._fits(member_id, of, index))  # type: ignore[misc]

    def _give_together(self, topics: Sequence[_Topic], assignment: Assignment) -> None:
        if not any(self._members[each].rack_id for each in topics[0].readers):
            return
        for index in range(topics[0].count):
            for member_id in topics[0].readers:
                if all(topic.room(member_id) and self._fits(member_id, topic, index) for topic in topics):
                    for topic in topics:
                        topic.give(assignment, member_id, [index])
                    break

    def _fits(self, member_id: str, topic: _Topic, index: int) -> bool:
        rack = self._members[member_id].rack_id
        return not rack or rack in self._of(topic, index)

    def _of(self, topic: _Topic, index: int) -> frozenset[str]:
        return self._racks.get((topic.name, index), frozenset())
