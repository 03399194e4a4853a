"""range: each topic on its own is cut into contiguous pieces, the larger ones for the first members.

Topics with the same number of partitions and the same members are cut alike, so that equal indexes meet in
one member. Where members say in which rack they are, and partitions have replicas in some racks only, members
first get what is in their own rack, as far as the shares stay equal and equal indexes together; the rest is
cut as ever (KIP-881; Kafka class `RangeAssignor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.assignors.members import NO_RACKS, in_order, java_order, subscribed_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kcli.assignors.members import Assignment, Racks, Subscription


def assign(
    counts: Mapping[str, int], members: Mapping[str, Subscription], racks: Racks = NO_RACKS
) -> Assignment:
    """Return every member's partitions; `counts` holds the number of partitions of each topic."""
    assignment: Assignment = {member_id: [] for member_id in members}
    ordered = in_order(members)
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
    """A topic, its readers in order, and what of it nobody has yet."""

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
        """Give partitions to a reader."""
        assignment[member_id] += [(self.name, index) for index in indexes]
        self._given[member_id] += len(indexes)
        self._extra -= self._given[member_id] > self._share
        for index in indexes:
            del self.left[index]

    def cut(self, assignment: Assignment, may_have: Callable[[str, int], bool]) -> None:
        """Give each reader its share of what is left, in order, of what it may have."""
        for member_id in self.readers:
            fitting = [index for index in self.left if may_have(member_id, index)]
            fitting = fitting[: self.room(member_id)]
            if fitting:
                self.give(assignment, member_id, fitting)


class _RackMatching:
    """Who is in the rack of what. A member without a rack is at home in every one."""

    def __init__(self, members: Mapping[str, Subscription], racks: Racks) -> None:
        self._members = members
        self._racks = racks

    def matter(self, topic: _Topic) -> bool:
        """Return whether it makes a difference for a topic who gets what."""
        theirs = {rack for each in topic.readers if (rack := self._members[each].rack_id)}
        ours = [self._of(topic, index) for index in range(topic.count)]
        every = frozenset().union(*ours)
        return not theirs.isdisjoint(every) and any(each != every for each in ours)

    def give(self, topics: Iterable[_Topic], assignment: Assignment) -> None:
        """Give members what is in their racks: of topics that are cut alike, equal indexes together."""
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
